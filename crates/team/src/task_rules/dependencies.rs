//! The edges between tasks: which tasks block which others.

use pitcrew_protocol::{
    ApiError, ErrorCode, StatusChange, StatusChanged, Task, TaskGraph, TaskId, TaskStatus,
};
use pitcrew_store::TaskTable;

use super::{Changed, TaskChange, find};
use crate::refusal;

pub(super) fn delete(table: &mut TaskTable, task: Task) -> Changed {
    table.tasks.remove(&task.id);
    for other in table.tasks.values_mut() {
        other.blocks.retain(|id| *id != task.id);
        other.blocked_by.retain(|id| *id != task.id);
    }
    let status = Some(StatusChanged {
        from: task.status.as_str().into(),
        to: StatusChange::Deleted.as_str().into(),
    });
    Changed { task, fields: vec!["deleted"], status, assigned: false, claimed: false }
}

/// Refuses to start a task with open blockers. Blockers that the same update adds are included.
pub(super) fn refuse_blocked(table: &TaskTable, task: &Task, new: &[Edge]) -> Result<(), ApiError> {
    let graph = TaskGraph::of(table.tasks.values());
    let is_open =
        |id: &TaskId| table.tasks.get(id).is_some_and(|task| task.status != TaskStatus::Completed);
    let new = new.iter().filter(|(_, blocker, blocked)| *blocked == task.id && is_open(blocker));
    let open = graph.open_blockers(&task.id).into_iter().chain(new.map(|(_, blocker, _)| blocker));
    let open: Vec<&str> = open.map(TaskId::as_str).collect();
    if open.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = open.iter().map(|id| format!("#{id}")).collect();
    let message = format!("Task #{} is blocked by {}", task.id, list.join(", "));
    Err(refusal::wrong_state(message).with("task_id", task.id.as_str()).with("blocked_by", open))
}

/// A new dependency: the name of the update field that adds it, the id of the blocker, and the id
/// of the blocked task.
type Edge = (&'static str, TaskId, TaskId);

/// Returns the dependencies of the update that do not exist yet.
pub(super) fn new_edges(
    table: &TaskTable,
    task: &Task,
    change: &TaskChange,
) -> Result<Vec<Edge>, ApiError> {
    let mut edges = Vec::new();
    let known = |given: &String| find(table.tasks.values(), given).map(|other| other.id.clone());
    for given in &change.blocks {
        edges.push(("blocks", task.id.clone(), known(given)?));
    }
    for given in &change.blocked_by {
        edges.push(("blockedBy", known(given)?, task.id.clone()));
    }
    if edges.is_empty() {
        return Ok(Vec::new());
    }
    let mut graph = TaskGraph::of(table.tasks.values());
    let mut new = Vec::new();
    for (field, blocker, blocked) in edges {
        if task.blocked_by.contains(&blocker) && blocked == task.id
            || task.blocks.contains(&blocked) && blocker == task.id
        {
            continue;
        }
        graph.link(&blocker, &blocked).map_err(|circle| {
            let ids: Vec<&str> = circle.circle.iter().map(TaskId::as_str).collect();
            ApiError::new(ErrorCode::CircularDependency, circle.to_string()).with("circle", ids)
        })?;
        new.push((field, blocker, blocked));
    }
    Ok(new)
}

/// Adds a dependency to both of its tasks. `task` is a changed copy that is not in the table yet.
/// The other task is in the table.
pub(super) fn link(table: &mut TaskTable, task: &mut Task, blocker: &TaskId, blocked: &TaskId) {
    let other = if *blocker == task.id { blocked } else { blocker };
    let (own, others) = if *blocker == task.id {
        (&mut task.blocks, table.tasks.get_mut(blocked).map(|t| &mut t.blocked_by))
    } else {
        (&mut task.blocked_by, table.tasks.get_mut(blocker).map(|t| &mut t.blocks))
    };
    if !own.contains(other) {
        own.push(other.clone());
    }
    if let Some(others) = others.filter(|ids| !ids.contains(&task.id)) {
        others.push(task.id.clone());
    }
}
