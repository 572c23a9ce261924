//! The results of the team tools. A result consists of data for programs that read the stream
//! (`tool_use_result`), and of a text for the model.
//!
//! Source: `fixtures/claude-2.1.39/stream-json/*.ndjson`, and the `tool_response` of the hooks
//! recorded there. Where nothing was recorded, the source is the founding guide and the stream
//! document. A refused call returns an [`ApiError`](crate::ApiError) or an
//! [`InputError`](crate::InputError).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Task, TaskGraph, TaskId, TaskStatus};

/// The result of TeamCreate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamCreated {
    /// The team's name, as the caller gave it.
    pub team_name: String,
    /// The path of the team's `config.json`.
    pub team_file_path: String,
    /// The agent id of the team's lead.
    pub lead_agent_id: String,
}

/// The result of TeamDelete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamDeleted {
    /// Whether the team was deleted.
    pub success: bool,
    /// A sentence about the deletion, or the reason for a refusal.
    pub message: String,
    /// The name of the team, or `None` if there was no team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_name: Option<String>,
}

impl TeamDeleted {
    /// Creates the result for a deleted team.
    #[must_use]
    pub fn done(team_name: &str) -> Self {
        let message = format!("Cleaned up directories and worktrees for team \"{team_name}\"");
        Self { success: true, message, team_name: Some(team_name.to_owned()) }
    }

    /// Creates the result for a caller that has no team.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            success: true,
            message: "No team name found, nothing to clean up".to_owned(),
            team_name: None,
        }
    }

    /// Adds to the message the worktrees that were not cleaned up, each with the reason.
    #[must_use]
    pub fn keeping(mut self, worktrees: &[String]) -> Self {
        if !worktrees.is_empty() {
            self.message.push_str(&format!(". Not cleaned up: {}", worktrees.join("; ")));
        }
        self
    }

    /// Creates the result for a team that is not deleted, because the teammates `active` have not
    /// shut down. `how` explains how to shut them down.
    #[must_use]
    pub fn refused(team_name: &str, active: &[String], how: &str) -> Self {
        let message = format!(
            "Cannot cleanup team with {} active member(s): {}. {how}",
            active.len(),
            active.join(", ")
        );
        Self { success: false, message, team_name: Some(team_name.to_owned()) }
    }

    /// Creates the result for a team that is not deleted, because it has open work that the lead
    /// perhaps forgot. Only pitcrew refuses this. The reference client deletes such a team.
    #[must_use]
    pub fn refused_for_open_work(team_name: &str, open: &str) -> Self {
        let message = format!(
            "The team is not deleted yet: {open}. Complete these tasks, or delete those that nobody needs (TaskUpdate with \
             the status `deleted`). Another TeamDelete deletes the team as it is."
        );
        Self { success: false, message, team_name: Some(team_name.to_owned()) }
    }
}

/// Fields of a task that are in the API reference but in no recorded result. A field without a
/// value is not written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskFacts {
    /// The task's title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The task's description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The task's status, or `deleted` for a removed task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The name of the task's owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The title that is shown while somebody works on the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_form: Option<String>,
    /// The ids of the tasks that block this task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<Vec<TaskId>>,
    /// The ids of the tasks that this task blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Vec<TaskId>>,
    /// Arbitrary data about the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// The times of the task's creation and last change.
    #[serde(flatten)]
    pub times: TaskTimes,
}

/// The times of a task's creation and last change, in ISO 8601, UTC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskTimes {
    /// The time of the task's creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// The time of the task's last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
}

impl TaskFacts {
    /// Returns the fields of `task` that have a value, with the given times.
    #[must_use]
    pub fn of(task: &Task, times: TaskTimes) -> Self {
        let mut metadata = task.metadata.clone().unwrap_or_default();
        // The key `pitcrew` contains pitcrew's internal notes. They are not part of a result.
        metadata.shift_remove("pitcrew");
        Self {
            subject: Some(task.subject.clone()),
            description: Some(task.description.clone()),
            status: Some(task.status.as_str().to_owned()),
            owner: task.owner.clone(),
            active_form: task.active_form.clone(),
            blocked_by: Some(task.blocked_by.clone()),
            blocks: Some(task.blocks.clone()),
            metadata: (!metadata.is_empty()).then_some(metadata),
            times,
        }
    }
}

/// The result of TaskCreate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCreated {
    /// The new task.
    pub task: TaskTitle,
}

/// A task's id, title and other fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskTitle {
    /// The task's id.
    pub id: TaskId,
    /// The task's title.
    pub subject: String,
    /// The task's other fields.
    #[serde(flatten)]
    pub facts: TaskFacts,
}

