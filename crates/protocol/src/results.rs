//! What the team tools answer: data for readers of the stream (`tool_use_result`), and a text for the model.
//!
//! Source: `fixtures/claude-2.1.39/stream-json/*.ndjson`, the hooks' `tool_response` beside them, and for what was not
//! recorded the founding guide and the stream document. What is refused is an [`ApiError`](crate::ApiError) or an
//! [`InputError`](crate::InputError).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Task, TaskGraph, TaskId, TaskStatus};

/// The answer of TeamCreate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamCreated {
    /// The team's name as given.
    pub team_name: String,
    /// The path of its `config.json`.
    pub team_file_path: String,
    /// The agent id of its lead.
    pub lead_agent_id: String,
}

/// The answer of TeamDelete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamDeleted {
    /// Whether the team is gone.
    pub success: bool,
    /// What was done, or why not.
    pub message: String,
    /// The team; none where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_name: Option<String>,
}

impl TeamDeleted {
    /// The team is gone.
    #[must_use]
    pub fn done(team_name: &str) -> Self {
        let message = format!("Cleaned up directories and worktrees for team \"{team_name}\"");
        Self { success: true, message, team_name: Some(team_name.to_owned()) }
    }

    /// There is no team any more.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            success: true,
            message: "No team name found, nothing to clean up".to_owned(),
            team_name: None,
        }
    }

    /// The same answer, with what became of the worktrees that were not cleaned up: each with the reason.
    #[must_use]
    pub fn keeping(mut self, worktrees: &[String]) -> Self {
        if !worktrees.is_empty() {
            self.message.push_str(&format!(". Not cleaned up: {}", worktrees.join("; ")));
        }
        self
    }

    /// The team stays, since these teammates have not shut down; `how` says how they do.
    #[must_use]
    pub fn refused(team_name: &str, active: &[String], how: &str) -> Self {
        let message = format!(
            "Cannot cleanup team with {} active member(s): {}. {how}",
            active.len(),
            active.join(", ")
        );
        Self { success: false, message, team_name: Some(team_name.to_owned()) }
    }

    /// The team stays, since its lead may have forgotten what is open. Ours: the reference client deletes it.
    #[must_use]
    pub fn refused_for_open_work(team_name: &str, open: &str) -> Self {
        let message = format!(
            "The team is not deleted yet: {open}. Complete these tasks, or delete those that nobody needs (TaskUpdate with \
             the status `deleted`). Another TeamDelete deletes the team as it is."
        );
        Self { success: false, message, team_name: Some(team_name.to_owned()) }
    }
}

/// What the API reference answers of a task beside what was recorded; only what is set is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskFacts {
    /// The title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What is to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where it stands; `deleted` for a task that is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Who works on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The title while it is being done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_form: Option<String>,
    /// The tasks it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<Vec<TaskId>>,
    /// The tasks that wait for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Vec<TaskId>>,
    /// Free fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// When it was made and last changed.
    #[serde(flatten)]
    pub times: TaskTimes,
}

/// When a task was made and last changed: ISO 8601, UTC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskTimes {
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// When it was last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
}

impl TaskFacts {
    /// What is set of `task`; its times are told by whoever knows them.
    #[must_use]
    pub fn of(task: &Task, times: TaskTimes) -> Self {
        let mut metadata = task.metadata.clone().unwrap_or_default();
        // Under this key stands what we note for ourselves.
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

/// The answer of TaskCreate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCreated {
    /// The new task.
    pub task: TaskTitle,
}

/// A task by id and title.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskTitle {
    /// The id.
    pub id: TaskId,
    /// The title.
    pub subject: String,
    /// The rest of it.
    #[serde(flatten)]
    pub facts: TaskFacts,
}

impl TaskCreated {
    /// The answer for a task that was just made.
    #[must_use]
    pub fn of(task: &Task, times: TaskTimes) -> Self {
        let facts = TaskFacts { subject: None, ..TaskFacts::of(task, times) };
        Self { task: TaskTitle { id: task.id.clone(), subject: task.subject.clone(), facts } }
    }
}

/// The answer of TaskUpdate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskUpdated {
    /// Whether the task was there.
    pub success: bool,
    /// The task.
    pub task_id: TaskId,
    /// The wire names of the fields that have changed; what was set to what it is already is not among them.
    pub updated_fields: Vec<String>,
    /// The change of status, when there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_change: Option<StatusChanged>,
    /// The task as it is now.
    #[serde(flatten)]
    pub facts: TaskFacts,
}

/// A change of status; `to` can be `deleted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusChanged {
    /// The status before.
    pub from: String,
    /// The status after.
    pub to: String,
}

/// The answer of TaskList.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskListed {
    /// The tasks, by id.
    pub tasks: Vec<TaskRow>,
}

/// A row of the task list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRow {
    /// The id.
    pub id: TaskId,
    /// The title.
    pub subject: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// Who works on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The blockers that are not completed.
    pub blocked_by: Vec<TaskId>,
}

impl TaskListed {
    /// The list of `tasks`, without a client's own bookkeeping.
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

/// The answer of TaskGet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskShown {
    /// The task.
    pub task: TaskDetail,
}

