//! The events of a run that the user interface receives. They contain enough data for a progress
//! line for each teammate, and for the stream-json format of the reference client (Claude Code).
//!
//! The recording `fixtures/claude-2.1.39/stream-json` shows which fields the `assistant` and
//! `tool_result` lines of that format need. The user interface decides how to print the events. The
//! durable record of a run is the team's journal, not these events.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pitcrew_model::{Block, StopReason, Usage};
use pitcrew_protocol::{AgentName, MessageId, PermissionMode, Status, TaskId};
use pitcrew_team::store::TaskChangeKind;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::hosting::LaunchStage;
use crate::run::RunLimits;

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RunEvent {
    /// The team exists and the main agent of the run starts. This is the first event.
    Started(RunStarted),
    /// An agent other than the lead started: a teammate, or a subagent.
    AgentStarted(AgentStarted),
    /// The launch of a teammate in a terminal pane reached its next stage.
    AgentLaunched {
        /// The agent that is being launched.
        agent: AgentName,
        /// The stage reached.
        stage: LaunchStage,
    },
    /// A model call of an agent ended, but this process does not know the answer. If this process
    /// knows the answer, it sends [`RunEvent::Answered`] instead.
    TurnEnded {
        /// The agent that made the call.
        agent: AgentName,
        /// The model, the tokens, the money and the time that the call took.
        spending: Spending,
    },
    /// An agent created or changed a task by a tool call that this process does not know. If this
    /// process knows the call, it sends [`RunEvent::ToolEnded`] instead.
    TaskChanged {
        /// The agent that created or changed the task.
        agent: AgentName,
        /// The id of the task.
        task: TaskId,
        /// The kind of change: `created`, `updated`, `claimed`, `completed`, `released` or
        /// `deleted`.
        change: TaskChangeKind,
    },
    /// An agent submitted a plan by a tool call that this process does not know.
    PlanHandedIn {
        /// The agent that submitted the plan.
        agent: AgentName,
    },
    /// An agent's state changed.
    AgentChanged {
        /// The agent whose state changed.
        agent: AgentName,
        /// The agent's state after the change.
        status: Status,
        /// Details as text: why the agent failed, why it is idle, or what it waits for.
        detail: Option<String>,
    },
    /// Another part of an answer that the model is still writing. If [`RunEvent::ModelWaits`]
    /// follows, the model starts the answer again, and all parts of the answer sent until then are
    /// void.
    TextDelta {
        /// The agent whose model is writing.
        agent: AgentName,
        /// The new part of the text.
        text: String,
    },
    /// A model call waits because of a rate limit or a retry.
    ModelWaits {
        /// The agent that made the call.
        agent: AgentName,
        /// The reason for the wait.
        reason: String,
        /// The approximate waiting time.
        #[serde(rename = "delay_ms", with = "duration_ms")]
        delay: Duration,
    },
    /// A model has sent no part of its answer for some time, but the call is still running.
    ModelSilent {
        /// The agent that made the call.
        agent: AgentName,
        /// Time since the model last sent something.
        #[serde(rename = "silent_for_ms", with = "duration_ms")]
        silent_for: Duration,
    },
    /// A model answered.
    Answered(Answered),
    /// A conversation was almost too long for its model, and a summary replaced it.
    Compacted(Compacted),
    /// The permission gate has allowed a tool call, and the call runs.
    ToolStarted {
        /// The agent that made the call.
        agent: AgentName,
        /// The call's id.
        call: String,
        /// The name of the tool.
        tool: String,
        /// The input of the call.
        input: Value,
    },
    /// A tool call finished with a result.
    ToolEnded(ToolEnded),
    /// Mail was added to an agent's conversation.
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
        /// The agent that asks for permission.
        agent: AgentName,
        /// The call's id.
        call: String,
        /// The name of the tool.
        tool: String,
    },
    /// A permission request was answered.
    PermissionAnswered {
        /// The agent that asked for permission.
        agent: AgentName,
        /// The call's id.
        call: String,
        /// The reason for the refusal. `None` if the call was allowed.
        refused: Option<String>,
        /// The rule that would have allowed the call. It is set only if no person was there to
        /// decide.
        would_allow: Option<String>,
    },
    /// The user gave an agent a permission that is valid for the rest of this run.
    AllowedAlways {
        /// The agent that received the permission. The permission is valid for no other agent.
        agent: AgentName,
        /// The rule of the permission, such as `Bash(npm test:*)`. If the permission has no rule,
        /// this text describes the permission.
        what: String,
    },
    /// An agent's permission mode changed.
    ModeChanged {
        /// The agent whose mode changed.
        agent: AgentName,
        /// The new mode.
        mode: PermissionMode,
    },
    /// The user gave an agent another model. The agent calls it from its next model call on.
    ModelChanged {
        /// The agent whose model changed.
        agent: AgentName,
        /// The name of the new model.
        model: String,
    },
    /// A permission mode was recorded for an agent that a client other than pitcrew runs. If the
    /// agent still needs an approved plan, that client applies the mode when the plan is approved.
    /// Otherwise it applies the mode at the agent's next start.
    ModeRecorded {
        /// The agent for which the mode was recorded.
        agent: AgentName,
        /// The recorded mode.
        mode: PermissionMode,
    },
    /// The team is being shut down.
    ShuttingDown {
        /// The reason for the shutdown.
        reason: String,
    },
    /// A problem that does not end the run.
    Warning {
        /// The text of the warning.
        text: String,
    },
}