impl TaskCreated {
    /// Creates the result for a new task.
    #[must_use]
    pub fn of(task: &Task, times: TaskTimes) -> Self {
        // The task's title is already in the field `subject` of this result. Leave it out of the
        // other fields, because it must not be written twice.
        let facts = TaskFacts { subject: None, ..TaskFacts::of(task, times) };
        Self { task: TaskTitle { id: task.id.clone(), subject: task.subject.clone(), facts } }
    }
}

/// The result of TaskUpdate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskUpdated {
    /// Whether the task was changed. The value is always true, because a failed call returns an
    /// error instead.
    pub success: bool,
    /// The id of the task.
    pub task_id: TaskId,
    /// The wire names of the fields that got another value. Fields that kept their value are not
    /// included.
    pub updated_fields: Vec<String>,
    /// The change of the task's status, if the status changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_change: Option<StatusChanged>,
    /// The task's current fields.
    #[serde(flatten)]
    pub facts: TaskFacts,
}

/// A change of a task's status. `to` can be `deleted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusChanged {
    /// The task's status before the change.
    pub from: String,
    /// The task's status after the change.
    pub to: String,
}

/// The result of TaskList.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskListed {
    /// The tasks, sorted by id.
    pub tasks: Vec<TaskRow>,
}

/// One row of the task list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRow {
    /// The task's id.
    pub id: TaskId,
    /// The task's title.
    pub subject: String,
    /// The task's status.
    pub status: TaskStatus,
    /// The name of the task's owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The ids of the blockers that are not completed.
    pub blocked_by: Vec<TaskId>,
}

impl TaskListed {
    /// Creates the list of `tasks`. Tasks that are a client's own internal records are left out.
    #[must_use]
    pub fn of(tasks: &[Task]) -> Self {
        let graph = TaskGraph::of(tasks);
        let mut shown: Vec<&Task> = tasks.iter().filter(|task| !task.is_internal()).collect();
        shown.sort_by(|a, b| a.id.cmp(&b.id));
        let row = |task: &Task| TaskRow {
            id: task.id.clone(),
            subject: task.subject.clone(),
            status: task.status,
            owner: task.owner.clone(),
            blocked_by: graph.open_blockers(&task.id).into_iter().cloned().collect(),
        };
        Self { tasks: shown.into_iter().map(row).collect() }
    }
}

/// The result of TaskGet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskShown {
    /// The task.
    pub task: TaskDetail,
}

/// A task in the result of TaskGet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskDetail {
    /// The task's id.
    pub id: TaskId,
    /// The task's title.
    pub subject: String,
    /// The task's description.
    pub description: String,
    /// The task's status.
    pub status: TaskStatus,
    /// The ids of the tasks that this task blocks.
    pub blocks: Vec<TaskId>,
    /// The ids of the tasks that block this task.
    pub blocked_by: Vec<TaskId>,
    /// The task's other fields.
    #[serde(flatten)]
    pub facts: TaskFacts,
}

impl TaskShown {
    /// Creates the result for `task`. The dependencies on other tasks are taken from the task's
    /// file. The times are absent.
    #[must_use]
    pub fn of(task: &Task) -> Self {
        Self::at(task, TaskTimes::default())
    }

    /// Creates the result for `task`, with the given times.
    #[must_use]
    pub fn at(task: &Task, times: TaskTimes) -> Self {
        let task = task.clone();
        let facts = TaskFacts {
            subject: None,
            description: None,
            status: None,
            blocked_by: None,
            blocks: None,
            ..TaskFacts::of(&task, times)
        };
        Self {
            task: TaskDetail {
                id: task.id,
                subject: task.subject,
                description: task.description,
                status: task.status,
                blocks: task.blocks,
                blocked_by: task.blocked_by,
                facts,
            },
        }
    }
}

/// The result of the tool Task (also called Agent) after it spawned a teammate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawned {
    /// The status, always [`Spawned::STATUS`].
    pub status: String,
    /// The prompt that the teammate was spawned with.
    pub prompt: String,
    /// The teammate's agent id. The field `agent_id` has the same value.
    pub teammate_id: String,
    /// The teammate's agent id. The field `teammate_id` has the same value.
    pub agent_id: String,
    /// The agent definition that the teammate runs.
    pub agent_type: String,
    /// The teammate's model.
    pub model: String,
    /// The teammate's name.
    pub name: String,
    /// The teammate's color.
    pub color: String,
    /// The name of the teammate's tmux session, or `in-process`.
    pub tmux_session_name: String,
    /// The name of the teammate's tmux window, or `in-process`.
    pub tmux_window_name: String,
    /// The id of the teammate's tmux pane, or `in-process`.
    pub tmux_pane_id: String,
    /// The name of the teammate's team.
    pub team_name: String,
    /// Whether the teammate's pane is next to its lead's pane.
    pub is_splitpane: bool,
    /// Whether the lead must approve a plan of the teammate before the teammate changes anything.
    pub plan_mode_required: bool,
}

