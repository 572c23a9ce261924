//! The composer: the text that the user is typing, with its history, completions and pasted texts.

mod completion;
mod history;
mod pastes;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pitcrew_view::text::printable;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Clear, Paragraph};
use ratatui_textarea::{CursorMove, TextArea, WrapMode};
use unicode_width::UnicodeWidthStr as _;

use crate::theme::Theme;
use completion::Completion;
use history::History;
use pastes::Pastes;

/// The maximum number of rows of the text on the screen.
const ROWS_MOST: u16 = 8;

/// The characters in front of the text.
const PROMPT: &str = "> ";

/// The text that the user is typing.
#[derive(Debug)]
pub(crate) struct Composer {
    text: TextArea<'static>,
    /// Whether the user began a message by a key of its own. Its text may still be empty.
    is_begun: bool,
    history: History,
    pastes: Pastes,
    completion: Option<Completion>,
    /// The names of the agents, for completions.
    agents: Vec<String>,
}

/// What a key in the composer means for the application.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum ComposerAct {
    /// The key means nothing here.
    Ignored,
    /// The text, the cursor or the completions changed.
    Changed,
    /// The user sends this text.
    Send(String),
    /// The names of the files that begin with this text are needed ([`Composer::know_files`]).
    ListFiles(String),
}

impl Composer {
    /// Opens an empty composer.
    pub(crate) fn new() -> Self {
        Self {
            text: text_area(""),
            is_begun: false,
            history: History::default(),
            pastes: Pastes::default(),
            completion: None,
            agents: Vec::new(),
        }
    }

