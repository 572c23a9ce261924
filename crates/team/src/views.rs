//! Answers in the shapes of the API reference, for programs: its field names, where files and recordings have others.

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

/// A task, as TaskGet, TaskCreate and TaskUpdate answer in the API reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskView {
    /// The id.
    pub task_id: TaskId,
    /// The title.
    pub subject: String,
    /// What is to be done.
    pub description: String,
    /// The title while it is being done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_form: Option<String>,
    /// Where it stands.
    pub status: TaskStatus,
    /// Who works on it; null for nobody.
    pub owner: Option<String>,
    /// When it was made; null where nobody noted that.
    #[serde(rename = "created_at")]
    pub created_at: Option<String>,
    /// When it was last changed; null where nobody noted that.
    #[serde(rename = "updated_at")]
    pub updated_at: Option<String>,
    /// The tasks it waits for.
    pub blocked_by: Vec<TaskId>,
    /// The tasks that wait for it.
    pub blocks: Vec<TaskId>,
    /// Free fields, without ours.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl TaskView {
    /// Shows `task`.
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

/// When a task was made and last changed: as we noted it, else as its file has it, in milliseconds or as text.
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

/// A time of a file: text, as it is, or milliseconds since 1970.
fn time_in(raw: &str) -> Option<String> {
    match serde_json::from_str(raw).ok()? {
        Value::String(text) => Some(text),
        Value::Number(ms) => ms.as_i64().map(wire_time),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The task list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskListView {
    /// The tasks, by id.
    pub tasks: Vec<TaskRowView>,
    /// How many they are.
    pub total: usize,
}

/// A row of the task list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRowView {
    /// The id.
    pub id: TaskId,
    /// The title.
    pub subject: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// Who works on it; null for nobody.
    pub owner: Option<String>,
    /// The blockers that are not completed.
    pub blocked_by: Vec<TaskId>,
    /// The tasks that wait for it.
    pub blocks: Vec<TaskId>,
}

impl TaskListView {
    /// Lists `tasks`.
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

/// A spawned teammate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpawnView {
    /// `name@team`.
    pub agent_id: String,
    /// Its name.
    pub name: String,
    /// Its team.
    pub team_name: String,
    /// The agent definition it runs.
    #[serde(rename = "agentType")]
    pub agent_type: Option<String>,
    /// Always `spawned`.
    pub status: &'static str,
}

impl SpawnView {
    /// Shows `member` of the team.
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

/// The answer of a send: the recorded one, with the receivers' names and a receipt for each.
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

/// A message of an inbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MessageView {
    /// The id.
    pub id: MessageId,
    /// Who sent it.
    pub from: String,
    /// The text, or the frame as JSON.
    pub text: String,
    /// A preview.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The sender's color; the lead's own messages have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    /// When it was sent.
    pub timestamp: Option<String>,
    /// Whether the receiver has taken it.
    pub read: bool,
    /// The type of the frame it carries, when its sender may send it, or could while it was in the team.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame: Option<&'static str>,
}

impl From<Mail> for MessageView {
    fn from(mail: Mail) -> Self {
        Self {
            id: mail.id,
            read: mail.message.is_read(),
            from: mail.message.from,
            text: mail.message.text,
            summary: mail.message.summary,
            color: mail.message.color,
            timestamp: mail.message.timestamp,
            frame: mail.frame.as_ref().map(Frame::kind),
        }
    }
}
