//! The team's journal: one JSON line an event, append-only.
//!
//! The journal is evidence, not truth: inboxes, tasks and transcripts are read for what is, the journal for what was.

use std::collections::{BTreeMap, BTreeSet};

use pitcrew_protocol::{AgentName, MessageId, TaskAssignment, TaskId};
use serde::{Deserialize, Serialize};

/// How many things that one member was allowed a summary names.
const MOST_ALWAYS: usize = 100;

/// The state of a member that was just added to its team.
const SPAWNED: &str = "spawned";

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}

/// What a resume needs of a journal. Its size depends on how many members and assignments there were, not on the length
/// of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalSummary {
    /// What the journal says of each member, those that left included.
    pub members: BTreeMap<AgentName, MemberSummary>,
    /// The messages that told members of their tasks.
    pub assignments: BTreeSet<MessageId>,
}

/// What the journal says of one member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberSummary {
    /// The latest change to each state, the newest change last.
    pub states: Vec<MemberState>,
    /// How many turns it ended since it was last spawned.
    pub turns: u32,
    /// What it was allowed from now on since then, as far as it keeps that when it is resumed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub always: BTreeSet<String>,
}

/// A change of a member's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberState {
    /// The state, as in [`Event::MemberChanged`].
    pub state: String,
    /// More, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl JournalSummary {
    /// The summary of these entries.
    #[must_use]
    pub fn of(entries: impl IntoIterator<Item = JournalEntry>) -> Self {
        let mut summary = Self::default();
        for entry in entries {
            summary.add(entry.event);
        }
        summary
    }

    /// Adds the next event. Whoever changes what is added raises `FORM` in `files/checkpoint.rs`.
    pub(crate) fn add(&mut self, event: Event) {
        match event {
            Event::MemberChanged { member, state, detail } => {
                let member = self.members.entry(member).or_default();
                if state == SPAWNED {
                    // Another member of the same name.
                    member.turns = 0;
                    member.always.clear();
                }
                member.states.retain(|earlier| earlier.state != state);
                member.states.push(MemberState { state, detail });
            }
            Event::TurnEnded { member, .. } => {
                let turns = &mut self.members.entry(member).or_default().turns;
                *turns = turns.saturating_add(1);
            }
            Event::AllowedAlways { member, what, lasts: true } => {
                let always = &mut self.members.entry(member).or_default().always;
                if always.len() < MOST_ALWAYS {
                    always.insert(what);
                }
            }
            Event::MessagePersisted { id, frame: Some(frame), .. } if frame == TaskAssignment::TYPE => {
                self.assignments.insert(id);
            }
            Event::TeamCreated { .. }
            | Event::TeamDeleted { .. }
            | Event::MessagePersisted { .. }
            | Event::MessageInjected { .. }
            | Event::MessageAcknowledged { .. }
            | Event::MessageDead { .. }
            | Event::FrameRefused { .. }
            | Event::TaskChanged { .. }
            | Event::Overwritten(_)
            | Event::Started { .. }
            | Event::Stopped { .. }
            | Event::Permission { .. }
            | Event::AllowedAlways { .. }
            | Event::ConversationCompacted { .. } => {}
        }
    }

    /// Texts of which each line that changes a summary has one; others may have one too.
    pub(crate) fn texts() -> Vec<String> {
        let assignment = format!(r#""frame":"{}""#, TaskAssignment::TYPE);
        let events = ["member_changed", "turn_ended", "allowed_always"].map(|name| format!(r#""event":"{name}""#));
        let [changed, ended, always] = events;
        fast([changed, ended, always, assignment])
    }
}

/// Whether the event belongs to the way of a message: it is about the message, or is the deletion of the team.
pub(crate) fn is_on_way_of(id: &MessageId, event: &Event) -> bool {
    event.message() == Some(id) || matches!(event, Event::TeamDeleted { .. })
}

/// Texts of which each line on the way of a message has one; others may have one too.
pub(crate) fn texts_on_way_of(id: &MessageId) -> Vec<String> {
    fast([serde_json::json!(id).to_string(), r#""event":"team_deleted""#.to_owned()])
}

/// The ends of texts, so short that the standard library finds them fast.
fn fast<const N: usize>(texts: [String; N]) -> Vec<String> {
    const FAST: usize = 32;
    let end = |text: String| text.get(text.len().saturating_sub(FAST)..).map(str::to_owned).unwrap_or(text);
    texts.into_iter().map(end).collect()
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
    /// The person beside a member allowed it something from now on, for this run.
    AllowedAlways {
        /// The member, which alone it counts for.
        member: AgentName,
        /// A rule such as `Bash(npm test:*)`, or words where there is none.
        what: String,
        /// Whether the member keeps it when it is resumed.
        lasts: bool,
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
            | Self::AllowedAlways { .. }
            | Self::ConversationCompacted { .. }
            | Self::TurnEnded { .. } => None,
        }
    }
}
