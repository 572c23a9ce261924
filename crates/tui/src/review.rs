//! The review of the team's changes: file by file as a diff. The user comments on a line, sends the
//! work back, or accepts it.
//!
//! The caller reads the changes ([`pitcrew_view::changes`]), reads both versions of a file when the
//! view wants one, and carries out the effects. `header` draws the state of the branch.

mod header;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use pitcrew_protocol::AgentName;
use pitcrew_view::changes::{FileText, MemberChanges, Versions, comment};
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;

use crate::panels::RowItems;
use crate::render::{DiffRow, clean, diff_rows, wrap};
use crate::theme::Theme;

/// The view of all changes.
#[derive(Debug, Default)]
pub struct ReviewView {
    all: Vec<MemberChanges>,
    member: usize,
    file: usize,
    /// Both versions of the file, or why they cannot be read. `None` until they are read.
    versions: Option<Result<Versions, String>>,
    drawn: Option<Drawn>,
    /// The selected row of the diff.
    cursor: usize,
    /// The first row of the diff on the screen.
    top: usize,
    /// The number of rows of the diff on the screen.
    window: usize,
    /// The rows of the diff by their places on the screen.
    rows: RowItems<usize>,
    /// The text that the user types now is for this.
    writing: Option<Writing>,
    /// Whether the user has asked once to accept the changes.
    is_accepting: bool,
}

/// The rows of a file for a width and a theme.
#[derive(Debug)]
struct Drawn {
    rows: Vec<DiffRow>,
    width: u16,
    theme: Theme,
}

/// A message that the user types.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Writing {
    Comment { to: AgentName, file: String, line: Option<usize>, quoted: String },
    SendBack { to: AgentName },
}

/// The effect of a key on the review.
#[derive(Clone, Debug, PartialEq)]
pub enum ReviewAct {
    /// The key is not for the review.
    None,
    /// The screen must be drawn again.
    Redraw,
    /// Nothing was done. The text says why.
    Refused(String),
    /// Both versions of the file in [`ReviewView::wanted`] must be read.
    Load,
    /// The user types a text. The caller reads it, and passes it to [`ReviewView::written`]. The
    /// text says what is written.
    Write(String),
    /// A message to send to a member, as the user.
    Send {
        /// The member.
        to: AgentName,
        /// The text of the message.
        text: String,
    },
    /// The changes to merge.
    Accept(Box<MemberChanges>),
    /// The user closes the review.
    Close,
}

impl ReviewView {
    /// Creates a view of these changes.
    #[must_use]
    pub fn new(all: Vec<MemberChanges>) -> Self {
        Self { all, ..Self::default() }
    }

    /// Returns the file whose versions are not read yet, with its author's changes.
    #[must_use]
    pub fn wanted(&self) -> Option<(&MemberChanges, &str)> {
        if self.versions.is_some() {
            return None;
        }
        let changes = self.all.get(self.member)?;
        Some((changes, changes.files.get(self.file)?.as_str()))
    }

    /// Takes both versions of a file of a member, or the reason why they cannot be read. If another
    /// file is on the screen by now, they are dropped.
    pub fn loaded(&mut self, author: &AgentName, file: &str, versions: Result<Versions, String>) {
        let is_wanted = self
            .wanted()
            .is_some_and(|(changes, wanted)| changes.author == *author && wanted == file);
        if is_wanted {
            self.versions = Some(versions);
        }
    }

    /// Takes the text that the user has typed after [`ReviewAct::Write`].
    pub fn written(&mut self, text: &str) -> ReviewAct {
        let text = text.trim();
        match self.writing.take() {
            None => ReviewAct::None,
            Some(_) if text.is_empty() => ReviewAct::Refused("nothing was sent".to_owned()),
            Some(Writing::Comment { to, file, line, quoted }) => {
                ReviewAct::Send { to, text: comment(&file, line, &quoted, text) }
            }
            Some(Writing::SendBack { to }) => {
                let text = format!("Your changes were reviewed and need more work:\n\n{text}");
                ReviewAct::Send { to, text }
            }
        }
    }

