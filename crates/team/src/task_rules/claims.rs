//! The rules for claiming and releasing: which task a caller gets, and which tasks an ended member
//! releases.

use pitcrew_protocol::{AgentName, ApiError, StatusChange, Task, TaskGraph, TaskId, TaskStatus};
use pitcrew_store::TaskTable;

use super::dependencies::refuse_blocked;
use super::{Changed, Stamp, TaskChange, find, update};
use crate::ours::TaskRecord;
use crate::refusal;

/// Makes the caller the owner of a task and starts the task. The task is `id` if given, otherwise
/// the ready task with the lowest id.
pub(crate) fn claim(
    table: &mut TaskTable,
    stamp: &Stamp,
    id: Option<&str>,
) -> Result<Changed, ApiError> {
    let wanted = match id {
        Some(id) => find(table.tasks.values(), id)?.id.clone(),
        None => lowest_ready(table, stamp)?,
    };
    let owner = Some(Some(AgentName::foreign(&stamp.by.name)));
    let status = Some(StatusChange::To(TaskStatus::InProgress));
    let task = find(table.tasks.values(), wanted.as_str())?;
    if task.status == TaskStatus::Completed {
        return Err(refusal::wrong_state(format!("Task #{wanted} is completed"))
            .with("task_id", wanted.as_str())
            .with("owner", task.owner.clone()));
    }
    refuse_foreign(task, stamp)?;
    refuse_blocked(table, task, &[])?;
    update(table, stamp, wanted.as_str(), &TaskChange { owner, status, ..TaskChange::default() })
}

/// Removes the owner from the uncompleted tasks of `owner`, and makes these tasks pending again.
pub(crate) fn release(
    table: &mut TaskTable,
    owner: &AgentName,
    at_ms: i64,
) -> Result<Vec<TaskId>, ApiError> {
    let mut released = Vec::new();
    for task in table.tasks.values_mut() {
        let held = task
            .owner
            .as_deref()
            .is_some_and(|o| o.to_lowercase() == owner.as_str().to_lowercase());
        if !held || task.status == TaskStatus::Completed || task.is_internal() {
            continue;
        }
        task.owner = None;
        task.status = TaskStatus::Pending;
        let record = TaskRecord {
            assigned_at: None,
            assigned_by: None,
            updated_at: Some(at_ms),
            ..TaskRecord::of(task)
        };
        record.put_on(task)?;
        released.push(task.id.clone());
    }
    Ok(released)
}

fn lowest_ready(table: &TaskTable, stamp: &Stamp) -> Result<TaskId, ApiError> {
    let graph = TaskGraph::of(table.tasks.values());
    let own = |task: &Task| {
        task.status == TaskStatus::Pending
            && task.owner.as_deref().is_some_and(|owner| stamp.is_own(owner))
            && graph.open_blockers(&task.id).is_empty()
    };
    // A pending task that the caller already owns is ready for that caller only.
    let ready = table
        .tasks
        .values()
        .find(|task| !task.is_internal() && (graph.is_ready(&task.id) || own(task)));
    if let Some(task) = ready {
        return Ok(task.id.clone());
    }
    let count =
        |status| table.tasks.values().filter(|t| t.status == status && !t.is_internal()).count();
    Err(refusal::wrong_state("no task is ready to be claimed")
        .with("pending", count(TaskStatus::Pending))
        .with("in_progress", count(TaskStatus::InProgress)))
}

/// Refuses a task that a member other than the caller owns. The error names the owner.
pub(super) fn refuse_foreign(task: &Task, stamp: &Stamp) -> Result<(), ApiError> {
    let Some(owner) =
        task.owner.as_deref().filter(|owner| !owner.is_empty() && !stamp.is_own(owner))
    else {
        return Ok(());
    };
    let message = format!("Task #{} is owned by '{owner}' ({})", task.id, task.status.as_str());
    Err(refusal::wrong_state(message)
        .with("task_id", task.id.as_str())
        .with("owner", owner)
        .with("status", task.status.as_str()))
}
