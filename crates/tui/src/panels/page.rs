//! A page: a long text in place of the conversation, such as the plans that wait for an answer. The
//! user scrolls it, and goes on typing below it.

use std::ops::Range;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::{draw_line, titled};
use crate::question::LEAST_WIDTH;
use crate::render::{hides_text, markdown, wrap};
use crate::theme::Theme;

/// The indentation of a text below a heading.
const INDENT: u16 = 2;

/// The width of the first column of a table.
const NAME_CHARS: usize = 22;

/// A page, and the part of it that is on the screen.
#[derive(Debug)]
pub(crate) struct Page {
    title: String,
    blocks: Vec<Block>,
    /// The rows for a width.
    rows: Option<(u16, Vec<Line<'static>>)>,
    /// The number of rows above the screen.
    top: usize,
    /// The height of the last drawing.
    height: usize,
    /// The rows of the last drawing.
    drawn: Range<usize>,
    /// For each row whether it was on the screen. A new layout begins anew.
    seen: Vec<bool>,
    /// Whether every row of one layout was on the screen.
    is_read: bool,
}

/// A part of a page. The texts may contain any characters.
#[derive(Debug)]
enum Block {
    Heading(String),
    Text(String),
    Markdown(String),
    Row(String, String),
    Note(String),
}

impl Page {
    /// Returns an empty page.
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            blocks: Vec::new(),
            rows: None,
            top: 0,
            height: 1,
            drawn: 0..0,
            seen: Vec::new(),
            is_read: false,
        }
    }

    /// Adds a heading.
    pub(crate) fn heading(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Heading(text.into()));
    }

    /// Adds a text below a heading.
    pub(crate) fn text(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Text(text.into()));
    }

    /// Adds a row of a table: a name and its explanation.
    pub(crate) fn row(&mut self, name: impl Into<String>, about: impl Into<String>) {
        self.blocks.push(Block::Row(name.into(), about.into()));
    }

    /// Adds a remark of the interface.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Note(text.into()));
    }

    /// Adds a text that is drawn as markdown. A text of which markdown would hide a part is drawn
    /// as it is written.
    pub(crate) fn markdown(&mut self, text: impl Into<String>) {
        let text = text.into();
        self.blocks.push(match hides_text(&text) {
            true => Block::Text(text),
            false => Block::Markdown(text),
        });
    }

    /// Scrolls by a key. Returns whether the key scrolls. `is_typing` says that the user has typed
    /// a text: then the arrows move in the text.
    pub(crate) fn key(&mut self, key: KeyEvent, is_typing: bool) -> bool {
        if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return false;
        }
        let page = self.height.saturating_sub(1).max(1);
        let top = match key.code {
            KeyCode::PageUp => self.top.saturating_sub(page),
            KeyCode::PageDown => self.top.saturating_add(page),
            KeyCode::Up if !is_typing => self.top.saturating_sub(1),
            KeyCode::Down if !is_typing => self.top.saturating_add(1),
            KeyCode::Home if !is_typing => 0,
            KeyCode::End if !is_typing => usize::MAX,
            _ => return false,
        };
        self.top = top;
        true
    }

    /// Draws the page.
    pub(crate) fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
        let area = area.intersection(frame.area());
        self.height = usize::from(area.height.saturating_sub(1)).max(1);
        let rows = match self.rows.take() {
            Some((width, rows)) if width == area.width => rows,
            Some(_) | None => {
                let rows = self.laid_out(area.width, theme);
                self.seen = vec![false; rows.len()];
                rows
            }
        };
        self.top = self.top.min(rows.len().saturating_sub(self.height));
        let title = Line::from(vec![
            Span::styled(format!("{}: ", self.title), theme.heading),
            Span::styled(self.position(rows.len()), theme.dim),
        ]);
        let inner = titled(frame, area, title, theme, true);
        for (at, row) in rows.iter().skip(self.top).take(self.height).enumerate() {
            draw_line(frame, inner, at, row);
        }
        let end = (self.top + usize::from(inner.height)).min(rows.len());
        // Wide characters are cut on a narrower screen, so no row of it counts.
        self.drawn = if area.width < LEAST_WIDTH { 0..0 } else { self.top.min(end)..end };
        self.rows = Some((area.width, rows));
    }

    /// Marks the rows of the last drawing as seen. The caller leaves this out while something else
    /// covers them.
    pub(crate) fn saw(&mut self) {
        if let Some(rows) = self.seen.get_mut(self.drawn.clone()) {
            rows.fill(true);
        }
        self.is_read |= self.rows.is_some() && self.seen.iter().all(|is_seen| *is_seen);
    }

    /// Returns the number of rows that were not on the screen yet.
    pub(crate) fn unseen_rows(&self) -> usize {
        match self.is_read {
            true => 0,
            false => self.seen.iter().filter(|is_seen| !**is_seen).count(),
        }
    }

    /// Says which rows are on the screen, and which keys show the others.
    fn position(&self, count: usize) -> String {
        if count <= self.height {
            return "Esc closes ".to_owned();
        }
        let last = (self.top + self.height).min(count);
        format!("{}-{last} of {count}, PageDown scrolls, Esc closes ", self.top + 1)
    }

    fn laid_out(&self, width: u16, theme: &Theme) -> Vec<Line<'static>> {
        let mut rows = Vec::new();
        for block in &self.blocks {
            match block {
                Block::Heading(text) => {
                    if !rows.is_empty() {
                        rows.push(Line::default());
                    }
                    rows.extend(wrap(text, width, theme.heading));
                }
                Block::Text(text) => {
                    let lines = wrap(text, width.saturating_sub(INDENT), theme.text);
                    rows.extend(lines.into_iter().map(indented));
                }
                Block::Markdown(text) => {
                    let lines = markdown(text, width.saturating_sub(INDENT), theme);
                    rows.extend(lines.into_iter().map(indented));
                }
                Block::Row(name, about) => rows.extend(table_row(name, about, width, theme)),
                Block::Note(text) => rows.extend(wrap(text, width, theme.dim)),
            }
        }
        rows
    }
}