impl Spawned {
    /// The value of the field `status`.
    pub const STATUS: &str = "teammate_spawned";
}

/// The sender, receiver and content of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Routing {
    /// The sender's name.
    pub sender: String,
    /// The sender's color. A lead has no color.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_color: Option<String>,
    /// The receiver: `@name` with a member's name, or `@team` for a broadcast.
    pub target: String,
    /// The receiver's color.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_color: Option<String>,
    /// A short preview of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The text of the message.
    pub content: String,
}

/// The result of SendMessage for a message to one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageSent {
    /// Whether the message was written to the receiver's inbox.
    pub success: bool,
    /// A sentence about the result.
    pub message: String,
    /// The sender, receiver and content of the message.
    pub routing: Routing,
}

impl MessageSent {
    /// Creates the result for a message that is in the inbox of `recipient`. Also sets the target
    /// in `routing`.
    #[must_use]
    pub fn to(recipient: &str, routing: Routing) -> Self {
        let routing = Routing { target: format!("@{recipient}"), ..routing };
        Self { success: true, message: format!("Message sent to {recipient}'s inbox"), routing }
    }
}

/// The result of SendMessage for a broadcast.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BroadcastSent {
    /// Whether the message was written to the inbox of every receiver.
    pub success: bool,
    /// A sentence about the result.
    pub message: String,
    /// The names of the members that received the broadcast.
    pub recipients: Vec<String>,
    /// The sender, receivers and content of the message. Absent if there was no receiver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<Routing>,
}

impl BroadcastSent {
    /// Creates the result for a message that is in the inboxes of `recipients`. Also sets the
    /// target in `routing`.
    #[must_use]
    pub fn to(recipients: Vec<String>, routing: Routing) -> Self {
        if recipients.is_empty() {
            let message = "No teammates to broadcast to".to_owned();
            return Self { success: true, message, recipients, routing: None };
        }
        let message = format!(
            "Message broadcast to {} teammate(s): {}",
            recipients.len(),
            recipients.join(", ")
        );
        let routing = Routing { target: "@team".to_owned(), target_color: None, ..routing };
        Self { success: true, message, recipients, routing: Some(routing) }
    }
}

/// The result of SendMessage for a request that the receiver answers later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestSent {
    /// Whether the request was written to the receiver's inbox.
    pub success: bool,
    /// A sentence about the result.
    pub message: String,
    /// The id of the sent request.
    pub request_id: String,
    /// The member that received the request.
    pub target: String,
}

impl RequestSent {
    /// Creates the result for a shutdown request.
    #[must_use]
    pub fn shutdown(target: &str, request_id: &str) -> Self {
        let message = format!("Shutdown request sent to {target}. Request ID: {request_id}");
        Self {
            success: true,
            message,
            request_id: request_id.to_owned(),
            target: target.to_owned(),
        }
    }
}

/// The result of SendMessage for a response to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Responded {
    /// Whether the response was written to the receiver's inbox.
    pub success: bool,
    /// A sentence about the result.
    pub message: String,
    /// The id of the answered request.
    pub request_id: String,
}

impl Responded {
    /// Creates the result from `message`, which is one sentence about the response to the request
    /// `request_id`.
    #[must_use]
    pub fn with(message: String, request_id: &str) -> Self {
        Self { success: true, message, request_id: request_id.to_owned() }
    }

    /// Creates the result for an agent that agrees to shut down.
    #[must_use]
    pub fn shutdown_approved(agent: &str, request_id: &str) -> Self {
        Self::with(format!("Shutdown approved. Agent {agent} is now exiting."), request_id)
    }

    /// Creates the result for an agent that refuses to shut down.
    #[must_use]
    pub fn shutdown_rejected(agent: &str, reason: &str, request_id: &str) -> Self {
        Self::with(
            format!("Shutdown rejected. Agent {agent} goes on working. Reason: {reason}"),
            request_id,
        )
    }

    /// Creates the result for a lead that approved the plan of `agent`.
    #[must_use]
    pub fn plan_approved(agent: &str, request_id: &str) -> Self {
        Self::with(format!("Plan approved. Agent {agent} can now carry it out."), request_id)
    }

    /// Creates the result for a lead that rejected the plan of `agent`.
    #[must_use]
    pub fn plan_rejected(agent: &str, feedback: Option<&str>, request_id: &str) -> Self {
        let feedback = feedback.map(|text| format!(" Feedback: {text}")).unwrap_or_default();
        Self::with(format!("Plan rejected. Agent {agent} will revise it.{feedback}"), request_id)
    }
}
