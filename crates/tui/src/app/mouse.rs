//! Handles the mouse, if the user has switched it on: the wheel scrolls what is below the pointer,
//! and a click selects an entry of a list.

use std::time::Instant;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

use super::{Action, App, Focus, Leaving};

/// The number of rows that one step of the wheel scrolls.
const WHEEL_ROWS: usize = 3;

/// Where the parts of the screen were drawn last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Places {
    pub(super) conversation: Rect,
    pub(super) panel: Rect,
    pub(super) question: Rect,
}

impl App {
    pub(super) fn mouse(&mut self, event: MouseEvent, at: Instant) -> Vec<Action> {
        if self.leaving == Leaving::Asked {
            return Vec::new();
        }
        let place = Position::new(event.column, event.row);
        match event.kind {
            MouseEventKind::ScrollUp => self.wheel(place, KeyCode::Up, at),
            MouseEventKind::ScrollDown => self.wheel(place, KeyCode::Down, at),
            MouseEventKind::Down(MouseButton::Left) => self.click(place),
            MouseEventKind::Down(MouseButton::Right | MouseButton::Middle)
            | MouseEventKind::Up(_)
            | MouseEventKind::Drag(_)
            | MouseEventKind::Moved
            | MouseEventKind::ScrollLeft
            | MouseEventKind::ScrollRight => {}
        }
        Vec::new()
    }

    /// Scrolls the part of the screen below the pointer, as the arrow keys do.
    fn wheel(&mut self, place: Position, code: KeyCode, at: Instant) {
        let key = KeyEvent::new(code, KeyModifiers::NONE);
        for _ in 0..WHEEL_ROWS {
            // An arrow key only scrolls or selects, so the results need no action.
            if let Some(choosing) = &mut self.choosing {
                choosing.picker.key(key);
            } else if self.places.question.contains(place) {
                self.question.key(key, at);
            } else if self.places.panel.contains(place) {
                self.scroll_panel(key);
            } else if self.focus == Focus::Review {
                self.review.key(key);
            } else if let Some(page) = &mut self.page {
                page.key(key, false);
            } else if self.places.conversation.contains(place) {
                let scroll = self.shown().view().scroll();
                if code == KeyCode::Up { scroll.up(1) } else { scroll.down(1) }
            }
        }
    }

    fn scroll_panel(&mut self, key: KeyEvent) {
        match self.focus {
            Focus::Conversation | Focus::Team | Focus::Review => _ = self.team_list.key(key),
            Focus::Tasks => _ = self.task_board.key(key),
            Focus::Timeline => _ = self.timeline.key(key),
        }
    }

    /// Selects the entry of a list, and gives the keys to the list.
    ///
    /// A click never answers a permission request. A terminal reports a click with its place only:
    /// a request that has just moved there would be answered by a click that was meant for
    /// something else, and a click does not show that anybody has read the call.
    fn click(&mut self, place: Position) {
        if let Some(choosing) = &mut self.choosing {
            choosing.picker.click(place);
            return;
        }
        if self.places.question.contains(place) {
            self.tell("a click answers no request: press the key of the answer");
            return;
        }
        if self.focus == Focus::Review {
            if self.writing.is_none() {
                self.review.click(place);
            }
            return;
        }
        if self.places.panel.contains(place) {
            match self.focus {
                Focus::Conversation | Focus::Team | Focus::Review => {
                    self.focus = Focus::Team;
                    self.team_list.click(place);
                }
                Focus::Tasks => self.task_board.click(place),
                Focus::Timeline => {}
            }
        } else if self.places.conversation.contains(place) {
            self.focus = Focus::Conversation;
        }
    }
}