    /// Interprets a key.
    pub fn key(&mut self, key: KeyEvent) -> ReviewAct {
        let with_command = key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        if key.kind == KeyEventKind::Release || with_command {
            return ReviewAct::None;
        }
        let was_accepting = std::mem::take(&mut self.is_accepting);
        let page = self.window.saturating_sub(1).max(1);
        match key.code {
            KeyCode::Esc | KeyCode::Char('q') => ReviewAct::Close,
            KeyCode::Down => self.select(self.cursor.saturating_add(1)),
            KeyCode::Up => self.select(self.cursor.saturating_sub(1)),
            KeyCode::PageDown => self.select(self.cursor.saturating_add(page)),
            KeyCode::PageUp => self.select(self.cursor.saturating_sub(page)),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(usize::MAX),
            KeyCode::Right => self.open(self.member, next(self.file, self.file_count())),
            KeyCode::Left => self.open(self.member, before(self.file, self.file_count())),
            KeyCode::Tab => self.open(next(self.member, self.all.len()), 0),
            KeyCode::BackTab => self.open(before(self.member, self.all.len()), 0),
            KeyCode::Char('c') => self.comment(),
            KeyCode::Char('x') => self.send_back(),
            KeyCode::Char('a') => self.accept(was_accepting),
            _ => ReviewAct::None,
        }
    }

    /// Selects the line at which the user clicks.
    pub fn click(&mut self, place: Position) {
        if let Some(row) = self.rows.at(place) {
            self.is_accepting = false;
            self.cursor = *row;
        }
    }

