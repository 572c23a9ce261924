//! The details of a task: its whole title and description, and the tasks around it.

use pitcrew_protocol::{Task, TaskId};
use ratatui::text::Line;

use super::order::Placed;
use crate::render::wrap;
use crate::theme::Theme;

/// Maximum number of bytes of a description that are shown.
const DESCRIPTION_BYTES_MOST: usize = 64 << 10;

/// Returns the details of a task as lines of this width.
pub(super) fn lines(
    placed: &Placed<'_>,
    tasks: &[Task],
    width: u16,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let task = placed.task;
    let owner = task.owner.as_deref().filter(|owner| !owner.is_empty()).unwrap_or("nobody");
    let status = task.status.as_str().replace('_', " ");
    let mut lines = wrap(&task.subject, width, theme.heading);
    lines.extend(wrap(&format!("{status}, owner: {owner}"), width, theme.dim));
    for id in &placed.waits_for {
        lines.extend(wrap(&format!("waits for {}", named(id, tasks)), width, theme.warning));
    }
    for blocked in blocked_by(&task.id, task, tasks) {
        lines.extend(wrap(&format!("blocks {}", named(blocked, tasks)), width, theme.dim));
    }
    if !task.description.trim().is_empty() {
        lines.push(Line::default());
        let end = task.description.floor_char_boundary(DESCRIPTION_BYTES_MOST);
        lines.extend(wrap(task.description.get(..end).unwrap_or_default(), width, theme.text));
        if end < task.description.len() {
            let more = format!("… (`pitcrew task show {}` prints the rest)", task.id);
            lines.extend(wrap(&more, width, theme.dim));
        }
    }
    lines
}

/// Returns the tasks that a task blocks. Either of the two tasks can name the other.
fn blocked_by<'a>(id: &TaskId, task: &'a Task, tasks: &'a [Task]) -> Vec<&'a TaskId> {
    let named_here = task.blocks.iter();
    let named_there = tasks.iter().filter(|other| other.blocked_by.contains(id));
    let mut blocked: Vec<&TaskId> = named_here.chain(named_there.map(|other| &other.id)).collect();
    blocked.sort();
    blocked.dedup();
    blocked
}

fn named(id: &TaskId, tasks: &[Task]) -> String {
    let subject = tasks.iter().find(|task| task.id == *id).map(|task| task.subject.as_str());
    format!("#{id} {}", subject.unwrap_or("(unknown)"))
}
