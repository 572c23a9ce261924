//! The team's journal: one JSON line an event, append-only.
//!
//! The journal is evidence, not truth: inboxes, tasks and transcripts are read for what is, the journal for what was.

use pitcrew_protocol::{AgentName, MessageId, TaskAssignment, TaskId};
use serde::{Deserialize, Serialize};

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}

/// What is asked of a journal, which is too long to be read whole for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// One message, and the deletion of the team.
    Message(MessageId),
    /// The states and turns of members.
    Members,
    /// The frames that told members of their tasks.
    Assignments,
}

impl About {
    /// Whether the event belongs to the answer.
    #[must_use]
    pub fn includes(&self, event: &Event) -> bool {
        match self {
            Self::Message(wanted) => {
                event.message().is_some_and(|id| id == wanted) || matches!(event, Event::TeamDeleted { .. })
            }
            Self::Members => matches!(event, Event::MemberChanged { .. } | Event::TurnEnded { .. }),
            Self::Assignments => matches!(event, Event::MessagePersisted { frame: Some(frame), .. }
                if frame == TaskAssignment::TYPE),
        }
    }

    /// Texts of which each line that belongs to the answer has one; others may have one too. They are so short that the
    /// standard library finds them fast.
    pub(crate) fn texts(&self) -> Vec<String> {
        const FAST: usize = 32;
        let texts = match self {
            Self::Message(id) => vec![serde_json::json!(id).to_string(), r#""event":"team_deleted""#.to_owned()],
            Self::Members => [r#""event":"member_changed""#, r#""event":"turn_ended""#].map(str::to_owned).into(),
            Self::Assignments => vec![format!(r#""frame":"{}""#, TaskAssignment::TYPE)],
        };
        let end = |text: String| text.get(text.len().saturating_sub(FAST)..).map(str::to_owned).unwrap_or(text);
        texts.into_iter().map(end).collect()
    }
}

/// What another program undid in a file, and what was done about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overwritten {
    /// The file, such as `inboxes/bob.json`, `tasks/3.json` or `config.json`.
    pub file: String,
    /// What was put back: ids of messages, names of fields, or `removed` for a task that had come back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub put_back: Vec<String>,
    /// The fields that keep the other program's value, since it changed them as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
}

/// What can happen in a team.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The team was made.
    TeamCreated {
        /// Its name as given.
        team: String,
    },
    /// The team was deleted; the last line of its journal.
    TeamDeleted {
        /// Its name as given.
        team: String,
    },
    /// A message is on disk.
    MessagePersisted {
        /// The message.
        id: MessageId,
        /// Who sent it.
        from: String,
        /// Whose inbox it is in.
        to: AgentName,
        /// The frame's type, absent for text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        frame: Option<String>,
    },
    /// A message is in its receiver's transcript: delivered.
    MessageInjected {
        /// The message.
        id: MessageId,
        /// The receiver.
        to: AgentName,
    },
    /// A message is marked read.
    MessageAcknowledged {
        /// The message.
        id: MessageId,
        /// The receiver.
        to: AgentName,
    },
    /// A message will not be delivered.
    MessageDead {
        /// The message.
        id: MessageId,
        /// Whose it was.
        to: AgentName,
        /// Why.
        reason: String,
    },
    /// A message claimed to be of the lead, and was not taken for that: it was given to nobody and marked read.
    FrameRefused {
        /// The message.
        id: MessageId,
        /// Whose inbox it stood in.
        to: AgentName,
        /// Who it says it is from.
        from: String,
        /// The type of the frame it pretends to be.
        frame: String,
        /// Why it was not taken.
        reason: String,
    },
    /// A task was made, changed or removed.
    TaskChanged {
        /// The task.
        task: TaskId,
        /// Who did it.
        by: String,
        /// `created`, `updated`, `claimed`, `completed`, `released` or `deleted`.
        change: String,
        /// The fields that changed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        fields: Vec<String>,
    },
    /// Another program wrote an older reading of a file back, without its lock, and so undid what we had written.
    Overwritten(Overwritten),
    /// A member joined, left, or changed its state or mode.
    MemberChanged {
        /// The member.
        member: AgentName,
        /// `spawned`, `joined`, `running`, `idle`, `awaiting_plan_approval`, `shutdown_requested`, `completed`, `failed`, `killed`, `removed`, `mode`, `mode_refused`.
        state: String,
        /// More, in words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// Something that runs a member was started: a process, a pane, or both.
    Started {
        /// The member.
        member: AgentName,
        /// What runs: `pitcrew` or `claude`.
        program: String,
        /// Its process id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
        /// The start of that process in clock ticks since boot.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start_ticks: Option<u64>,
        /// Its pane, as `backend:id`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pane: Option<String>,
        /// The process id of who started it and answers for its end.
        owner: u32,
    },
    /// What ran a member is gone, its pane too; nothing is left to stop.
    Stopped {
        /// The member.
        member: AgentName,
        /// The process id it had.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
        /// The pane it had, as `backend:id`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pane: Option<String>,
    },
    /// A permission was asked for or answered.
    Permission {
        /// The request.
        request: String,
        /// Who asked.
        member: AgentName,
        /// The tool.
        tool: String,
        /// `asked`, `allowed` or `denied`.
        outcome: String,
    },
    /// A summary took the place of an agent's conversation, which came near the end of what its model can read.
    ConversationCompacted {
        /// The agent.
        member: AgentName,
        /// What the conversation filled before, in tokens.
        tokens_before: u64,
        /// What it fills now, about.
        tokens_after: u64,
    },
    /// An agent ended a turn.
    TurnEnded {
        /// The agent.
        member: AgentName,
        /// The model it ran on.
        model: String,
        /// Tokens read, cached ones included.
        input_tokens: u64,
        /// Tokens written.
        output_tokens: u64,
        /// What it cost; absent for a model without a price.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
}

impl Event {
    /// The message that the event is about.
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
            | Self::TaskChanged { .. }
            | Self::Overwritten(_)
            | Self::MemberChanged { .. }
            | Self::Started { .. }
            | Self::Stopped { .. }
            | Self::Permission { .. }
            | Self::ConversationCompacted { .. }
            | Self::TurnEnded { .. } => None,
        }
    }
}
