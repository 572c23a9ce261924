//! The lines of a conversation on the screen. Only the visible parts are laid out, and a part that
//! did not change keeps its lines.

use pitcrew_view::conversation::Part;
use ratatui::text::Line;

use super::part_lines::{Length, part_lines};
use crate::panels::Scroll;
use crate::theme::Theme;

/// The lines of a conversation, and the place to which the user has scrolled.
#[derive(Debug, Default)]
pub(crate) struct TalkView {
    entries: Vec<Entry>,
    /// Whether earlier parts exist that are not in the entries.
    is_cut: bool,
    width: u16,
    length: Length,
    scroll: Scroll,
}

/// A part of the conversation, with its lines if they were laid out.
#[derive(Debug)]
struct Entry {
    part: Part,
    lines: Option<Vec<Line<'static>>>,
}

/// How an entry is laid out.
#[derive(Clone, Copy)]
struct Layout<'a> {
    width: u16,
    length: Length,
    theme: &'a Theme,
}

impl TalkView {
    /// Replaces the parts. Parts that stay keep their lines and their place on the screen.
    pub(crate) fn set<'a>(&mut self, parts: impl Iterator<Item = &'a Part>, is_cut: bool) {
        let mut parts = parts.peekable();
        // If the window of the transcript moved, the first parts are gone.
        let gone = match parts.peek() {
            Some(first) if is_cut => self.entries.iter().position(|entry| entry.part == **first),
            Some(_) | None => None,
        };
        self.entries.drain(..gone.unwrap_or(0));
        let known = self.entries.len();
        let mut count = 0;
        for part in parts {
            match self.entries.get_mut(count) {
                Some(entry) if entry.part == *part => {}
                Some(entry) => *entry = Entry::new(part),
                None => self.entries.push(Entry::new(part)),
            }
            count += 1;
        }
        self.entries.truncate(count);
        self.scroll.added(count.saturating_sub(known));
        self.is_cut = is_cut;
    }

    /// Shows whole outputs and thoughts, or only their beginnings.
    pub(crate) fn set_length(&mut self, length: Length) {
        if self.length != length {
            self.length = length;
            self.forget_lines();
        }
    }

    /// Returns the place to which the user has scrolled.
    pub(crate) fn scroll(&mut self) -> &mut Scroll {
        &mut self.scroll
    }

    /// Returns the lines for an area of this size, at most `height` of them.
    pub(crate) fn lines(&mut self, width: u16, height: usize, theme: &Theme) -> Vec<Line<'static>> {
        if self.width != width {
            self.width = width;
            self.forget_lines();
        }
        let layout = Layout { width, length: self.length, theme };
        // The scroll counts entries from the end. The notice about earlier parts is one more.
        let items = self.entries.len() + usize::from(self.is_cut);
        let entries = &mut self.entries;
        let shown = self.scroll.window(items, height, |item| {
            entry_at(entries, item).map_or(1, |entry| entry.lines(layout).len())
        });
        let mut lines = Vec::with_capacity(height);
        for part in shown {
            match entry_at(entries, part.item) {
                Some(entry) => {
                    let shown = entry.lines(layout).iter().skip(part.skip).take(part.rows);
                    lines.extend(shown.cloned());
                }
                None => lines.push(Line::styled("earlier parts are not shown", theme.dim)),
            }
        }
        lines
    }

    fn forget_lines(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.lines = None);
    }
}

impl Entry {
    fn new(part: &Part) -> Self {
        Self { part: part.clone(), lines: None }
    }

    /// Returns the lines of the entry. The last one is empty, and parts the entry from the next.
    fn lines(&mut self, Layout { width, length, theme }: Layout<'_>) -> &[Line<'static>] {
        self.lines.get_or_insert_with(|| {
            let mut lines = part_lines(&self.part, width, length, theme);
            lines.push(Line::default());
            lines
        })
    }
}

/// Returns an entry, which is counted from the end.
fn entry_at(entries: &mut [Entry], item: usize) -> Option<&mut Entry> {
    let at = entries.len().checked_sub(item + 1)?;
    entries.get_mut(at)
}
