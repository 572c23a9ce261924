//! The order of the tasks, and what each of them waits for.

use pitcrew_protocol::{Task, TaskGraph, TaskId, TaskStatus};

/// The groups of the board, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    InProgress,
    /// The task waits for no other.
    Ready,
    /// The task waits for others.
    Blocked,
    Completed,
}

impl Group {
    pub(super) fn heading(self) -> &'static str {
        match self {
            Self::InProgress => "in progress",
            Self::Ready => "ready",
            Self::Blocked => "blocked",
            Self::Completed => "completed",
        }
    }

    /// Returns a mark that is readable without colour.
    pub(super) fn mark(self) -> &'static str {
        match self {
            Self::InProgress => "* ",
            Self::Ready => "- ",
            Self::Blocked => ". ",
            Self::Completed => "x ",
        }
    }
}

/// A task with its place on the board.
#[derive(Clone, Debug)]
pub(super) struct Placed<'a> {
    pub(super) task: &'a Task,
    pub(super) group: Group,
    /// The tasks that this task waits for.
    pub(super) waits_for: Vec<TaskId>,
}

/// Returns the tasks in the order of the board. Within a group they are in the order of their ids.
/// The records that a client keeps about its teammates are left out.
pub(super) fn in_order(tasks: &[Task]) -> Vec<Placed<'_>> {
    let graph = TaskGraph::of(tasks);
    let shown = tasks.iter().filter(|task| !task.is_internal());
    let placed = shown.map(|task| {
        let waits_for: Vec<TaskId> = match task.status {
            TaskStatus::Completed => Vec::new(),
            TaskStatus::Pending | TaskStatus::InProgress => {
                graph.open_blockers(&task.id).into_iter().cloned().collect()
            }
        };
        let group = match task.status {
            TaskStatus::InProgress => Group::InProgress,
            TaskStatus::Pending if waits_for.is_empty() => Group::Ready,
            TaskStatus::Pending => Group::Blocked,
            TaskStatus::Completed => Group::Completed,
        };
        Placed { task, group, waits_for }
    });
    let mut placed: Vec<Placed<'_>> = placed.collect();
    placed.sort_by(|a, b| (a.group, &a.task.id).cmp(&(b.group, &b.task.id)));
    placed
}
