//! The team's journal: one JSON line an event, append-only.
//!
//! The journal is evidence, not truth: inboxes, tasks and transcripts are read for what is, the journal for what was.

use pitcrew_protocol::{AgentName, MessageId, TaskId};
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
    /// A member joined, left, or changed its state or mode.
    MemberChanged {
        /// The member.
        member: AgentName,
        /// `spawned`, `running`, `idle`, `awaiting_plan_approval`, `shutdown_requested`, `completed`, `failed`, `killed`, `removed`, `mode`.
        state: String,
        /// More, in words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
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
