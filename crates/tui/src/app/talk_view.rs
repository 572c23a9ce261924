//! The lines of a conversation on the screen. Only the visible parts are laid out, and a part that
//! did not change keeps its lines.

use pitcrew_view::conversation::Part;
use ratatui::text::Line;

use super::part_lines::{Length, part_lines};
use crate::theme::Theme;

/// The lines of a conversation, and the place to which the user has scrolled.
#[derive(Debug, Default)]
pub(crate) struct TalkView {
    entries: Vec<Entry>,
    /// Whether earlier parts exist that are not in the entries.
    is_cut: bool,
    width: u16,
    /// The number of rows of the last drawing.
    height: usize,
    length: Length,
    /// The first line on the screen. `None` means that the end is on the screen and stays there.
    top: Option<Place>,
}

/// A part of the conversation, with its lines if they were laid out.
#[derive(Debug)]
struct Entry {
    part: Part,
    lines: Option<Vec<Line<'static>>>,
}

/// A line of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    entry: usize,
    line: usize,
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
        let gone = gone.unwrap_or(0);
        self.entries.drain(..gone);
        if let Some(top) = &mut self.top {
            top.entry = top.entry.saturating_sub(gone);
        }
        let mut count = 0;
        for part in parts {
            match self.entries.get_mut(count) {
                Some(entry) if entry.part == *part => {}
                Some(entry) => *entry = Entry { part: part.clone(), lines: None },
                None => self.entries.push(Entry { part: part.clone(), lines: None }),
            }
            count += 1;
        }
        self.entries.truncate(count);
        // The first part says whether earlier parts exist.
        if (gone > 0 || self.is_cut != is_cut)
            && let Some(first) = self.entries.first_mut()
        {
            first.lines = None;
        }
        self.is_cut = is_cut;
    }

    /// Shows whole outputs and thoughts, or only their beginnings.
    pub(crate) fn set_length(&mut self, length: Length) {
        if self.length != length {
            self.length = length;
            self.forget_lines();
        }
    }

    /// Returns the lines for an area of this size. At most `height` lines are returned.
    pub(crate) fn lines(&mut self, width: u16, height: usize, theme: &Theme) -> Vec<Line<'static>> {
        if self.width != width {
            self.width = width;
            self.forget_lines();
        }
        self.height = height;
        let top = match self.top {
            Some(top) if self.fills_from(top, theme) => top,
            Some(_) | None => {
                self.top = None;
                self.back(self.end(), height, theme)
            }
        };
        self.from(top, height, theme)
    }

    /// Scrolls towards the beginning.
    pub(crate) fn up(&mut self, lines: usize, theme: &Theme) {
        let top = match self.top {
            Some(top) => top,
            None => self.back(self.end(), self.height, theme),
        };
        self.top = Some(self.back(top, lines, theme));
    }

    /// Scrolls towards the end. At the end, new lines are followed again.
    pub(crate) fn down(&mut self, lines: usize, theme: &Theme) {
        let Some(mut place) = self.top else { return };
        for _ in 0..lines {
            place = self.next(place, theme);
        }
        self.top = self.fills_from(place, theme).then_some(place);
    }

    /// Scrolls to the end, and follows new lines.
    pub(crate) fn to_end(&mut self) {
        self.top = None;
    }

    /// Whether the end is on the screen.
    pub(crate) fn is_at_end(&self) -> bool {
        self.top.is_none()
    }

    fn forget_lines(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.lines = None);
    }

    /// The place behind the last line.
    fn end(&self) -> Place {
        Place { entry: self.entries.len(), line: 0 }
    }

    /// Returns the number of lines of an entry.
    fn count(&mut self, entry: usize, theme: &Theme) -> usize {
        self.lines_of(entry, theme).len()
    }

    fn lines_of(&mut self, entry: usize, theme: &Theme) -> &[Line<'static>] {
        let (width, length) = (self.width, self.length);
        let is_first = entry == 0;
        let is_cut = self.is_cut && is_first;
        let Some(entry) = self.entries.get_mut(entry) else { return &[] };
        entry.lines.get_or_insert_with(|| {
            let mut lines = Vec::new();
            if is_cut {
                lines.push(Line::styled("earlier parts are not shown", theme.dim));
            }
            if is_cut || !is_first {
                lines.push(Line::default());
            }
            lines.extend(part_lines(&entry.part, width, length, theme));
            lines
        })
    }

    /// Whether there are enough lines from this place on to fill the screen.
    fn fills_from(&mut self, place: Place, theme: &Theme) -> bool {
        let mut left = self.height;
        let mut skipped = place.line;
        for entry in place.entry..self.entries.len() {
            let count = self.count(entry, theme).saturating_sub(skipped);
            skipped = 0;
            left = left.saturating_sub(count);
            if left == 0 {
                return true;
            }
        }
        false
    }

    /// Returns the place that is so many lines before another.
    fn back(&mut self, place: Place, lines: usize, theme: &Theme) -> Place {
        let mut left = lines;
        let mut at = place;
        loop {
            if at.line >= left {
                return Place { line: at.line - left, ..at };
            }
            left -= at.line;
            let Some(entry) = at.entry.checked_sub(1) else {
                return Place { entry: 0, line: 0 };
            };
            at = Place { entry, line: self.count(entry, theme) };
        }
    }

    fn next(&mut self, place: Place, theme: &Theme) -> Place {
        let mut next = Place { line: place.line + 1, ..place };
        while next.entry < self.entries.len() && next.line >= self.count(next.entry, theme) {
            next = Place { entry: next.entry + 1, line: 0 };
        }
        next
    }

    fn from(&mut self, top: Place, height: usize, theme: &Theme) -> Vec<Line<'static>> {
        let mut shown = Vec::with_capacity(height);
        let mut skipped = top.line;
        for entry in top.entry..self.entries.len() {
            let room = height - shown.len();
            if room == 0 {
                break;
            }
            let lines = self.lines_of(entry, theme).iter().skip(skipped).take(room);
            shown.extend(lines.cloned());
            skipped = 0;
        }
        shown
    }
}
