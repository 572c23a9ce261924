//! The events of a run that the user interface receives. They contain enough for a progress line
//! for each teammate, and for the recorded stream-json format.
//!
//! Source of the fields that `assistant` and `tool_result` lines need:
//! `fixtures/claude-2.1.39/stream-json`. The user interface decides how to print the events. The
//! team's journal, not this module, keeps the durable record.

use std::path::PathBuf;
use std::time::Duration;

use pitcrew_model::{Block, StopReason, Usage};
use pitcrew_protocol::{AgentName, MessageId, PermissionMode, Status, TaskId};
use pitcrew_team::store::TaskChangeKind;
use serde_json::Value;

use crate::hosting::LaunchStage;

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq)]
pub enum RunEvent {
    /// The team exists and the main agent of the run starts. This is the first event.
    Started(RunStarted),
    /// An agent other than the lead started: a teammate, or a subagent.
    AgentStarted(AgentStarted),
    /// The launch of a teammate in a pane reached its next stage.
    AgentLaunched {
        /// The agent.
        agent: AgentName,
        /// The stage reached.
        stage: LaunchStage,
    },
    /// A model call of an agent ended, and this process does not know the answer. A known answer is
    /// reported as [`RunEvent::Answered`] instead.
    TurnEnded {
        /// The agent.
        agent: AgentName,
        /// The tokens, the money and the time that the call took.
        spending: Spending,
    },
    /// An agent created or changed a task by a tool call that this process does not know. A known
    /// call is reported as [`RunEvent::ToolEnded`] instead.
    TaskChanged {
        /// The agent.
        agent: AgentName,
        /// The task.
        task: TaskId,
        /// The kind of change: `created`, `updated`, `claimed`, `completed`, `released` or
        /// `deleted`.
        change: TaskChangeKind,
    },
    /// An agent submitted a plan by a tool call that this process does not know.
    PlanHandedIn {
        /// The agent.
        agent: AgentName,
    },
    /// An agent's state changed.
    AgentChanged {
        /// The agent.
        agent: AgentName,
        /// The agent's new state.
        status: Status,
        /// Details as text: why the agent failed or is idle, or what it waits for.
        detail: Option<String>,
    },
    /// More text of an answer that the model is still writing. The text is void if
    /// [`RunEvent::ModelWaits`] follows.
    TextDelta {
        /// The agent.
        agent: AgentName,
        /// The text.
        text: String,
    },
    /// A model call waits because of a rate limit or a retry.
    ModelWaits {
        /// The agent.
        agent: AgentName,
        /// The reason.
        reason: String,
        /// The approximate waiting time.
        delay: Duration,
    },
    /// A model has sent no part of its answer for some time. The call continues.
    ModelSilent {
        /// The agent.
        agent: AgentName,
        /// Time since the model last sent something.
        silent_for: Duration,
    },
    /// A model answered.
    Answered(Answered),
    /// A conversation was almost too long for its model and was replaced by a summary.
    Compacted(Compacted),
    /// The gate has allowed a tool call, and the call runs.
    ToolStarted {
        /// The agent.
        agent: AgentName,
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
        /// The input of the call.
        input: Value,
    },
    /// A tool call finished with a result.
    ToolEnded(ToolEnded),
    /// Mail entered a conversation.
    MailDelivered {
        /// The agent that received the mail.
        agent: AgentName,
        /// The sender of each message, in order.
        from: Vec<String>,
        /// The ids of the messages.
        ids: Vec<MessageId>,
    },
    /// An agent asks for permission for a tool call.
    PermissionAsked {
        /// The agent.
        agent: AgentName,
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
    },
    /// A permission request was answered.
    PermissionAnswered {
        /// The agent.
        agent: AgentName,
        /// The call's id.
        call: String,
        /// The reason, if the request was denied.
        refused: Option<String>,
        /// The rule that would have allowed the call. Set if no person was there to ask.
        would_allow: Option<String>,
    },
    /// The user gave an agent a permission for the rest of this run.
    AllowedAlways {
        /// The agent. The permission is valid for no other agent.
        agent: AgentName,
        /// The rule of the permission, such as `Bash(npm test:*)`. If there is no rule, a
        /// description.
        what: String,
    },
    /// An agent's permission mode changed.
    ModeChanged {
        /// The agent.
        agent: AgentName,
        /// The new mode.
        mode: PermissionMode,
    },
    /// A permission mode was recorded for an agent that another client runs. That client applies
    /// the mode when the agent's plan is approved, otherwise at the agent's next start.
    ModeRecorded {
        /// The agent.
        agent: AgentName,
        /// The mode.
        mode: PermissionMode,
    },
    /// The team is being shut down.
    ShuttingDown {
        /// The reason.
        reason: String,
    },
    /// A problem that does not end the run.
    Warning {
        /// The message.
        text: String,
    },
}

