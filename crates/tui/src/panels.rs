//! The panels beside the conversation: the team, its tasks, its timeline, and a list to choose
//! from.
//!
//! A panel holds only the state of its display, such as the selected row. It draws the state of the
//! team that it is given, and answers a key with a [`PanelAct`]. A key applies to what the panel drew
//! last. A panel looks only at the entries that are visible, so drawing takes the same time however
//! long a list is.
//!
//! - [`agent_card`] shows what is known of one agent, [`session_summary`] of a session.
//! - [`team_list`] lists the agents, first those that need input.
//! - [`task_board`] lists the tasks with their dependencies.
//! - [`timeline`] shows the mail and the events of the team.
//! - `page` shows a long text in place of the conversation.
//! - [`picker`] lets the user search a list and choose an item.
//! - [`scroll`] computes the visible part of a long content.

pub mod agent_card;
pub(crate) mod cell;
mod clicks;
mod page;
pub mod picker;
mod query;
#[cfg(test)]
mod sample;
pub mod scroll;
pub mod session_summary;
pub mod task_board;
pub mod team_list;
pub mod timeline;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pitcrew_protocol::AgentName;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Block, BorderType, Borders};

pub(crate) use clicks::RowItems;
pub(crate) use page::Page;
pub use picker::{Picker, PickerItem};
pub use scroll::Scroll;
pub use task_board::TaskBoard;
pub use team_list::TeamList;
pub use timeline::TimelineView;

use crate::theme::Theme;

/// What a key in a panel asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PanelAct {
    /// The key has no meaning in the panel.
    None,
    /// The panel must be drawn again.
    Redraw,
    /// Show the conversation of this agent.
    Peek(AgentName),
    /// Show the pane of this agent.
    OpenPane(AgentName),
    /// Write a message to this agent.
    Message(AgentName),
    /// The user chose the item with this index.
    Chosen(usize),
    /// Close the panel.
    Close,
}

/// A movement in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Movement {
    Up,
    Down,
    PageUp,
    PageDown,
    Start,
    End,
}

impl Movement {
    /// Returns the movement of a key that is not a letter.
    fn of(key: KeyEvent) -> Option<Self> {
        match (key.code, key.modifiers) {
            (KeyCode::Up, _) | (KeyCode::Char('p'), KeyModifiers::CONTROL) => Some(Self::Up),
            (KeyCode::Down, _) | (KeyCode::Char('n'), KeyModifiers::CONTROL) => Some(Self::Down),
            (KeyCode::PageUp, _) => Some(Self::PageUp),
            (KeyCode::PageDown, _) => Some(Self::PageDown),
            (KeyCode::Home, _) => Some(Self::Start),
            (KeyCode::End, _) => Some(Self::End),
            _ => None,
        }
    }

    /// Returns the movement of a key, in a panel where letters are commands.
    fn of_any(key: KeyEvent) -> Option<Self> {
        match letter(key) {
            Some('k') => Some(Self::Up),
            Some('j') => Some(Self::Down),
            Some('g') => Some(Self::Start),
            Some('G') => Some(Self::End),
            Some(_) | None => Self::of(key),
        }
    }

    /// Returns the index after this movement in a list. `page` is the height of the list.
    fn applied(self, index: usize, count: usize, page: usize) -> usize {
        let last = count.saturating_sub(1);
        let page = page.saturating_sub(1).max(1);
        let index = match self {
            Self::Up => index.saturating_sub(1),
            Self::Down => index.saturating_add(1),
            Self::PageUp => index.saturating_sub(page),
            Self::PageDown => index.saturating_add(page),
            Self::Start => 0,
            Self::End => last,
        };
        index.min(last)
    }
}

/// Returns the letter of a key without Ctrl and Alt.
fn letter(key: KeyEvent) -> Option<char> {
    match key.code {
        KeyCode::Char(c) if key.modifiers.difference(KeyModifiers::SHIFT).is_empty() => Some(c),
        _ => None,
    }
}

/// Draws the title line of a panel and returns the area below it. The line is thick if the panel
/// has the focus, so that a terminal without colour shows it too.
fn titled(
    frame: &mut Frame<'_>,
    area: Rect,
    title: Line<'static>,
    theme: &Theme,
    is_focused: bool,
) -> Rect {
    // A terminal can shrink between the layout and the drawing.
    let area = area.intersection(frame.area());
    let (border, style) = match is_focused {
        true => (BorderType::Thick, theme.accent),
        false => (BorderType::Plain, theme.dim),
    };
    let block =
        Block::new().borders(Borders::TOP).border_type(border).border_style(style).title(title);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    inner
}

/// Draws one line at the row with this number in an area. A row outside of the area is not drawn.
fn draw_line(frame: &mut Frame<'_>, area: Rect, row: usize, line: &Line<'_>) {
    let Some(row) = u16::try_from(row).ok().filter(|row| *row < area.height) else { return };
    frame.buffer_mut().set_line(area.x, area.y + row, line, area.width);
}

/// Gives a row of an area the style of the selected row.
fn mark_selected(frame: &mut Frame<'_>, area: Rect, row: usize, style: Style) {
    let Some(row) = u16::try_from(row).ok().filter(|row| *row < area.height) else { return };
    let row = Rect { y: area.y + row, height: 1, ..area };
    frame.buffer_mut().set_style(row, style);
}
