//! Tasks, as stored in `tasks/<dir>/<id>.json`.
//!
//! Source: `fixtures/*/*/tasks/*/*.json`. The API reference uses other field names (`taskId`,
//! `created_at`). `taskId` is read as the id and written back under that name. `created_at` is kept
//! like any unknown field. If a task has the field `updated_at`, the crate `team` updates it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::wire::wire_object;

/// A task's id: a whole number from 1 up in decimal digits, as a string. After a task is deleted,
/// no other task gets its id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(String);

impl TaskId {
    /// Returns the id with number `n`.
    #[must_use]
    pub fn from_number(n: u64) -> Self {
        Self(n.to_string())
    }

    /// Reads an id. A leading `#` is dropped, because people and models often write `#3` for `3`.
    /// Returns `None` if the text is not a number from 1 up.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('#').unwrap_or(text);
        let number: u64 = digits.parse().ok()?;
        // Only the plain form of a number is an id, because `03` and `+3` would be other file names
        // than `3`.
        (number > 0 && number.to_string() == digits).then(|| Self(digits.to_owned()))
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the id as a number. Returns 0 if the id is not a number. Another tool can write such
    /// an id.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.0.parse().unwrap_or(0)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PartialOrd for TaskId {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TaskId {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.number().cmp(&other.number()).then_with(|| self.0.cmp(&other.0))
    }
}

/// The status of a task. There is no status `deleted`, because deleting a task removes its file. If
/// another program leaves a file with the status `deleted`, the task counts as absent, but its id
/// is not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Nobody works on the task.
    Pending,
    /// The owner works on the task.
    InProgress,
    /// The task is completed.
    Completed,
}

impl TaskStatus {
    /// Returns the status's name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }
}

wire_object! {
    /// A task of a team.
    pub struct Task {
        /// The task's id. It is also the name of the task's file without extension. The API
        /// reference calls the field `taskId`.
        pub id: TaskId => "id" req or "taskId",
        /// The task's title, short and imperative.
        pub subject: String => "subject" req,
        /// The task's description.
        pub description: String => "description" req,
        /// The title that is shown while somebody works on the task ("Fixing ...").
        pub active_form: String => "activeForm" opt,
        /// The name of the member that works on the task.
        pub owner: String => "owner" opt,
        /// The task's status.
        pub status: TaskStatus => "status" req,
        /// The ids of the tasks that this task blocks.
        pub blocks: Vec<TaskId> => "blocks" req,
        /// The ids of the tasks that block this task. Completed tasks are included.
        pub blocked_by: Vec<TaskId> => "blockedBy" req,
        /// Arbitrary data about the task. Pitcrew's own data is under the key `pitcrew`.
        pub metadata: Map<String, Value> => "metadata" opt,
    }
}

impl Task {
    /// Whether the task is the reference client's internal record of a running teammate. Such tasks
    /// appear in no task list.
    #[must_use]
    pub fn is_internal(&self) -> bool {
        self.metadata.as_ref().and_then(|m| m.get("_internal")) == Some(&Value::Bool(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_of_the_api_reference_is_read_and_written_back() {
        let text = r#"{"taskId":"1","subject":"s","description":"d","status":"pending","owner":null,"created_at":"t","blockedBy":[],"blocks":[]}"#;
        let mut task: Task = crate::from_text(text).unwrap();
        assert_eq!((task.id.as_str(), task.owner.as_deref()), ("1", None));
        assert_eq!(task.foreign.get("created_at").unwrap().get(), "\"t\"");
        assert_eq!(serde_json::to_string(&task).unwrap(), text);
        task.owner = Some("w".into());
        assert_eq!(serde_json::to_string(&task).unwrap(), text.replace("null", "\"w\""));
    }

    #[test]
    fn an_id_goes_before_its_older_name() {
        let text = r#"{"taskId":"x","id":"2","subject":"s","description":"d","status":"pending","blocks":[],"blockedBy":[]}"#;
        let task: Task = crate::from_text(text).unwrap();
        assert_eq!(task.id.as_str(), "2");
        assert_eq!(serde_json::to_string(&task).unwrap(), text);
    }

    #[test]
    fn a_task_without_an_id_is_refused() {
        let error = crate::from_text::<Task>(r#"{"subject":"s"}"#).unwrap_err();
        assert_eq!(error.source.to_string(), "missing field `id` at line 1 column 15");
    }
}
