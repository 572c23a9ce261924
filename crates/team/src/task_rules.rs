//! The rules for tasks: which changes an update makes. The modules below hold the rules for claims,
//! dependencies and single fields.
//!
//! Each rule uses only the task table, under the table's lock. A rule that refuses a change leaves
//! the table unchanged.

use pitcrew_protocol::{
    AgentName, ApiError, ErrorCode, StatusChange, StatusChanged, Task, TaskId, TaskStatus,
};
use pitcrew_store::TaskTable;
use serde_json::{Map, Value};

use crate::actor::{Rank, Speaker};

mod claims;
mod dependencies;
mod fields;

use dependencies::{delete, link, new_edges, refuse_blocked};
use fields::{merge, set_owner, set_status, set_texts, sign};

pub(crate) use claims::{claim, release};
pub(crate) use fields::check_metadata;

/// The maximum number of task ids in an error.
const IDS_LISTED: usize = 50;

/// The changes of an update. The ids, names and text lengths are already checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskChange {
    pub(crate) subject: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) active_form: Option<String>,
    /// The new owner. `Some(None)` removes the owner, and `None` leaves the owner unchanged.
    pub(crate) owner: Option<Option<AgentName>>,
    pub(crate) status: Option<StatusChange>,
    pub(crate) blocks: Vec<String>,
    pub(crate) blocked_by: Vec<String>,
    pub(crate) metadata: Map<String, Value>,
}

#[derive(Clone, Debug)]
pub(crate) struct Changed {
    /// The task after the update. If the update deleted the task, this is the task before the
    /// update.
    pub(crate) task: Task,
    /// The names of the changed fields, as in messages and files.
    pub(crate) fields: Vec<&'static str>,
    pub(crate) status: Option<StatusChanged>,
    /// Whether the task got a new owner.
    pub(crate) assigned: bool,
    /// Whether the caller became the owner of the task.
    pub(crate) claimed: bool,
}

/// The agent or user that changes the tasks, and the time of the change.
#[derive(Clone, Debug)]
pub(crate) struct Stamp {
    pub(crate) by: Speaker,
    pub(crate) at_ms: i64,
    pub(crate) blockers: Blockers,
}

/// Whether open blockers prevent the start of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blockers {
    Count,
    /// The user starts the task although it has open blockers.
    Overruled,
}

impl Stamp {
    fn is_teammate(&self) -> bool {
        self.by.rank == Rank::Teammate
    }

    fn is_own(&self, owner: &str) -> bool {
        owner.to_lowercase() == self.by.name.to_lowercase()
    }
}

/// Finds the task with this id. Accepts the different forms in which people and models write task
/// ids.
pub(crate) fn find<'a>(
    tasks: impl Iterator<Item = &'a Task> + Clone,
    given: &str,
) -> Result<&'a Task, ApiError> {
    let mut shown = tasks.filter(|task| !task.is_internal());
    let id = TaskId::parse(given.trim());
    shown.clone().find(|task| Some(&task.id) == id.as_ref()).ok_or_else(|| {
        let ids: Vec<&str> = shown.by_ref().take(IDS_LISTED).map(|task| task.id.as_str()).collect();
        let message = format!("Task '{given}' does not exist");
        ApiError::new(ErrorCode::TaskNotFound, message).with("task_id", given).with("task_ids", ids)
    })
}

pub(crate) fn update(
    table: &mut TaskTable,
    stamp: &Stamp,
    id: &str,
    change: &TaskChange,
) -> Result<Changed, ApiError> {
    let before = find(table.tasks.values(), id)?.clone();
    // If the update deletes the task, all other fields of the update are ignored.
    if change.status == Some(StatusChange::Deleted) {
        return Ok(delete(table, before));
    }
    let mut task = before.clone();
    let mut fields = set_texts(&mut task, change);
    set_owner(&mut task, stamp, change)?;
    if let Some(StatusChange::To(status)) = change.status {
        set_status(&mut task, &before, stamp, status)?;
    }
    let owner_changed = task.owner != before.owner;
    if owner_changed {
        fields.push("owner");
    }
    if merge(&mut task, &change.metadata) {
        fields.push("metadata");
    }
    if task.status != before.status {
        fields.push("status");
    }
    let edges = new_edges(table, &task, change)?;
    let starts = task.status == TaskStatus::InProgress && before.status != TaskStatus::InProgress;
    if starts && stamp.blockers == Blockers::Count {
        // Make all checks before the first change of the table. A refused update then changes
        // nothing.
        refuse_blocked(table, &before, &edges)?;
    }
    for (field, blocker, blocked) in &edges {
        if !fields.contains(field) {
            fields.push(field);
        }
        link(table, &mut task, blocker, blocked);
    }
    if !fields.is_empty() {
        sign(&mut task, stamp, owner_changed)?;
        table.tasks.insert(task.id.clone(), task.clone());
    }
    let status = (task.status != before.status).then(|| StatusChanged {
        from: before.status.as_str().into(),
        to: task.status.as_str().into(),
    });
    let claimed = owner_changed && task.owner.as_deref().is_some_and(|owner| stamp.is_own(owner));
    Ok(Changed { assigned: owner_changed && task.owner.is_some(), claimed, task, fields, status })
}