/// Describes a waiting model call for the user.
#[must_use]
pub fn waiting_for_model(reason: &str, delay: Duration) -> String {
    format!("waits {:.0} s for the model: {reason}", delay.as_secs_f64().ceil())
}

/// The cost of one model call in tokens, money and time.
#[derive(Debug, Clone, PartialEq)]
pub struct Spending {
    /// The model.
    pub model: String,
    /// The tokens used.
    pub usage: Usage,
    /// The cost in US dollars. `None` if the model has no known price.
    pub cost_usd: Option<f64>,
    /// Number of tool calls that the model made.
    pub tool_calls: u32,
    /// The duration of the model call.
    pub took: Duration,
}

/// The data of [`RunEvent::Started`], the start of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunStarted {
    /// The main agent of the run: the lead, or a member that runs alone.
    pub agent: AgentName,
    /// The team.
    pub team: String,
    /// The path of the team's config.
    pub team_file: PathBuf,
    /// The id of the session.
    pub session_id: String,
    /// The agent's working folder.
    pub cwd: PathBuf,
    /// The agent's model.
    pub model: String,
    /// The agent's permission mode.
    pub mode: PermissionMode,
    /// The names of the agent's tools.
    pub tools: Vec<String>,
    /// The names of the existing agent types.
    pub agents: Vec<String>,
    /// Whether the run continues an earlier one.
    pub resumed: bool,
}

/// The data of [`RunEvent::AgentStarted`], the start of an agent other than the lead.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentStarted {
    /// The agent's name. A subagent gets a name generated for this run.
    pub agent: AgentName,
    /// The tool call for which the agent works, if the agent is a subagent.
    pub parent_call: Option<String>,
    /// The agent's type.
    pub agent_type: Option<String>,
    /// The agent's model.
    pub model: String,
    /// The agent's color.
    pub color: Option<String>,
    /// The agent's working folder.
    pub cwd: PathBuf,
    /// The agent's permission mode.
    pub mode: PermissionMode,
}

/// A complete answer of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// The agent.
    pub agent: AgentName,
    /// The tool call the agent works for, if it is a subagent.
    pub parent_call: Option<String>,
    /// The model provider's id of the message.
    pub message_id: String,
    /// The model's name as its provider gives it.
    pub model: String,
    /// The content blocks, in order.
    pub blocks: Vec<Block>,
    /// Why the model stopped.
    pub stop: StopReason,
    /// The tokens of this model call.
    pub usage: Usage,
    /// The cost of this call in US dollars. `None` if the model has no known price.
    pub cost_usd: Option<f64>,
    /// How long the call took.
    pub took: Duration,
}

/// The result of a compaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Compacted {
    /// The agent.
    pub agent: AgentName,
    /// The model that wrote the summary. It is the agent's own model.
    pub model: String,
    /// The size of the conversation before the compaction, in tokens.
    pub tokens_before: u64,
    /// The approximate size of the conversation after the compaction, in tokens. Equal to the size
    /// before if the summary was not shorter and the conversation was kept.
    pub tokens_after: u64,
    /// The tokens of the model call that wrote the summary.
    pub usage: Usage,
    /// The cost of the model call that wrote the summary, in US dollars. `None` if the model has no
    /// known price.
    pub cost_usd: Option<f64>,
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolEnded {
    /// The agent.
    pub agent: AgentName,
    /// The tool call the agent works for, if it is a subagent.
    pub parent_call: Option<String>,
    /// The call's id.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// The result as text for the model.
    pub text: String,
    /// The result as data for programs: `tool_use_result`.
    pub data: Value,
    /// Whether the call failed.
    pub is_error: bool,
}
