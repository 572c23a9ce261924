//! A row of the task board. Columns are left out where the board is narrow.

use pitcrew_protocol::TaskId;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::order::{Group, Placed};
use crate::panels::cell::{cut, padded, width_of};
use crate::theme::Theme;

const MARK_WIDTH: usize = 2;
/// The space between two columns.
const GAP: usize = 2;
const OWNER_WIDTH: usize = 14;
const OWNER_WIDTH_LEAST: usize = 8;
/// The least width of a board with the owner of each task.
const WIDTH_WITH_OWNER: usize = 36;

/// The widths of the columns. A column that is left out has the width 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    width: usize,
    id: usize,
    owner: usize,
}

impl Columns {
    pub(super) fn of(width: u16, placed: &[Placed<'_>]) -> Self {
        let width = usize::from(width);
        let longest_id = placed.iter().map(|it| it.task.id.as_str().len()).max().unwrap_or(1);
        let owners = placed.iter().filter_map(|it| it.task.owner.as_deref());
        let longest_owner = owners.map(width_of).max().unwrap_or(0);
        let owner = match width >= WIDTH_WITH_OWNER && longest_owner > 0 {
            true => longest_owner.clamp(OWNER_WIDTH_LEAST, OWNER_WIDTH) + GAP,
            false => 0,
        };
        // Another program can write an id of any length.
        Self { width, id: longest_id.min(6) + 1, owner }
    }

    pub(super) fn heading(self, group: Group, count: usize, theme: &Theme) -> Line<'static> {
        let text = format!("{} ({count})", group.heading());
        Line::styled(cut(&text, self.width), theme.dim.add_modifier(Modifier::BOLD))
    }

    pub(super) fn task(self, placed: &Placed<'_>, theme: &Theme) -> Line<'static> {
        let Placed { task, group, waits_for } = placed;
        let style = match group {
            Group::InProgress | Group::Ready => theme.text,
            Group::Blocked | Group::Completed => theme.dim,
        };
        let rest = self.width.saturating_sub(MARK_WIDTH + self.id + 1 + self.owner);
        // The title takes what the blockers leave, but at least half of the row.
        let waits_for = cut(&blockers(waits_for, rest / 2), rest / 2);
        let waits_width = if waits_for.is_empty() { 0 } else { width_of(&waits_for) + GAP };
        let mut spans = vec![
            Span::styled(group.mark(), style),
            Span::styled(padded(&format!("#{}", task.id), self.id), theme.dim),
            Span::raw(" "),
            Span::styled(padded(&task.subject, rest.saturating_sub(waits_width)), style),
        ];
        if !waits_for.is_empty() {
            spans.push(Span::styled(format!("{}{waits_for}", " ".repeat(GAP)), theme.warning));
        }
        if self.owner > 0 {
            let owner = padded(task.owner.as_deref().unwrap_or_default(), self.owner - GAP);
            spans.push(Span::styled(format!("{}{owner}", " ".repeat(GAP)), theme.accent));
        }
        Line::from(spans)
    }
}

/// Returns what a task waits for, in words, shorter if there is no room. Returns an empty text if it
/// waits for nothing.
fn blockers(ids: &[TaskId], room: usize) -> String {
    if ids.is_empty() {
        return String::new();
    }
    let ids = list(ids);
    let long = format!("waits for {ids}");
    if width_of(&long) <= room { long } else { format!("after {ids}") }
}

/// Returns ids as a list.
fn list(ids: &[TaskId]) -> String {
    ids.iter().map(|id| format!("#{id}")).collect::<Vec<_>>().join(", ")
}