/// A task as TaskGet shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskDetail {
    /// The id.
    pub id: TaskId,
    /// The title.
    pub subject: String,
    /// What is to be done.
    pub description: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// The tasks that wait for it.
    pub blocks: Vec<TaskId>,
    /// The tasks it waits for.
    pub blocked_by: Vec<TaskId>,
    /// The rest of it.
    #[serde(flatten)]
    pub facts: TaskFacts,
}

impl TaskShown {
    /// The answer for `task`, its edges as its file has them.
    #[must_use]
    pub fn of(task: &Task) -> Self {
        Self::at(task, TaskTimes::default())
    }

    /// The same, with the task's times.
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

/// The answer of Task (Agent): a teammate was spawned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawned {
    /// Always [`Spawned::STATUS`].
    pub status: String,
    /// What it was spawned with.
    pub prompt: String,
    /// Its agent id.
    pub teammate_id: String,
    /// Its agent id.
    pub agent_id: String,
    /// The agent definition it runs.
    pub agent_type: String,
    /// Its model.
    pub model: String,
    /// Its name.
    pub name: String,
    /// Its color.
    pub color: String,
    /// The tmux session, or `in-process`.
    pub tmux_session_name: String,
    /// The tmux window, or `in-process`.
    pub tmux_window_name: String,
    /// The tmux pane, or `in-process`.
    pub tmux_pane_id: String,
    /// Its team.
    pub team_name: String,
    /// Whether its pane stands beside its lead's.
    pub is_splitpane: bool,
    /// Whether it must have a plan approved first.
    pub plan_mode_required: bool,
}

impl Spawned {
    /// What `status` always is.
    pub const STATUS: &str = "teammate_spawned";
}

/// The way of a message: who, to whom, what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Routing {
    /// The sender's name.
    pub sender: String,
    /// The sender's color; the lead has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_color: Option<String>,
    /// `@name`, or `@team` for a broadcast.
    pub target: String,
    /// The receiver's color.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_color: Option<String>,
    /// The preview.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The text.
    pub content: String,
}

/// The answer of SendMessage for a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageSent {
    /// Whether it stands in the receiver's inbox.
    pub success: bool,
    /// What was done.
    pub message: String,
    /// The way it took.
    pub routing: Routing,
}

impl MessageSent {
    /// The answer for a message that stands in the inbox of `recipient`; sets the routing's target.
    #[must_use]
    pub fn to(recipient: &str, routing: Routing) -> Self {
        let routing = Routing { target: format!("@{recipient}"), ..routing };
        Self { success: true, message: format!("Message sent to {recipient}'s inbox"), routing }
    }
}

/// The answer of SendMessage for a broadcast.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BroadcastSent {
    /// Whether it stands in every receiver's inbox.
    pub success: bool,
    /// What was done.
    pub message: String,
    /// The names of the receivers.
    pub recipients: Vec<String>,
    /// The way it took; absent when there was nobody to write to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<Routing>,
}

impl BroadcastSent {
    /// The answer for a text that stands in the inboxes of `recipients`; sets the routing's target.
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

/// The answer of SendMessage for a request that waits for its own answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestSent {
    /// Whether it stands in the receiver's inbox.
    pub success: bool,
    /// What was done.
    pub message: String,
    /// The id of the request.
    pub request_id: String,
    /// Who was asked.
    pub target: String,
}

impl RequestSent {
    /// The answer for a shutdown request.
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

/// The answer of SendMessage for an answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Responded {
    /// Whether it stands in the receiver's inbox.
    pub success: bool,
    /// What was done.
    pub message: String,
    /// The id of the request.
    pub request_id: String,
}

impl Responded {
    /// The answer for `message`, one sentence on what was answered to `request_id`.
    #[must_use]
    pub fn with(message: String, request_id: &str) -> Self {
        Self { success: true, message, request_id: request_id.to_owned() }
    }

    /// The answer of an agent that agrees to shut down.
    #[must_use]
    pub fn shutdown_approved(agent: &str, request_id: &str) -> Self {
        Self::with(format!("Shutdown approved. Agent {agent} is now exiting."), request_id)
    }

    /// The answer of an agent that goes on working.
    #[must_use]
    pub fn shutdown_rejected(agent: &str, reason: &str, request_id: &str) -> Self {
        Self::with(
            format!("Shutdown rejected. Agent {agent} goes on working. Reason: {reason}"),
            request_id,
        )
    }

    /// The answer of a lead that approved the plan of `agent`.
    #[must_use]
    pub fn plan_approved(agent: &str, request_id: &str) -> Self {
        Self::with(format!("Plan approved. Agent {agent} can now carry it out."), request_id)
    }

    /// The answer of a lead that rejected the plan of `agent`.
    #[must_use]
    pub fn plan_rejected(agent: &str, feedback: Option<&str>, request_id: &str) -> Self {
        let feedback = feedback.map(|text| format!(" Feedback: {text}")).unwrap_or_default();
        Self::with(format!("Plan rejected. Agent {agent} will revise it.{feedback}"), request_id)
    }
}
