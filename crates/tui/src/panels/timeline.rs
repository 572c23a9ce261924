//! The timeline: the mail, the tasks and the agents' starts and ends, with filters.
//!
//! Only the visible entries are laid out. A filter is applied from the end backwards, and only as
//! far as the window reaches, so neither a drawing nor a new filter looks at a whole long timeline.

mod filter;
mod lines;
mod matches;

use std::collections::HashMap;

use crossterm::event::{KeyCode, KeyEvent};
use pitcrew_view::TeamState;
use pitcrew_view::state::Timeline;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::cell::cut;
use super::scroll::Scroll;
use super::{Movement, PanelAct, draw_line, letter, titled};
use crate::theme::Theme;
use filter::Filter;
use lines::EntryLines;
use matches::Matches;

/// The timeline of a team.
#[derive(Clone, Debug, Default)]
pub struct TimelineView {
    filter: Filter,
    /// Whether the user types a search.
    is_searching: bool,
    /// Whether the entries are shown with their whole texts.
    is_open: bool,
    matches: Matches,
    scroll: Scroll,
}

impl TimelineView {
    /// Returns a timeline without a filter, at its end.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether letters are typed into the search now, so that they are no commands.
    #[must_use]
    pub fn is_searching(&self) -> bool {
        self.is_searching
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) -> PanelAct {
        let movement = match self.is_searching {
            true => Movement::of(key),
            false => Movement::of_any(key),
        };
        if let Some(movement) = movement {
            match movement {
                Movement::Up => self.scroll.up(1),
                Movement::Down => self.scroll.down(1),
                Movement::PageUp => self.scroll.page_up(),
                Movement::PageDown => self.scroll.page_down(),
                Movement::Start => self.scroll.to_start(),
                Movement::End => self.scroll.to_end(),
            }
            return PanelAct::Redraw;
        }
        if self.is_searching { self.search_key(key) } else { self.command_key(key) }
    }

    fn search_key(&mut self, key: KeyEvent) -> PanelAct {
        match key.code {
            KeyCode::Enter => self.is_searching = false,
            KeyCode::Esc => {
                self.is_searching = false;
                self.filter.query.clear();
            }
            _ if self.filter.query.key(key) => {}
            _ => return PanelAct::None,
        }
        PanelAct::Redraw
    }

    fn command_key(&mut self, key: KeyEvent) -> PanelAct {
        match (key.code, letter(key)) {
            (KeyCode::Esc, _) if self.filter == Filter::default() => return PanelAct::Close,
            (KeyCode::Esc, _) => self.filter = Filter::default(),
            (_, Some('/')) => self.is_searching = true,
            (_, Some('f')) => self.filter.kind = self.filter.kind.next(),
            (_, Some('o')) => self.is_open = !self.is_open,
            (_, Some(_) | None) => return PanelAct::None,
        }
        PanelAct::Redraw
    }

    /// Draws the timeline.
    pub fn draw(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        state: &TeamState,
        theme: &Theme,
        is_focused: bool,
    ) {
        let title = Line::styled(self.title(usize::from(area.width)), theme.heading);
        let mut list = titled(frame, area, title, theme, is_focused);
        if is_focused && list.height > 1 {
            list.height -= 1;
            let last = Rect { y: list.y + list.height, height: 1, ..list };
            draw_line(frame, last, 0, &self.foot(usize::from(list.width), theme));
        }
        self.find(&state.timeline, usize::from(list.height));
        let layout = EntryLines { agents: &state.agents, width: list.width, theme };
        let mut laid_out: HashMap<usize, Vec<Line<'static>>> = HashMap::new();
        let parts = self.scroll.window(self.matches.count(), usize::from(list.height), |item| {
            if !self.is_open {
                return 1;
            }
            let lines = laid_out.entry(item).or_insert_with(|| {
                let entry = self.matches.entry(&state.timeline, item);
                entry.map(|entry| layout.open(entry)).unwrap_or_default()
            });
            lines.len()
        });
        let mut row = 0;
        for part in &parts {
            let lines = match laid_out.remove(&part.item) {
                Some(lines) => lines,
                None => {
                    let entry = self.matches.entry(&state.timeline, part.item);
                    entry.map(|entry| vec![layout.folded(entry)]).unwrap_or_default()
                }
            };
            for line in lines.iter().skip(part.skip).take(part.rows) {
                draw_line(frame, list, row, line);
                row += 1;
            }
        }
        if parts.is_empty() && list.height > 0 {
            let is_empty = state.timeline.entries().len() == 0;
            let said = if is_empty { "nothing happened yet" } else { "nothing found" };
            draw_line(frame, list, 0, &Line::styled(said, theme.dim));
        }
    }

    /// Finds the entries that the next window can show.
    fn find(&mut self, timeline: &Timeline, height: usize) {
        if self.matches.prepare(timeline, &self.filter) {
            self.scroll.to_end();
        }
        let added = self.matches.follow(timeline);
        self.scroll.added(added);
        self.matches.reach_back(timeline, self.scroll.reach(height));
    }

    fn title(&self, width: usize) -> String {
        let mut title = "timeline".to_owned();
        if self.filter != Filter::default() {
            title.push_str(&format!("  {}", self.filter));
        }
        if !self.scroll.is_at_end() {
            title.push_str("  (End follows it)");
        }
        cut(&title, width.saturating_sub(1)) + " "
    }

    /// Returns the line below the entries: the search, or the keys.
    fn foot(&self, width: usize, theme: &Theme) -> Line<'static> {
        if !self.is_searching {
            let whole = if self.is_open { "short texts" } else { "whole texts" };
            let keys = format!("/: search  f: {}  o: {whole}", self.filter.kind.next());
            return Line::styled(cut(&keys, width), theme.dim);
        }
        let typed = match self.filter.query.is_empty() {
            true => Span::styled("words, and @NAME of an agent", theme.dim),
            false => Span::styled(cut(self.filter.query.text(), width), theme.text),
        };
        Line::from(vec![Span::styled("/", theme.accent), typed, Span::styled("_", theme.accent)])
    }
}

#[cfg(test)]
mod tests;
