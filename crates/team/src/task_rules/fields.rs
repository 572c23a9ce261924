//! The changes of the fields of one task: texts, owner, status and metadata.

use pitcrew_protocol::{ApiError, Task, TaskStatus};
use serde_json::{Map, Value};

use super::claims::refuse_foreign;
use super::{Stamp, TaskChange};
use crate::ours::{KEY, TaskRecord};
use crate::refusal;

/// Metadata keys that callers are not allowed to set. The reference client hides tasks that have
/// the key `_internal`. The other key holds pitcrew's own data.
const RESERVED_KEYS: [&str; 2] = ["_internal", KEY];

/// Refuses metadata keys that callers are not allowed to set.
pub(crate) fn check_metadata(metadata: &Map<String, Value>) -> Result<(), ApiError> {
    match RESERVED_KEYS.iter().find(|key| metadata.contains_key(**key)) {
        Some(key) => Err(refusal::invalid(format!("the metadata key '{key}' is reserved"))
            .with("field", "metadata")),
        None => Ok(()),
    }
}

pub(super) fn set_texts(task: &mut Task, change: &TaskChange) -> Vec<&'static str> {
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
pub(super) fn set_owner(
    task: &mut Task,
    stamp: &Stamp,
    change: &TaskChange,
) -> Result<(), ApiError> {
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
pub(super) fn set_status(
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

/// Merges the new metadata into the task, key by key. The value null deletes a key. Returns true if
/// anything changed.
pub(super) fn merge(task: &mut Task, new: &Map<String, Value>) -> bool {
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

pub(super) fn sign(task: &mut Task, stamp: &Stamp, owner_changed: bool) -> Result<(), ApiError> {
    let mut record = TaskRecord { updated_at: Some(stamp.at_ms), ..TaskRecord::of(task) };
    if owner_changed {
        let assigned = task.owner.is_some();
        record.assigned_at = assigned.then_some(stamp.at_ms);
        record.assigned_by = assigned.then(|| stamp.by.frame_name().to_owned());
    }
    record.put_on(task)
}
