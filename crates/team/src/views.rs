//! Results for programs, in the form of the API reference. If files and recordings have other field
//! names, the results still use the names from the API reference.

use std::collections::BTreeMap;

use pitcrew_protocol::{
    AgentName, Frame, Member, MessageId, Task, TaskGraph, TaskId, TaskStatus, TaskTimes, TeamConfig,
};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::clock::wire_time;
use crate::delivery::Receipt;
use crate::mail::Mail;
use crate::ours::{TaskRecord, free_fields};
use crate::send::Sent;

/// A task, in the form of TaskGet, TaskCreate and TaskUpdate in the API reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskView {
    /// The id of the task.
    pub task_id: TaskId,
    /// The title of the task.
    pub subject: String,
    /// The description of the work.
    pub description: String,
    /// The title to display while the task is in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_form: Option<String>,
    /// The status of the task.
    pub status: TaskStatus,
    /// The owner of the task; null if the task has no owner.
    pub owner: Option<String>,
    /// The creation time of the task; null if it is not recorded.
    #[serde(rename = "created_at")]
    pub created_at: Option<String>,
    /// The time of the task's last change; null if it is not recorded.
    #[serde(rename = "updated_at")]
    pub updated_at: Option<String>,
    /// The tasks that block this task.
    pub blocked_by: Vec<TaskId>,
    /// The tasks that this task blocks.
    pub blocks: Vec<TaskId>,
    /// The metadata of the task, without pitcrew's own field.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl TaskView {
    /// Converts `task` into the form of the API reference.
    #[must_use]
    pub fn of(task: &Task) -> Self {
        let times = task_times(task);
        Self {
            task_id: task.id.clone(),
            subject: task.subject.clone(),
            description: task.description.clone(),
            active_form: task.active_form.clone(),
            status: task.status,
            owner: task.owner.clone(),
            created_at: times.created_at,
            updated_at: times.updated_at,
            blocked_by: task.blocked_by.clone(),
            blocks: task.blocks.clone(),
            metadata: free_fields(task),
        }
    }
}

/// Returns the times when a task was created and last changed. pitcrew's own record has priority
/// over the task file. In the task file, a time is either milliseconds since 1970 or a text.
#[must_use]
pub fn task_times(task: &Task) -> TaskTimes {
    let record = TaskRecord::of(task);
    let in_file = |fields: [&str; 2]| {
        fields.into_iter().find_map(|field| time_in(task.foreign.get(field)?.get()))
    };
    TaskTimes {
        created_at: record
            .created_at
            .map(wire_time)
            .or_else(|| in_file(["created_at", "createdAt"])),
        updated_at: record
            .updated_at
            .map(wire_time)
            .or_else(|| in_file(["updated_at", "updatedAt"])),
    }
}

/// Reads a time from a file and returns it as text. A text in the file stays unchanged. A number in
/// the file is milliseconds since 1970 and is converted.
fn time_in(raw: &str) -> Option<String> {
    match serde_json::from_str(raw).ok()? {
        Value::String(text) => Some(text),
        Value::Number(ms) => ms.as_i64().map(wire_time),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The list of tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskListView {
    /// The tasks, sorted by id.
    pub tasks: Vec<TaskRowView>,
    /// The number of tasks.
    pub total: usize,
}

/// One row of the task list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRowView {
    /// The id of the task.
    pub id: TaskId,
    /// The title of the task.
    pub subject: String,
    /// The status of the task.
    pub status: TaskStatus,
    /// The owner of the task; null if the task has no owner.
    pub owner: Option<String>,
    /// The tasks that block this task and are not completed.
    pub blocked_by: Vec<TaskId>,
    /// The tasks that this task blocks.
    pub blocks: Vec<TaskId>,
}

impl TaskListView {
    /// Converts `tasks` into the form of the API reference.
    #[must_use]
    pub fn of(tasks: &[Task]) -> Self {
        let graph = TaskGraph::of(tasks);
        let row = |task: &Task| TaskRowView {
            id: task.id.clone(),
            subject: task.subject.clone(),
            status: task.status,
            owner: task.owner.clone(),
            blocked_by: graph.open_blockers(&task.id).into_iter().cloned().collect(),
            blocks: task.blocks.clone(),
        };
        let tasks: Vec<_> = tasks.iter().filter(|task| !task.is_internal()).map(row).collect();
        Self { total: tasks.len(), tasks }
    }
}

/// The result of spawning a teammate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpawnView {
    /// The agent id, in the form `name@team`.
    pub agent_id: String,
    /// The name of the teammate.
    pub name: String,
    /// The name of the team.
    pub team_name: String,
    /// The name of the agent definition that the teammate uses.
    #[serde(rename = "agentType")]
    pub agent_type: Option<String>,
    /// The status, always `spawned`.
    pub status: &'static str,
}

impl SpawnView {
    /// Converts `member` of the team into the form of the API reference.
    #[must_use]
    pub fn of(member: &Member, config: &TeamConfig) -> Self {
        Self {
            agent_id: member.name.id_in(&config.name).to_string(),
            name: member.name.to_string(),
            team_name: config.name.to_string(),
            agent_type: member.agent_type.clone(),
            status: "spawned",
        }
    }
}

/// The result of SendMessage: the form of the reference client's recordings, plus the receivers'
/// names and one receipt for each receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentView<'a>(pub &'a Sent);

impl Serialize for SentView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Receipts<'a> {
            recipients: Vec<&'a AgentName>,
            receipts: &'a [Receipt],
        }
        let Sent { receipts, answer } = self.0;
        let recipients = receipts.iter().map(|receipt| &receipt.to).collect();
        let mut shown = serde_json::to_value(answer).map_err(S::Error::custom)?;
        let more =
            serde_json::to_value(Receipts { recipients, receipts }).map_err(S::Error::custom)?;
        if let (Value::Object(shown), Value::Object(more)) = (&mut shown, more) {
            shown.extend(more);
        }
        shown.serialize(serializer)
    }
}

/// One message in an inbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MessageView {
    /// The id of the message.
    pub id: MessageId,
    /// The sender of the message.
    pub from: String,
    /// The text of the message. If the message carries a frame, this is the frame as JSON.
    pub text: String,
    /// A short preview of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The sender's color. The lead's own messages have no color.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    /// The time when the message was sent.
    pub timestamp: Option<String>,
    /// Whether the receiver has taken the message.
    pub read: bool,
    /// The reason why the receiver never gets the message. `None` if it got the message or can still
    /// get it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_delivered: Option<String>,
    /// The type of the frame that the message carries. `None` if the message is text. A frame
    /// counts as text if its sender was never allowed to send such a frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame: Option<&'static str>,
}

impl MessageView {
    /// Marks the message as not delivered, if `reasons` has a reason for it. The inbox marks such a
    /// message as read, so that no receiver takes it.
    #[must_use]
    pub fn with_reason(self, reasons: &BTreeMap<MessageId, String>) -> Self {
        match reasons.get(&self.id) {
            Some(reason) => Self { read: false, not_delivered: Some(reason.clone()), ..self },
            None => self,
        }
    }
}

impl From<Mail> for MessageView {
    fn from(mail: Mail) -> Self {
        Self {
            id: mail.id,
            read: mail.message.is_read(),
            not_delivered: None,
            from: mail.message.from,
            text: mail.message.text,
            summary: mail.message.summary,
            color: mail.message.color,
            timestamp: mail.message.timestamp,
            frame: mail.frame.as_ref().map(Frame::kind),
        }
    }
}
