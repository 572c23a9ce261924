//! What a run tells its face while it goes on: enough for a progress line a teammate, and for the recorded stream-json.
//!
//! Source of the shapes that `assistant` and `tool_result` lines need: `fixtures/claude-2.1.39/stream-json`. How they are
//! printed is the face's; what happened durably is in the team's journal, not here.

use std::path::PathBuf;
use std::time::Duration;

use pitcrew_model::{Block, StopReason, Usage};
use pitcrew_protocol::{AgentName, MessageId, PermissionMode, Status, TaskId};
use serde_json::Value;

use crate::hosting::LaunchStage;

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq)]
pub enum RunEvent {
    /// The team is there and the agent that the run is about starts; the first event.
    Started(RunStarted),
    /// An agent was started: a teammate, or a subagent of a call.
    AgentStarted(AgentStarted),
    /// The launch of a teammate in a pane came a step further.
    AgentLaunched {
        /// The agent.
        agent: AgentName,
        /// How far.
        stage: LaunchStage,
    },
    /// A model call of an agent ended, and its answer is not known here; else it is [`RunEvent::Answered`].
    TurnEnded {
        /// The agent.
        agent: AgentName,
        /// What the call took.
        spending: Spending,
    },
    /// An agent made or changed a task by a call that is not known here; else the call is a [`RunEvent::ToolEnded`].
    TaskChanged {
        /// The agent.
        agent: AgentName,
        /// The task.
        task: TaskId,
        /// `created`, `updated`, `claimed`, `completed`, `released` or `deleted`.
        change: String,
    },
    /// An agent handed in a plan by a call that is not known here.
    PlanHandedIn {
        /// The agent.
        agent: AgentName,
    },
    /// An agent's state changed.
    AgentChanged {
        /// The agent.
        agent: AgentName,
        /// Its state now.
        status: Status,
        /// More, in words: why it failed or is idle, what it waits for.
        detail: Option<String>,
    },
    /// More text of an answer that is being written. Void when [`RunEvent::ModelWaits`] follows.
    TextDelta {
        /// The agent.
        agent: AgentName,
        /// The text.
        text: String,
    },
    /// A model call waits, for a rate limit or a retry.
    ModelWaits {
        /// The agent.
        agent: AgentName,
        /// Why.
        reason: String,
        /// How long, about.
        delay: Duration,
    },
    /// A model has sent nothing of its answer for so long; the call goes on.
    ModelSilent {
        /// The agent.
        agent: AgentName,
        /// How long.
        silent_for: Duration,
    },
    /// A model answered.
    Answered(Answered),
    /// A conversation came near the end of what its model can read, and a summary took its place.
    Compacted(Compacted),
    /// A tool call passed the gate and runs.
    ToolStarted {
        /// The agent.
        agent: AgentName,
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
        /// Its input.
        input: Value,
    },
    /// A tool call has its result.
    ToolEnded(ToolEnded),
    /// Mail entered a conversation.
    MailDelivered {
        /// Whose.
        agent: AgentName,
        /// From whom, in order, one for each message.
        from: Vec<String>,
        /// The messages.
        ids: Vec<MessageId>,
    },
    /// A permission is asked for.
    PermissionAsked {
        /// The agent.
        agent: AgentName,
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
    },
    /// A permission was given or refused.
    PermissionAnswered {
        /// The agent.
        agent: AgentName,
        /// The call's id.
        call: String,
        /// The reason of a refusal.
        refused: Option<String>,
        /// The rule that would have allowed the call, where nobody was there to ask.
        would_allow: Option<String>,
    },
    /// The person beside an agent allowed it something from now on, for this run.
    AllowedAlways {
        /// The agent, which alone it counts for.
        agent: AgentName,
        /// A rule such as `Bash(npm test:*)`, or words where there is none.
        what: String,
    },
    /// An agent's permission mode changed.
    ModeChanged {
        /// The agent.
        agent: AgentName,
        /// The mode now.
        mode: PermissionMode,
    },
    /// A permission mode was recorded for an agent of another client, which takes it with the approval of its plan, else
    /// when it is started again.
    ModeRecorded {
        /// The agent.
        agent: AgentName,
        /// The mode.
        mode: PermissionMode,
    },
    /// The team is being shut down.
    ShuttingDown {
        /// Why.
        reason: String,
    },
    /// Something went wrong that the run survives.
    Warning {
        /// What, in words.
        text: String,
    },
}

/// What a waiting model call is for a person to read.
#[must_use]
pub fn waiting_for_model(reason: &str, delay: Duration) -> String {
    format!("waits {:.0} s for the model: {reason}", delay.as_secs_f64().ceil())
}

/// What one model call took.
#[derive(Debug, Clone, PartialEq)]
pub struct Spending {
    /// The model.
    pub model: String,
    /// Tokens.
    pub usage: Usage,
    /// Cost in US dollars, unless the model has no price.
    pub cost_usd: Option<f64>,
    /// Calls of tools that the model made.
    pub tool_calls: u32,
    /// How long the model took.
    pub took: Duration,
}

/// The start of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunStarted {
    /// The agent that the run is about: the lead, or the one member that runs alone.
    pub agent: AgentName,
    /// The team.
    pub team: String,
    /// Where its config is.
    pub team_file: PathBuf,
    /// The session.
    pub session_id: String,
    /// The agent's folder.
    pub cwd: PathBuf,
    /// The agent's model.
    pub model: String,
    /// The agent's mode.
    pub mode: PermissionMode,
    /// The agent's tools, by name.
    pub tools: Vec<String>,
    /// The agent types there are.
    pub agents: Vec<String>,
    /// Whether it goes on from an earlier run.
    pub resumed: bool,
}

/// The start of an agent other than the lead.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentStarted {
    /// Its name; of a subagent, one made up for this run.
    pub agent: AgentName,
    /// The call it works for, when it is a subagent.
    pub parent_call: Option<String>,
    /// Its type.
    pub agent_type: Option<String>,
    /// Its model.
    pub model: String,
    /// Its color.
    pub color: Option<String>,
    /// Its folder.
    pub cwd: PathBuf,
    /// Its mode.
    pub mode: PermissionMode,
}

/// A whole answer of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// The agent.
    pub agent: AgentName,
    /// The call the agent works for, when it is a subagent.
    pub parent_call: Option<String>,
    /// The vendor's id of the message.
    pub message_id: String,
    /// The model, as the vendor names it.
    pub model: String,
    /// The blocks, in order.
    pub blocks: Vec<Block>,
    /// Why it stopped.
    pub stop: StopReason,
    /// Tokens of this call.
    pub usage: Usage,
    /// Cost of this call, unless the model has no price.
    pub cost_usd: Option<f64>,
    /// How long the call took.
    pub took: Duration,
}

/// What came of a compaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Compacted {
    /// The agent.
    pub agent: AgentName,
    /// The model that wrote the summary, which is the agent's.
    pub model: String,
    /// What the conversation filled before, in tokens.
    pub tokens_before: u64,
    /// What it fills now, about; as much as before when the summary was not shorter, and the conversation stayed.
    pub tokens_after: u64,
    /// Tokens of the call for the summary.
    pub usage: Usage,
    /// Its cost, unless the model has no price.
    pub cost_usd: Option<f64>,
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolEnded {
    /// The agent.
    pub agent: AgentName,
    /// The call the agent works for, when it is a subagent.
    pub parent_call: Option<String>,
    /// The call's id.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// What the model reads.
    pub text: String,
    /// What programs read: `tool_use_result`.
    pub data: Value,
    /// Whether it failed.
    pub is_error: bool,
}