    /// Whether nothing is typed.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && !self.is_begun
    }

    /// Begins a message. From now on, each key belongs to its text.
    pub(crate) fn begin(&mut self) {
        self.is_begun = true;
    }

    /// Replaces the text, and puts the cursor behind it.
    pub(crate) fn set(&mut self, text: &str) {
        self.text = text_area(text);
        self.is_begun = false;
        self.completion = None;
    }

    /// Empties the composer.
    pub(crate) fn clear(&mut self) {
        self.set("");
        self.pastes = Pastes::default();
    }

    /// Handles a key.
    pub(crate) fn key(&mut self, key: KeyEvent) -> ComposerAct {
        let plain = !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        match key.code {
            KeyCode::Enter if plain && !key.modifiers.contains(KeyModifiers::SHIFT) => self.enter(),
            KeyCode::Enter => self.edit(|text| text.insert_newline()),
            KeyCode::Char('j') if key.modifiers == KeyModifiers::CONTROL => {
                self.edit(|text| text.insert_newline())
            }
            KeyCode::Char('u') if key.modifiers == KeyModifiers::CONTROL => {
                self.is_begun = false;
                self.edit(|text| _ = text.delete_line_by_head())
            }
            KeyCode::Backspace if self.text.is_empty() => {
                self.is_begun = false;
                ComposerAct::Changed
            }
            KeyCode::Tab if plain => self.accept(),
            KeyCode::Up if plain => self.up(),
            KeyCode::Down if plain => self.down(),
            KeyCode::PageUp | KeyCode::PageDown | KeyCode::Esc | KeyCode::Tab => {
                ComposerAct::Ignored
            }
            _ => self.edit(|text| _ = text.input(key)),
        }
    }

    /// Inserts a pasted text. A long text is shown as a marker.
    pub(crate) fn paste(&mut self, text: &str) -> ComposerAct {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let shown = self.pastes.shown(&text);
        self.edit(|area| _ = area.insert_str(printable(&shown)))
    }

    /// Takes the names of the agents. A name that could control the terminal is left out.
    pub(crate) fn know_agents<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        self.agents = names.filter(|name| printable(name) == *name).map(str::to_owned).collect();
    }

    /// Whether the text is a command.
    pub(crate) fn is_command(&self) -> bool {
        let first = self.text.lines().first().map_or("", String::as_str);
        first.starts_with('/') && !first.starts_with("//")
    }

    /// Whether a list of completions is open.
    pub(crate) fn has_completions(&self) -> bool {
        self.completion.is_some()
    }

    /// Closes the list of completions. Returns whether it was open.
    pub(crate) fn close_completions(&mut self) -> bool {
        self.completion.take().is_some()
    }

    /// Takes the names of the files that begin with `prefix`.
    pub(crate) fn know_files(&mut self, prefix: &str, names: Vec<String>) {
        let word = self.word();
        if word.strip_prefix('@') == Some(prefix) {
            self.completion = Completion::of_files(prefix, names);
        }
    }

    /// Puts a sent text into the history.
    pub(crate) fn remember(&mut self, text: String) {
        self.history.push(text);
    }

    /// Returns the number of rows that the composer needs in this width.
    pub(crate) fn height(&self, width: u16) -> u16 {
        let columns = usize::from(width).saturating_sub(PROMPT.len()).max(1);
        // The cursor needs a column behind the last character.
        let rows = self.text.lines().iter().map(|line| (line.width() + 1).div_ceil(columns));
        u16::try_from(rows.sum::<usize>()).unwrap_or(u16::MAX).clamp(1, ROWS_MOST)
    }

    /// Draws the text. `hint` is shown while nothing is typed.
    pub(crate) fn draw(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        theme: &Theme,
        (hint, has_focus): (&str, bool),
    ) {
        let prompt = u16::try_from(PROMPT.len()).unwrap_or_default().min(area.width);
        let style = if has_focus { theme.accent } else { theme.dim };
        frame.render_widget(Paragraph::new(Line::styled(PROMPT, style)), area);
        let room = Rect { x: area.x + prompt, width: area.width - prompt, ..area };
        let cursor = if has_focus {
            Style::default().add_modifier(Modifier::REVERSED)
        } else {
            Style::default()
        };
        self.text.set_cursor_style(cursor);
        self.text.set_placeholder_text(hint);
        self.text.set_placeholder_style(theme.dim);
        self.text.set_style(theme.text);
        frame.render_widget(&self.text, room);
    }

    /// Draws the list of completions above the composer, whose first row is `row`.
    pub(crate) fn draw_completions(&self, frame: &mut Frame<'_>, row: u16, theme: &Theme) {
        let Some(completion) = &self.completion else { return };
        let whole = frame.area();
        let lines = completion.lines(theme);
        let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).min(row);
        let area = Rect { x: whole.x, y: row - height, width: whole.width, height };
        frame.render_widget(Clear, area);
        frame.render_widget(Paragraph::new(lines), area);
    }

    fn enter(&mut self) -> ComposerAct {
        // If the user has moved in the list, Enter takes the entry. Otherwise it sends the text.
        if self.completion.as_ref().is_some_and(Completion::was_moved) {
            return self.accept();
        }
        let text = self.pastes.whole(&self.text.lines().join("\n"));
        if text.trim().is_empty() {
            return ComposerAct::Ignored;
        }
        self.completion = None;
        ComposerAct::Send(text)
    }

    fn edit(&mut self, change: impl FnOnce(&mut TextArea<'static>)) -> ComposerAct {
        change(&mut self.text);
        self.history.leave();
        self.completion = match self.text.lines() {
            [line] if self.is_command() && self.text.cursor().1 == line.chars().count() => {
                Completion::of_command_line(line, &self.agents)
            }
            _ => None,
        };
        let word = self.word();
        match word.strip_prefix('@') {
            Some(prefix) => ComposerAct::ListFiles(prefix.to_owned()),
            None => ComposerAct::Changed,
        }
    }

    /// Replaces the word at the cursor by the chosen completion.
    fn accept(&mut self) -> ComposerAct {
        let Some(completion) = self.completion.take() else { return ComposerAct::Ignored };
        for _ in 0..self.word().chars().count() {
            self.text.delete_char();
        }
        let word = completion.chosen();
        // After a folder, the next completion is a name in it.
        let ends = if word.ends_with('/') { "" } else { " " };
        self.edit(|text| _ = text.insert_str(format!("{word}{ends}")))
    }

    fn up(&mut self) -> ComposerAct {
        if let Some(completion) = &mut self.completion {
            completion.up();
        } else if self.text.cursor().0 > 0 {
            self.text.move_cursor(CursorMove::Up);
        } else if let Some(text) = self.history.earlier(&self.text.lines().join("\n")) {
            self.text = text_area(&text);
        } else {
            return ComposerAct::Ignored;
        }
        ComposerAct::Changed
    }

    fn down(&mut self) -> ComposerAct {
        if let Some(completion) = &mut self.completion {
            completion.down();
        } else if self.text.cursor().0 + 1 < self.text.lines().len() {
            self.text.move_cursor(CursorMove::Down);
        } else if let Some(text) = self.history.later() {
            self.text = text_area(&text);
        } else {
            return ComposerAct::Ignored;
        }
        ComposerAct::Changed
    }

    /// Returns the part of the word at the cursor that is before the cursor.
    fn word(&self) -> String {
        let (row, column) = (self.text.cursor().0, self.text.cursor().1);
        let Some(line) = self.text.lines().get(row) else { return String::new() };
        let before: Vec<char> = line.chars().take(column).collect();
        let start = before.iter().rposition(|c| c.is_whitespace()).map_or(0, |at| at + 1);
        before.into_iter().skip(start).collect()
    }
}

