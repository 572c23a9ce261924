//! The team's journal: an append-only log with one JSON line per event.
//!
//! The journal is evidence and not the source of truth. The present state of a team is read from
//! its inboxes, tasks and transcripts. The journal only gives the history.

use std::collections::BTreeMap;

use pitcrew_protocol::{AgentName, MessageId, TaskId};
use serde::{Deserialize, Serialize};

use crate::Spent;
use crate::spelled::{MemberChange, PermissionOutcome, StartedProgram, TaskChangeKind};

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Time of the event, in milliseconds since 1970.
    pub at_ms: i64,
    /// The event itself.
    #[serde(flatten)]
    pub event: Event,
}

/// Whether the event belongs to the history of a message. This is the case if the event is about
/// the message, or if the event is the end of the team.
pub(crate) fn is_on_way_of(id: &MessageId, event: &Event) -> bool {
    event.message() == Some(id)
        || matches!(event, Event::TeamDeleted { .. } | Event::TeamArchived { .. })
}

/// Returns search texts for the journal lines that belong to the history of a message. Every such
/// line contains at least one of the texts. Other lines can contain one of the texts too.
pub(crate) fn texts_on_way_of(id: &MessageId) -> Vec<String> {
    let [deleted, archived] =
        [r#""event":"team_deleted""#, r#""event":"team_archived""#].map(str::to_owned);
    fast([serde_json::json!(id).to_string(), deleted, archived])
}

/// Keeps only the last part of each search text, because the standard library searches for short
/// texts much faster.
pub(crate) fn fast<const N: usize>(texts: [String; N]) -> Vec<String> {
    const FAST: usize = 32;
    let end = |text: String| {
        text.get(text.len().saturating_sub(FAST)..).map(str::to_owned).unwrap_or(text)
    };
    texts.into_iter().map(end).collect()
}

/// Reports that another program overwrote changes of pitcrew in a file, and which of them were
/// restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overwritten {
    /// The path of the file, such as `inboxes/bob.json`, `tasks/3.json` or `config.json`.
    pub file: String,
    /// What was restored: message ids or field names. For a removed task that another program had
    /// written again, the only element is `removed`, because the task was removed again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub put_back: Vec<String>,
    /// Fields that keep the other program's value. The other program also changed these fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
}