    /// Draws the review.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
        let area = area.intersection(frame.area());
        let mut lines = header::lines(&self.all, self.member, self.file, area.width, theme);
        let keys = self.keys(area.width, theme);
        let room = usize::from(area.height).saturating_sub(lines.len() + keys.len());
        self.lay_out(area.width, theme);
        self.window = room;
        let rows = self.drawn.as_ref().map(|drawn| drawn.rows.as_slice()).unwrap_or_default();
        self.cursor = self.cursor.min(rows.len().saturating_sub(1));
        // The selected row stays on the screen.
        let lowest = self.cursor.saturating_sub(room.saturating_sub(1));
        self.top = self.top.clamp(lowest, self.cursor);
        let above = count(&lines).min(area.height);
        let first = Rect { y: area.y + above, height: area.height - above, ..area };
        let drawn = (0..rows.len()).skip(self.top).take(room);
        self.rows = RowItems::drawn(first, drawn.map(Some));
        for (at, row) in rows.iter().enumerate().skip(self.top).take(room) {
            let style = if at == self.cursor { theme.selected } else { theme.text };
            lines.push(selected(&row.line, style));
        }
        let filled = usize::from(area.height).saturating_sub(keys.len());
        lines.resize(filled.max(lines.len()), Line::default());
        lines.extend(keys);
        for (line, y) in lines.iter().zip(area.top()..area.bottom()) {
            frame.render_widget(line, Rect { y, height: 1, ..area });
        }
    }

    fn file_count(&self) -> usize {
        self.all.get(self.member).map_or(0, |changes| changes.files.len())
    }

    fn select(&mut self, row: usize) -> ReviewAct {
        let count = self.drawn.as_ref().map_or(0, |drawn| drawn.rows.len());
        self.cursor = row.min(count.saturating_sub(1));
        ReviewAct::Redraw
    }

    fn open(&mut self, member: usize, file: usize) -> ReviewAct {
        if (member, file) != (self.member, self.file) {
            (self.member, self.file) = (member, file);
            (self.cursor, self.top) = (0, 0);
            (self.versions, self.drawn) = (None, None);
        }
        if self.wanted().is_some() { ReviewAct::Load } else { ReviewAct::Redraw }
    }

    fn comment(&mut self) -> ReviewAct {
        let Some(changes) = self.all.get(self.member) else { return ReviewAct::None };
        let Some(file) = changes.files.get(self.file) else {
            return ReviewAct::Refused("there is no file to comment on".to_owned());
        };
        let row = self.drawn.as_ref().and_then(|drawn| drawn.rows.get(self.cursor));
        let place = row.and_then(|row| row.place.as_ref());
        let (line, quoted) = match place {
            Some(place) => (Some(place.number), format!("{} {}", place.sign, place.text)),
            None => (None, String::new()),
        };
        let where_to = line.map_or_else(|| file.clone(), |line| format!("{file}, line {line}"));
        let what = format!("comment for {} on {}", changes.author, clean(&where_to));
        let (to, file) = (changes.author.clone(), file.clone());
        self.writing = Some(Writing::Comment { to, file, line, quoted });
        ReviewAct::Write(what)
    }

    fn send_back(&mut self) -> ReviewAct {
        let Some(changes) = self.all.get(self.member) else { return ReviewAct::None };
        let to = changes.author.clone();
        let what = format!("what {to} must change");
        self.writing = Some(Writing::SendBack { to });
        ReviewAct::Write(what)
    }

    fn accept(&mut self, was_accepting: bool) -> ReviewAct {
        let Some(changes) = self.all.get(self.member) else { return ReviewAct::None };
        let Some(branch) = &changes.branch else {
            let author = &changes.author;
            let why = format!("{author} has no worktree: its files are in the folder already");
            return ReviewAct::Refused(why);
        };
        if branch.ahead == 0 {
            return ReviewAct::Refused(format!("{} has no commit to merge", branch.branch));
        }
        if was_accepting {
            return ReviewAct::Accept(Box::new(changes.clone()));
        }
        self.is_accepting = true;
        ReviewAct::Redraw
    }

    /// Computes the rows of the file if the file, the width or the theme has changed.
    fn lay_out(&mut self, width: u16, theme: &Theme) {
        let is_right = |drawn: &Drawn| drawn.width == width && drawn.theme == *theme;
        if self.drawn.as_ref().is_some_and(is_right) {
            return;
        }
        let Some(versions) = &self.versions else { return };
        let file = self.all.get(self.member).and_then(|changes| changes.files.get(self.file));
        let note = |text: &str, style| {
            let lines = wrap(text, width, style);
            lines.into_iter().map(|line| DiffRow { line, place: None }).collect()
        };
        let rows = match versions {
            Err(why) => note(&format!("the file cannot be read: {why}"), theme.error),
            Ok(Versions { before, after }) => match (text_of(before), text_of(after)) {
                (Ok(before), Ok(after)) => {
                    let path = file.map(String::as_str).unwrap_or_default();
                    diff_rows(before, after, path, width, theme)
                }
                (Err(why), _) => note(&format!("before the change: {why}"), theme.warning),
                (_, Err(why)) => note(&format!("after the change: {why}"), theme.warning),
            },
        };
        self.drawn = Some(Drawn { rows, width, theme: theme.clone() });
    }

    fn keys(&self, width: u16, theme: &Theme) -> Vec<Line<'static>> {
        let branch = self.all.get(self.member).and_then(|changes| changes.branch.as_ref());
        if let Some(branch) = branch.filter(|_| self.is_accepting) {
            let (name, base) = (&branch.branch, &branch.base);
            let text = format!("a again merges {name} into {base}, any other key does not");
            return wrap(&text, width, theme.warning);
        }
        let text = "[c] comment  [x] send back  [a] accept  [←→] file  [Tab] member  [Esc] close";
        wrap(text, width, theme.accent)
    }
}

fn count(lines: &[Line<'_>]) -> u16 {
    u16::try_from(lines.len()).unwrap_or(u16::MAX)
}

/// Returns the text of a version, or why it is not shown. A missing file is empty.
fn text_of(version: &FileText) -> Result<&str, &str> {
    match version {
        FileText::Missing => Ok(""),
        FileText::Text(text) => Ok(text),
        FileText::NotShown(why) => Err(why),
    }
}

fn next(at: usize, count: usize) -> usize {
    if at + 1 < count { at + 1 } else { 0 }
}

fn before(at: usize, count: usize) -> usize {
    at.checked_sub(1).unwrap_or(count.saturating_sub(1))
}

fn selected(line: &Line<'static>, style: ratatui::style::Style) -> Line<'static> {
    let spans = line.spans.iter().map(|span| {
        let patched = line.style.patch(span.style).patch(style);
        span.clone().style(patched)
    });
    Line::from_iter(spans)
}

#[cfg(test)]
mod tests;