fn text_area(text: &str) -> TextArea<'static> {
    let mut area = TextArea::new(text.split('\n').map(str::to_owned).collect());
    area.set_cursor_line_style(Style::default());
    area.set_wrap_mode(WrapMode::Glyph);
    area.move_cursor(CursorMove::Bottom);
    area.move_cursor(CursorMove::End);
    area
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(composer: &mut Composer, text: &str) -> ComposerAct {
        let mut act = ComposerAct::Ignored;
        for c in text.chars() {
            act = composer.key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
        }
        act
    }

    fn pressed(composer: &mut Composer, code: KeyCode) -> ComposerAct {
        composer.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn enter_sends_and_alt_enter_breaks_the_line() {
        let mut composer = Composer::new();
        assert_eq!(pressed(&mut composer, KeyCode::Enter), ComposerAct::Ignored);
        let _changed = typed(&mut composer, "one");
        let _changed = composer.key(KeyEvent::new(KeyCode::Enter, KeyModifiers::ALT));
        let _changed = typed(&mut composer, "two");
        assert_eq!(composer.height(80), 2);
        let sent = pressed(&mut composer, KeyCode::Enter);
        assert_eq!(sent, ComposerAct::Send("one\ntwo".to_owned()));
    }

    #[test]
    fn a_long_paste_is_a_marker_on_the_screen_and_whole_when_it_is_sent() {
        let mut composer = Composer::new();
        let long = "line\r\n".repeat(40);
        let _changed = typed(&mut composer, "see ");
        let _changed = composer.paste(&long);
        let _changed = composer.paste("a short one");
        assert_eq!(composer.text.lines().join("\n"), "see [pasted text 1: 40 lines]a short one");
        let whole = format!("see {}a short one", "line\n".repeat(40));
        assert_eq!(pressed(&mut composer, KeyCode::Enter), ComposerAct::Send(whole));
    }

    #[test]
    fn a_pasted_text_cannot_steer_the_terminal() {
        let mut composer = Composer::new();
        let _changed = composer.paste("a\u{1b}[2Jb");
        assert_eq!(composer.text.lines(), ["a\u{fffd}[2Jb"]);
    }

    #[test]
    fn the_names_of_files_and_commands_are_completed() {
        let mut composer = Composer::new();
        assert_eq!(typed(&mut composer, "see @sr"), ComposerAct::ListFiles("sr".to_owned()));
        composer.know_files("older", vec!["older.rs".to_owned()]);
        assert_eq!(pressed(&mut composer, KeyCode::Tab), ComposerAct::Ignored);
        composer.know_files("sr", vec!["src/".to_owned(), "srv.rs".to_owned()]);
        let next = pressed(&mut composer, KeyCode::Tab);
        assert_eq!(next, ComposerAct::ListFiles("src/".to_owned()));
        assert_eq!(composer.text.lines(), ["see @src/"]);
        composer.clear();
        let _changed = typed(&mut composer, "/ta");
        assert_eq!(pressed(&mut composer, KeyCode::Tab), ComposerAct::Changed);
        assert_eq!(composer.text.lines(), ["/tasks "]);
    }

    #[test]
    fn earlier_messages_come_back_and_the_draft_too() {
        let mut composer = Composer::new();
        composer.remember("first".to_owned());
        composer.remember("second\nwith a line".to_owned());
        let _changed = typed(&mut composer, "draft");
        let shown = |composer: &mut Composer, code| {
            let _either = pressed(composer, code);
            composer.text.lines().join("|")
        };
        assert_eq!(shown(&mut composer, KeyCode::Up), "second|with a line");
        assert_eq!(shown(&mut composer, KeyCode::Up), "second|with a line", "the cursor moves");
        assert_eq!(shown(&mut composer, KeyCode::Up), "first");
        assert_eq!(shown(&mut composer, KeyCode::Up), "first");
        assert_eq!(shown(&mut composer, KeyCode::Down), "second|with a line");
        assert_eq!(shown(&mut composer, KeyCode::Down), "draft");
    }
}