/// Something that happened in a team, as the journal records it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The team was created.
    TeamCreated {
        /// The team's name in the form that its creator gave.
        team: String,
    },
    /// The team was deleted. If the lead of a run deleted it, the rest of this run follows in the
    /// archive. A restored team continues the journal too.
    TeamDeleted {
        /// The team's name in the form that its creator gave.
        team: String,
    },
    /// The team finished its work and was archived. If a run restores the team, more lines follow.
    TeamArchived {
        /// The team's name in the form that its creator gave.
        team: String,
    },
    /// A message was written to an inbox and is on disk.
    MessagePersisted {
        /// The id of the message.
        id: MessageId,
        /// The sender that the message names.
        from: String,
        /// The name of the author, if the author is not the sender. For example, the user answers a
        /// plan, and the answer goes out in the lead's name. Older versions never wrote it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        author: Option<String>,
        /// The agent that owns the inbox.
        to: AgentName,
        /// The type of the frame that the message carries. `None` for a plain text message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        frame: Option<String>,
    },
    /// A message was written to its receiver's transcript. From then on it counts as delivered.
    MessageInjected {
        /// The id of the message.
        id: MessageId,
        /// The receiver of the message.
        to: AgentName,
    },
    /// A message was marked as read.
    MessageAcknowledged {
        /// The id of the message.
        id: MessageId,
        /// The receiver of the message.
        to: AgentName,
    },
    /// A message cannot be delivered any more.
    MessageDead {
        /// The id of the message.
        id: MessageId,
        /// The agent that should have received the message.
        to: AgentName,
        /// The reason why the message cannot be delivered.
        reason: String,
    },
    /// A message claimed to come from the lead, but pitcrew did not accept this claim. No agent
    /// received the message, and the message was marked as read.
    FrameRefused {
        /// The id of the message.
        id: MessageId,
        /// The agent that owns the inbox with the message.
        to: AgentName,
        /// The sender that the message claims to have.
        from: String,
        /// The type of the frame that the message carries.
        frame: String,
        /// The reason why the message was refused.
        reason: String,
    },
    /// A task was created, changed or removed. `change` says which.
    TaskChanged {
        /// The id of the task.
        task: TaskId,
        /// The name of the agent or program that made the change.
        by: String,
        /// The kind of change.
        change: TaskChangeKind,
        /// The names of the changed fields.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        fields: Vec<String>,
    },
    /// Another program wrote old content of a file back, without the lock of the file. This
    /// overwrote changes of pitcrew.
    Overwritten(Overwritten),
    /// A member joined, left, or changed its state or mode.
    MemberChanged {
        /// The name of the member.
        member: AgentName,
        /// The kind of change. If the member's state changed, this is the new state.
        state: MemberChange,
        /// A text with more details about the change, if there are any. For a spawn, this is the
        /// name of the agent or user that spawned the member.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// A member was started: in a process, in a pane, or in both.
    Started {
        /// The name of the member.
        member: AgentName,
        /// The program that runs the member.
        program: StartedProgram,
        /// The id of the started process, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
        /// Start time of the started process, in clock ticks since boot.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start_ticks: Option<u64>,
        /// The pane of the member in the form `backend:id`, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pane: Option<String>,
        /// The id of the process that started the member. That process must also stop the member.
        owner: u32,
    },
    /// The process and the pane of a member no longer exist, so nothing is left to stop.
    Stopped {
        /// The name of the member.
        member: AgentName,
        /// The id that the process had, if there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
        /// The pane that the member had, in the form `backend:id`, if there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pane: Option<String>,
    },
    /// A member requested a permission, or the permission request was answered.
    Permission {
        /// The id of the permission request.
        request: String,
        /// The member that requested the permission.
        member: AgentName,
        /// The name of the tool for which permission was requested.
        tool: String,
        /// The beginning of the most informative field of the call's input, such as the command.
        /// Only a request has it. Older versions never wrote it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        telling: Option<String>,
        /// What has happened to the permission request so far.
        outcome: PermissionOutcome,
    },
    /// The person at the terminal of a member's process allowed this member a kind of tool call
    /// until the end of the run, or longer if `lasts` is true.
    AllowedAlways {
        /// The name of the member. The permission is valid only for this member.
        member: AgentName,
        /// The rule of the permission, such as `Bash(npm test:*)`. If the permission has no rule,
        /// this is a description of the permission.
        what: String,
        /// Whether the permission stays valid after a resume.
        lasts: bool,
    },
    /// An agent's conversation was replaced by a summary of the conversation, because it had almost
    /// filled the context window of the agent's model.
    ConversationCompacted {
        /// The name of the agent.
        member: AgentName,
        /// Length of the conversation before the summary replaced it, in tokens.
        tokens_before: u64,
        /// Approximate length of the conversation after the summary replaced it, in tokens.
        tokens_after: u64,
    },
    /// A turn (one model call) of an agent ended.
    TurnEnded(Turn),
    /// A process began to run the team, for the first time or after a resume.
    RunStarted {
        /// The beginning of the run's goal, or of the instruction with which the team was resumed.
        /// `None` if the user gave no instruction. Older versions never wrote it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        goal: Option<String>,
        /// The commit that was checked out in the lead's folder. `None` if that folder is in no
        /// repository, or if the repository has no commit. Older versions never wrote it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        head: Option<String>,
    },
    /// The process that ran the team has finished. If a run is killed, it writes no such line.
    RunEnded {
        /// How the run ended, as in the result of a run, such as `completed` or `interrupted`.
        /// Older versions never wrote it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<String>,
        /// The reason, if `end` does not explain itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// What earlier teams of the same run used. The lead of the run deleted these teams before it
    /// created this team.
    EarlierTeams {
        /// Total duration of the runs of the earlier teams, in milliseconds.
        ran_ms: u64,
        /// What each member of the earlier teams used, by model.
        spent: BTreeMap<AgentName, BTreeMap<String, Spent>>,
    },
}

/// One call of a model, with the tokens, the cost and the time that it used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The name of the agent that called the model.
    pub member: AgentName,
    /// The model that was called.
    pub model: String,
    /// Number of input tokens, including cached tokens.
    pub input_tokens: u64,
    /// Number of output tokens.
    pub output_tokens: u64,
    /// Cost of the call in US dollars. `None` if the price of the model is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Number of input tokens that were read from the cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_read_tokens: u64,
    /// Number of input tokens that were written to the cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_creation_tokens: u64,
    /// Number of tool calls in the answer of the model.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tool_calls: u32,
    /// Duration of the call, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub took_ms: u64,
}

fn is_zero<T: Default + PartialEq>(count: &T) -> bool {
    *count == T::default()
}

impl Turn {
    /// Returns a turn in which tokens, cost and time are not filled in yet.
    #[must_use]
    pub fn new(member: AgentName, model: impl Into<String>) -> Self {
        Self {
            member,
            model: model.into(),
            input_tokens: 0,
            output_tokens: 0,
            cost_usd: None,
            cache_read_tokens: 0,
            cache_creation_tokens: 0,
            tool_calls: 0,
            took_ms: 0,
        }
    }
}

impl Event {
    /// Returns the id of the message that the event is about, or `None` if the event is about no
    /// message.
    #[must_use]
    pub fn message(&self) -> Option<&MessageId> {
        match self {
            Self::MessagePersisted { id, .. }
            | Self::MessageInjected { id, .. }
            | Self::MessageAcknowledged { id, .. }
            | Self::MessageDead { id, .. }
            | Self::FrameRefused { id, .. } => Some(id),
            Self::TeamCreated { .. }
            | Self::TeamDeleted { .. }
            | Self::TeamArchived { .. }
            | Self::TaskChanged { .. }
            | Self::Overwritten(_)
            | Self::MemberChanged { .. }
            | Self::Started { .. }
            | Self::Stopped { .. }
            | Self::Permission { .. }
            | Self::AllowedAlways { .. }
            | Self::ConversationCompacted { .. }
            | Self::TurnEnded(_)
            | Self::RunStarted { .. }
            | Self::RunEnded { .. }
            | Self::EarlierTeams { .. } => None,
        }
    }
}
