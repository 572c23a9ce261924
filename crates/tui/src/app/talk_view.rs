//! The lines of a conversation on the screen. Only the visible parts are laid out, and a part that
//! did not change keeps its lines.

use pitcrew_view::conversation::Part;
use ratatui::text::Line;

use super::part_lines::{Length, part_lines};
use crate::panels::Scroll;
use crate::render::LiveMarkdown;
use crate::theme::Theme;

/// The lines of a conversation, and the place to which the user has scrolled.
#[derive(Debug, Default)]
pub(crate) struct TalkView {
    entries: Vec<Entry>,
    /// The text that the model is writing.
    live: Option<Live>,
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

/// A text that is being written.
#[derive(Debug, Default)]
struct Live {
    text: String,
    markdown: LiveMarkdown,
}

/// How an entry is laid out.
#[derive(Clone, Copy)]
struct Layout<'a> {
    width: u16,
    length: Length,
    theme: &'a Theme,
}

impl TalkView {
    /// Replaces the parts, and the text that is being written after them. Parts that stay keep their
    /// lines and their place on the screen.
    pub(crate) fn set<'a>(
        &mut self,
        parts: impl Iterator<Item = &'a Part>,
        live: &str,
        is_cut: bool,
    ) {
        let mut parts = parts.peekable();
        // If the window of the transcript moved, the first parts are gone.
        let gone = match parts.peek() {
            Some(first) if is_cut => self.entries.iter().position(|entry| entry.part == **first),
            Some(_) | None => None,
        };
        self.entries.drain(..gone.unwrap_or(0));
        let known = self.entries.len() + usize::from(self.live.is_some());
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
        self.set_live(live);
        self.is_cut = is_cut;
        let now = count + usize::from(self.live.is_some());
        self.scroll.added(now.saturating_sub(known));
    }

    fn set_live(&mut self, text: &str) {
        if text.trim().is_empty() {
            self.live = None;
            return;
        }
        let live = self.live.get_or_insert_default();
        // Only a text that continues the text before keeps the lines of that text.
        if !text.starts_with(&live.text) {
            *live = Live::default();
        }
        text.clone_into(&mut live.text);
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
        let mut parts = Parts { entries: &mut self.entries, live: self.live.as_mut() };
        // The notice about earlier parts is one item more.
        let items = parts.count() + usize::from(self.is_cut);
        let shown = self
            .scroll
            .window(items, height, |item| parts.lines(item, layout).map_or(1, <[_]>::len));
        let mut lines = Vec::with_capacity(height);
        for part in shown {
            match parts.lines(part.item, layout) {
                Some(all) => lines.extend(all.iter().skip(part.skip).take(part.rows).cloned()),
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

/// The parts of the conversation, counted from the end.
struct Parts<'a> {
    entries: &'a mut [Entry],
    live: Option<&'a mut Live>,
}

impl Parts<'_> {
    fn count(&self) -> usize {
        self.entries.len() + usize::from(self.live.is_some())
    }

    /// Returns the lines of a part.
    fn lines(&mut self, item: usize, layout: Layout<'_>) -> Option<&[Line<'static>]> {
        let before_live = match &mut self.live {
            Some(live) if item == 0 => {
                live.markdown.update(&live.text, layout.width, layout.theme);
                return Some(live.markdown.lines());
            }
            Some(_) => item - 1,
            None => item,
        };
        let at = self.entries.len().checked_sub(before_live + 1)?;
        Some(self.entries.get_mut(at)?.lines(layout))
    }
}