fn indented(mut line: Line<'static>) -> Line<'static> {
    line.spans.insert(0, Span::raw(" ".repeat(usize::from(INDENT))));
    line
}

/// Lays out a name, and its explanation beside it. The explanation of a long name is below it.
fn table_row(name: &str, about: &str, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let room = width.saturating_sub(u16::try_from(NAME_CHARS).unwrap_or(u16::MAX));
    let is_long = name.width() >= NAME_CHARS;
    let mut rows = Vec::new();
    if is_long {
        rows.extend(wrap(name, width, theme.accent));
    }
    for (at, mut line) in wrap(about, room, theme.text).into_iter().enumerate() {
        let name = if at == 0 && !is_long { name } else { "" };
        line.spans.insert(0, Span::styled(format!("{name:<NAME_CHARS$}"), theme.accent));
        rows.push(line);
    }
    rows
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::theme::ThemeKind;

    fn screen(page: &mut Page, (width, height): (u16, u16)) -> String {
        let theme = Theme::new(ThemeKind::NoColor);
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| page.draw(frame, frame.area(), &theme)).unwrap();
        let screen = terminal.backend().to_string();
        let lines = screen.lines().map(|line| line.trim_matches('"').trim_end());
        lines.collect::<Vec<_>>().join("\n")
    }

    fn press(page: &mut Page, code: KeyCode) -> bool {
        page.key(KeyEvent::new(code, KeyModifiers::NONE), false)
    }

    #[test]
    fn a_page_is_scrolled_to_its_end_and_says_where_it_is() {
        let mut page = Page::new("plans");
        page.heading("bob");
        page.markdown("1. **read** it\n2. change it\n3. test it");
        page.row("/plan approve bob", "approves it");
        page.note("a note");
        assert_snapshot!(screen(&mut page, (60, 4)), @r"
        plans: 1-3 of 6, PageDown scrolls, Esc closes ━━━━━━━━━━━━━━
        bob
          1. read it
          2. change it
        ");
        assert!(press(&mut page, KeyCode::End));
        assert_snapshot!(screen(&mut page, (60, 4)), @r"
        plans: 4-6 of 6, PageDown scrolls, Esc closes ━━━━━━━━━━━━━━
          3. test it
        /plan approve bob     approves it
        a note
        ");
        assert!(press(&mut page, KeyCode::PageUp));
        assert!(screen(&mut page, (60, 4)).contains(" 2-4 of 6"));
        assert_snapshot!(screen(&mut page, (30, 12)), @r"
        plans: Esc closes ━━━━━━━━━━━━
        bob
          1. read it
          2. change it
          3. test it
        /plan approve bob     approves
                              it
        a note
        ");
        assert!(!press(&mut page, KeyCode::Char('x')), "letters are for the line of input");
        let up = KeyEvent::new(KeyCode::Up, KeyModifiers::NONE);
        assert!(!page.key(up, true), "the arrows are for a typed text");
    }

    #[test]
    fn a_text_that_markdown_would_hide_is_drawn_as_it_is_written() {
        let mut page = Page::new("plans");
        page.markdown("see [it]\n\n[it]: http://example.org \"and delete all\"");
        assert!(screen(&mut page, (70, 6)).contains("and delete all"));
        assert!(screen(&mut page, (1, 1)).len() < 8, "a tiny terminal does not panic");
    }
}