/// Describes a waiting model call for the user.
#[must_use]
pub fn waiting_for_model(reason: &str, delay: Duration) -> String {
    format!("waits {:.0} s for the model: {reason}", delay.as_secs_f64().ceil())
}

/// The cost of one model call in tokens, money and time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spending {
    /// The model that was called.
    pub model: String,
    /// The tokens that the call used.
    pub usage: Usage,
    /// The cost in US dollars. `None` if the model has no known price.
    pub cost_usd: Option<f64>,
    /// Number of tool calls that the model made.
    pub tool_calls: u32,
    /// The duration of the model call.
    #[serde(rename = "took_ms", with = "duration_ms")]
    pub took: Duration,
}

/// The data of [`RunEvent::Started`], the start of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The main agent of the run: the lead of the team, or the member that runs alone.
    pub agent: AgentName,
    /// The team's name.
    pub team: String,
    /// The path of the team's config.
    #[serde(serialize_with = "lossy_path")]
    pub team_file: PathBuf,
    /// The id of the session.
    pub session_id: String,
    /// The agent's working folder.
    #[serde(serialize_with = "lossy_path")]
    pub cwd: PathBuf,
    /// The agent's model.
    pub model: String,
    /// The agent's permission mode.
    pub mode: PermissionMode,
    /// The names of the agent's tools.
    pub tools: Vec<String>,
    /// The names of the existing agent types.
    pub agents: Vec<String>,
    /// Whether the run continues an earlier run.
    pub resumed: bool,
    /// The limits at which the run ends.
    #[serde(default)]
    pub limits: RunLimits,
    /// The cost of the earlier runs in US dollars. The limit on cost counts it too.
    #[serde(default)]
    pub spent_before_usd: f64,
}

/// The data of [`RunEvent::AgentStarted`], the start of an agent other than the lead.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentStarted {
    /// The agent's name. A subagent gets a name generated for this run.
    pub agent: AgentName,
    /// If the agent is a subagent: the tool call that started it.
    pub parent_call: Option<String>,
    /// The agent's type.
    pub agent_type: Option<String>,
    /// The agent's model.
    pub model: String,
    /// The agent's color.
    pub color: Option<String>,
    /// The agent's working folder.
    #[serde(serialize_with = "lossy_path")]
    pub cwd: PathBuf,
    /// The agent's permission mode.
    pub mode: PermissionMode,
}

/// A complete answer of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// The agent whose model answered.
    pub agent: AgentName,
    /// If the agent is a subagent: the tool call that started it.
    pub parent_call: Option<String>,
    /// The message id that the model provider gave to the answer.
    pub message_id: String,
    /// The model's name, in the form in which its provider gives it.
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
    #[serde(rename = "took_ms", with = "duration_ms")]
    pub took: Duration,
}

/// The result of a compaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compacted {
    /// The agent whose conversation was compacted.
    pub agent: AgentName,
    /// The model that wrote the summary. It is the agent's own model.
    pub model: String,
    /// The size of the conversation before the compaction, in tokens.
    pub tokens_before: u64,
    /// The approximate size of the conversation after the compaction, in tokens. If the summary was
    /// not shorter than the conversation, the conversation stays, and this value is equal to
    /// `tokens_before`.
    pub tokens_after: u64,
    /// The tokens of the model call that wrote the summary.
    pub usage: Usage,
    /// The cost of the model call that wrote the summary, in US dollars. `None` if the model has no
    /// known price.
    pub cost_usd: Option<f64>,
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolEnded {
    /// The agent that made the call.
    pub agent: AgentName,
    /// If the agent is a subagent: the tool call that started it.
    pub parent_call: Option<String>,
    /// The call's id.
    pub call: String,
    /// The name of the tool.
    pub tool: String,
    /// The result as text for the model.
    pub text: String,
    /// The tool's result as data for programs (the field `tool_use_result` of the stream-json
    /// output).
    pub data: Value,
    /// Whether the call failed.
    pub is_error: bool,
}

/// Reads and writes a duration as a whole number of milliseconds.
pub(crate) mod duration_ms {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

/// Reads and writes an optional duration as a whole number of milliseconds.
pub(crate) mod optional_ms {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        duration.map(ms).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}

/// Writes a path as text. A path that is not valid UTF-8 loses the invalid bytes. Otherwise, the
/// whole event could not be written as JSON.
pub(crate) fn lossy_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}
