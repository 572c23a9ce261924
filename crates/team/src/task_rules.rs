//! The rules for tasks: which changes an update makes, which caller wins a claim, and which tasks
//! an ended member releases.
//!
//! Each rule uses only the task table, under the table's lock. A rule that refuses a change leaves
//! the table unchanged.

use pitcrew_protocol::{
    AgentName, ApiError, ErrorCode, StatusChange, StatusChanged, Task, TaskGraph, TaskId,
    TaskStatus,
};
use pitcrew_store::TaskTable;
use serde_json::{Map, Value};

use crate::actor::{Rank, Speaker};
use crate::ours::{KEY, TaskRecord};
use crate::refusal;

/// The maximum number of task ids in an error.
const IDS_LISTED: usize = 50;

/// Metadata keys that callers are not allowed to set. The reference client hides tasks that have
/// the key `_internal`. The other key holds pitcrew's own data.
const RESERVED_KEYS: [&str; 2] = ["_internal", KEY];

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

/// Refuses metadata keys that callers are not allowed to set.
pub(crate) fn check_metadata(metadata: &Map<String, Value>) -> Result<(), ApiError> {
    match RESERVED_KEYS.iter().find(|key| metadata.contains_key(**key)) {
        Some(key) => Err(refusal::invalid(format!("the metadata key '{key}' is reserved"))
            .with("field", "metadata")),
        None => Ok(()),
    }
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

fn delete(table: &mut TaskTable, task: Task) -> Changed {
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

fn set_texts(task: &mut Task, change: &TaskChange) -> Vec<&'static str> {
    let mut fields = Vec::new();
    if let Some(subject) = change.subject.as_ref().filter(|new| **new != task.subject) {
        task.subject = subject.clone();
        fields.push("subject");
    }
    if let Some(description) = change.description.as_ref().filter(|new| **new != task.description) {
        task.description = description.clone();
        fields.push("description");
    }
    if change.active_form.is_some() && change.active_form != task.active_form {
        task.active_form = change.active_form.clone();
        fields.push("activeForm");
    }
    fields
}

/// Sets the owner from the update. A teammate is not allowed to take a task that another member
/// owns.
fn set_owner(task: &mut Task, stamp: &Stamp, change: &TaskChange) -> Result<(), ApiError> {
    let Some(new) = &change.owner else { return Ok(()) };
    let new = new.as_ref().map(|name| name.as_str().to_owned());
    let is_kept = match (&task.owner, &new) {
        (Some(old), Some(new)) => old.to_lowercase() == new.to_lowercase(),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    if is_kept {
        return Ok(());
    }
    if stamp.is_teammate() {
        refuse_foreign(task, stamp)?;
    }
    task.owner = new;
    Ok(())
}

/// Sets the status of the task. If a teammate starts a task without an owner, the teammate becomes
/// its owner. A teammate is not allowed to reopen a completed task.
fn set_status(
    task: &mut Task,
    before: &Task,
    stamp: &Stamp,
    status: TaskStatus,
) -> Result<(), ApiError> {
    if stamp.is_teammate() {
        if before.status == TaskStatus::Completed && status != TaskStatus::Completed {
            let message = format!(
                "Task #{} is completed; only the lead or the user can open it again",
                before.id
            );
            return Err(refusal::wrong_state(message)
                .with("task_id", before.id.as_str())
                .with("status", before.status.as_str()));
        }
        if status == TaskStatus::InProgress {
            refuse_foreign(before, stamp)?;
            task.owner.get_or_insert_with(|| stamp.by.name.clone());
        }
    }
    task.status = status;
    Ok(())
}

/// Refuses a task that a member other than the caller owns. The error names the owner.
fn refuse_foreign(task: &Task, stamp: &Stamp) -> Result<(), ApiError> {
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

/// Refuses to start a task with open blockers. Blockers that the same update adds are included.
fn refuse_blocked(table: &TaskTable, task: &Task, new: &[Edge]) -> Result<(), ApiError> {
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

/// Merges the new metadata into the task, key by key. The value null deletes a key. Returns true if
/// anything changed.
fn merge(task: &mut Task, new: &Map<String, Value>) -> bool {
    let mut merged = task.metadata.clone().unwrap_or_default();
    for (key, value) in new {
        if value.is_null() {
            merged.shift_remove(key);
        } else {
            merged.insert(key.clone(), value.clone());
        }
    }
    let changed = merged != task.metadata.clone().unwrap_or_default();
    if changed {
        task.metadata = Some(merged);
    }
    changed
}

/// A new dependency: the name of the update field that adds it, the id of the blocker, and the id
/// of the blocked task.
type Edge = (&'static str, TaskId, TaskId);

/// Returns the dependencies of the update that do not exist yet.
fn new_edges(table: &TaskTable, task: &Task, change: &TaskChange) -> Result<Vec<Edge>, ApiError> {
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
fn link(table: &mut TaskTable, task: &mut Task, blocker: &TaskId, blocked: &TaskId) {
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

fn sign(task: &mut Task, stamp: &Stamp, owner_changed: bool) -> Result<(), ApiError> {
    let mut record = TaskRecord { updated_at: Some(stamp.at_ms), ..TaskRecord::of(task) };
    if owner_changed {
        let assigned = task.owner.is_some();
        record.assigned_at = assigned.then_some(stamp.at_ms);
        record.assigned_by = assigned.then(|| stamp.by.frame_name().to_owned());
    }
    record.put_on(task)
}
