//! What we write of our own into files of the wire: the field `pitcrew` of a member, and `metadata.pitcrew` of a task.

use pitcrew_protocol::{ApiError, Foreign, Member, Program, Task};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::to_raw_value};

use crate::clock::wire_time;
use crate::refusal;

/// The key under which everything of ours stands.
pub(crate) const KEY: &str = "pitcrew";

/// What we note on a member; a member without it was put there by another client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnRecord {
    /// The call that spawned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The permission mode it was spawned with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// What runs it.
    #[serde(default, skip_serializing_if = "Program::is_ours")]
    pub program: Program,
    /// The model calls it may make, when it was given less than its run has.
    #[serde(rename = "maxTurns", default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
}

impl SpawnRecord {
    /// Reads the record of `member`; `None` for a member of another client.
    #[must_use]
    pub fn of(member: &Member) -> Option<Self> {
        serde_json::from_str(member.foreign.get(KEY)?.get()).ok()
    }

    /// Says whether `member` is run by us: whoever we did not spawn is not, and who runs the reference client is not.
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

/// The API reference's name for the time of a task's last change, a text.
const UPDATED_AT: &str = "updated_at";

/// What we note on a task; times are milliseconds since 1970.
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

    /// Brings the `updated_at` of the API reference up to date in a task of a program that writes it.
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

/// The free fields of a task as callers see them: without ours.
pub(crate) fn free_fields(task: &Task) -> Map<String, Value> {
    let mut fields = task.metadata.clone().unwrap_or_default();
    fields.shift_remove(KEY);
    fields
}
