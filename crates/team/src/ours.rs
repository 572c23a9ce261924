//! The fields that pitcrew adds to files that other clients also use: the field `pitcrew` of a
//! member, and `metadata.pitcrew` of a task.

use pitcrew_protocol::{ApiError, Foreign, Member, Program, Task};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::to_raw_value};

use crate::clock::wire_time;
use crate::refusal;

/// The key of all fields that pitcrew adds.
pub(crate) const KEY: &str = "pitcrew";

/// pitcrew's record of a member that pitcrew spawned. If a member has no such record, another
/// client added it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnRecord {
    /// The id of the call that spawned the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The permission mode with which the member was spawned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The program that runs the member.
    #[serde(default, skip_serializing_if = "Program::is_ours")]
    pub program: Program,
    /// The maximum number of the member's model calls, if the spawn call set a maximum. If the run
    /// also limits the model calls of a member, the smaller number counts.
    #[serde(rename = "maxTurns", default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
}

impl SpawnRecord {
    /// Reads the record of `member`. Returns `None` if another client added the member.
    #[must_use]
    pub fn of(member: &Member) -> Option<Self> {
        serde_json::from_str(member.foreign.get(KEY)?.get()).ok()
    }

    /// Whether pitcrew runs `member`. This is false if another client added the member, or if the
    /// member runs in the reference client.
    #[must_use]
    pub fn is_run_by_us(member: &Member) -> bool {
        member.is_run_by_pitcrew()
    }

    pub(crate) fn into_foreign(self) -> Result<Foreign, ApiError> {
        let mut foreign = Foreign::default();
        let raw = to_raw_value(&self)
            .map_err(|e| refusal::internal(format!("a member cannot be written: {e}")))?;
        foreign.put(KEY, raw);
        Ok(foreign)
    }
}

/// The name that the API reference gives to the field for the time of a task's last change. The
/// value of the field is a string.
const UPDATED_AT: &str = "updated_at";

/// pitcrew's record of a task. Times are milliseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TaskRecord {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) updated_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) assigned_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) assigned_at: Option<i64>,
}

impl TaskRecord {
    pub(crate) fn of(task: &Task) -> Self {
        let noted = task.metadata.as_ref().and_then(|m| m.get(KEY));
        noted.and_then(|value| serde_json::from_value(value.clone()).ok()).unwrap_or_default()
    }

    pub(crate) fn put_on(&self, task: &mut Task) -> Result<(), ApiError> {
        let value = serde_json::to_value(self)
            .map_err(|e| refusal::internal(format!("task #{} cannot be written: {e}", task.id)))?;
        task.metadata.get_or_insert_default().insert(KEY.to_owned(), value);
        self.put_documented_time(task)
    }

    /// Updates the field `updated_at`, which the API reference describes. It does so only if the
    /// task's file already has that field as a string or null.
    fn put_documented_time(&self, task: &mut Task) -> Result<(), ApiError> {
        let is_there =
            task.foreign.get(UPDATED_AT).is_some_and(|time| time.get().starts_with(['"', 'n']));
        if let Some(at_ms) = self.updated_at.filter(|_| is_there) {
            let time = to_raw_value(&wire_time(at_ms)).map_err(|e| {
                refusal::internal(format!("task #{} cannot be written: {e}", task.id))
            })?;
            task.foreign.put(UPDATED_AT, time);
        }
        Ok(())
    }
}

/// Returns the metadata fields of a task without pitcrew's own field.
pub(crate) fn free_fields(task: &Task) -> Map<String, Value> {
    let mut fields = task.metadata.clone().unwrap_or_default();
    fields.shift_remove(KEY);
    fields
}
