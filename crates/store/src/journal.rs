//! The team's journal: one JSON line an event, append-only.
//!
//! The journal is evidence, not truth: inboxes, tasks and transcripts are read for what is, the journal for what was.

use std::collections::{BTreeMap, BTreeSet};

use pitcrew_protocol::{AgentName, MessageId, TaskAssignment, TaskId};
use serde::{Deserialize, Serialize};

use crate::spelled::{MemberChange, PermissionOutcome, StartedProgram, TaskChangeKind};

/// How many things that one member was allowed a summary names.
const MOST_ALWAYS: usize = 100;

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
    /// The tasks that were made and neither completed nor deleted, as far as processes of ours did that.
    #[serde(default)]
    pub open_tasks: BTreeSet<TaskId>,
    /// How long the runs of the team took that are over.
    #[serde(default)]
    ran_ms: u64,
    /// The run that has not noted its end: it goes on, or was killed.
    #[serde(default)]
    open_run: Option<RunSpan>,
}

/// From the start of a run to its latest event that counts here, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RunSpan {
    began_ms: i64,
    latest_ms: i64,
}

impl RunSpan {
    fn length_ms(self) -> u64 {
        u64::try_from(self.latest_ms.saturating_sub(self.began_ms)).unwrap_or_default()
    }
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
    /// What all its turns took, by the model: those of earlier members of its name too, which were paid for as well.
    #[serde(default)]
    pub spent: BTreeMap<String, Spent>,
}

/// What turns on one model took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// How many there were.
    pub turns: u32,
    /// How many of them had no price.
    pub unpriced_turns: u32,
    /// Calls of tools that the model made.
    pub tool_calls: u32,
    /// Tokens read, cached ones included.
    pub input_tokens: u64,
    /// Tokens of those that came from the cache.
    pub cache_read_tokens: u64,
    /// Tokens of those that went into the cache.
    pub cache_creation_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// What they cost, in billionths of a US dollar: whole numbers add up to the same in any order.
    pub cost_nano_usd: u64,
    /// How long the model took.
    pub model_ms: u64,
}

impl Spent {
    /// The cost in US dollars.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "an amount that large is not paid")]
    pub fn cost_usd(&self) -> f64 {
        self.cost_nano_usd as f64 / NANO_PER_USD
    }

    fn add(&mut self, turn: &Turn) {
        self.turns = self.turns.saturating_add(1);
        self.tool_calls = self.tool_calls.saturating_add(turn.tool_calls);
        self.input_tokens = self.input_tokens.saturating_add(turn.input_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(turn.cache_read_tokens);
        self.cache_creation_tokens =
            self.cache_creation_tokens.saturating_add(turn.cache_creation_tokens);
        self.output_tokens = self.output_tokens.saturating_add(turn.output_tokens);
        self.model_ms = self.model_ms.saturating_add(turn.took_ms);
        match turn.cost_usd {
            Some(cost_usd) => {
                self.cost_nano_usd = self.cost_nano_usd.saturating_add(nano_usd(cost_usd))
            }
            None => self.unpriced_turns = self.unpriced_turns.saturating_add(1),
        }
    }

    fn add_all(&mut self, other: &Self) {
        let Self {
            turns,
            unpriced_turns,
            tool_calls,
            input_tokens,
            cache_read_tokens,
            cache_creation_tokens,
            output_tokens,
            cost_nano_usd,
            model_ms,
        } = other;
        self.turns = self.turns.saturating_add(*turns);
        self.unpriced_turns = self.unpriced_turns.saturating_add(*unpriced_turns);
        self.tool_calls = self.tool_calls.saturating_add(*tool_calls);
        self.input_tokens = self.input_tokens.saturating_add(*input_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(*cache_read_tokens);
        self.cache_creation_tokens =
            self.cache_creation_tokens.saturating_add(*cache_creation_tokens);
        self.output_tokens = self.output_tokens.saturating_add(*output_tokens);
        self.cost_nano_usd = self.cost_nano_usd.saturating_add(*cost_nano_usd);
        self.model_ms = self.model_ms.saturating_add(*model_ms);
    }
}

const NANO_PER_USD: f64 = 1e9;

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of a float keeps to the bounds"
)]
fn nano_usd(cost_usd: f64) -> u64 {
    (cost_usd * NANO_PER_USD).round() as u64
}

/// A change of a member's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberState {
    /// The state, as in [`Event::MemberChanged`].
    pub state: MemberChange,
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
            summary.add(entry);
        }
        summary
    }

    /// How long all runs of the team took, without the time between them. One that was killed counts up to its last event.
    #[must_use]
    pub fn ran_ms(&self) -> u64 {
        self.ran_ms.saturating_add(self.open_run.map_or(0, RunSpan::length_ms))
    }

    /// Adds the next entry. Whoever changes what is added raises `FORM` in `files/checkpoint.rs`.
    pub(crate) fn add(&mut self, JournalEntry { at_ms, event }: JournalEntry) {
        match event {
            Event::RunStarted => {
                self.close_run();
                self.open_run = Some(RunSpan { began_ms: at_ms, latest_ms: at_ms });
            }
            Event::RunEnded => {
                self.run_goes_on(at_ms);
                self.close_run();
            }
            Event::MemberChanged { member, state, detail } => {
                self.run_goes_on(at_ms);
                let member = self.members.entry(member).or_default();
                if state == MemberChange::Spawned {
                    // Another member of the same name.
                    member.turns = 0;
                    member.always.clear();
                }
                member.states.retain(|earlier| earlier.state != state);
                member.states.push(MemberState { state, detail });
            }
            Event::TurnEnded(turn) => {
                self.run_goes_on(at_ms);
                let member = self.members.entry(turn.member.clone()).or_default();
                member.turns = member.turns.saturating_add(1);
                member.spent.entry(turn.model.clone()).or_default().add(&turn);
            }
            Event::AllowedAlways { member, what, lasts: true } => {
                let always = &mut self.members.entry(member).or_default().always;
                if always.len() < MOST_ALWAYS {
                    always.insert(what);
                }
            }
            Event::MessagePersisted { id, frame: Some(frame), .. }
                if frame == TaskAssignment::TYPE =>
            {
                self.assignments.insert(id);
            }
            Event::TaskChanged { task, change, fields, .. } => match change {
                TaskChangeKind::Completed | TaskChangeKind::Deleted => {
                    self.open_tasks.remove(&task);
                }
                // A change of its texts says nothing of where it stands.
                TaskChangeKind::Updated if fields.iter().all(|field| field != "status") => {}
                TaskChangeKind::Updated
                | TaskChangeKind::Created
                | TaskChangeKind::Claimed
                | TaskChangeKind::Released
                | TaskChangeKind::Other(_) => _ = self.open_tasks.insert(task),
            },
            Event::EarlierTeams { ran_ms, spent } => {
                self.ran_ms = self.ran_ms.saturating_add(ran_ms);
                for (member, spent) in spent {
                    let member = self.members.entry(member).or_default();
                    for (model, spent) in spent {
                        member.spent.entry(model).or_default().add_all(&spent);
                    }
                }
            }
            Event::TeamCreated { .. }
            | Event::TeamDeleted { .. }
            | Event::TeamArchived { .. }
            | Event::MessagePersisted { .. }
            | Event::MessageInjected { .. }
            | Event::MessageAcknowledged { .. }
            | Event::MessageDead { .. }
            | Event::FrameRefused { .. }
            | Event::Overwritten(_)
            | Event::Started { .. }
            | Event::Stopped { .. }
            | Event::Permission { .. }
            | Event::AllowedAlways { .. }
            | Event::ConversationCompacted { .. } => {}
        }
    }

    fn run_goes_on(&mut self, at_ms: i64) {
        if let Some(run) = &mut self.open_run {
            run.latest_ms = run.latest_ms.max(at_ms);
        }
    }

    fn close_run(&mut self) {
        self.ran_ms = self.ran_ms();
        self.open_run = None;
    }

    /// Texts of which each line that changes a summary has one; others may have one too.
    pub(crate) fn texts() -> Vec<String> {
        let assignment = format!(r#""frame":"{}""#, TaskAssignment::TYPE);
        let of_event = |name: &str| format!(r#""event":"{name}""#);
        fast([
            of_event("member_changed"),
            of_event("turn_ended"),
            of_event("run_started"),
            of_event("run_ended"),
            of_event("earlier_teams"),
            of_event("allowed_always"),
            of_event("task_changed"),
            assignment,
        ])
    }
}

/// Whether the event belongs to the way of a message: it is about the message, or is the end of the team.
pub(crate) fn is_on_way_of(id: &MessageId, event: &Event) -> bool {
    event.message() == Some(id)
        || matches!(event, Event::TeamDeleted { .. } | Event::TeamArchived { .. })
}

/// Texts of which each line on the way of a message has one; others may have one too.
pub(crate) fn texts_on_way_of(id: &MessageId) -> Vec<String> {
    let [deleted, archived] =
        [r#""event":"team_deleted""#, r#""event":"team_archived""#].map(str::to_owned);
    fast([serde_json::json!(id).to_string(), deleted, archived])
}

/// The ends of texts, so short that the standard library finds them fast.
fn fast<const N: usize>(texts: [String; N]) -> Vec<String> {
    const FAST: usize = 32;
    let end = |text: String| {
        text.get(text.len().saturating_sub(FAST)..).map(str::to_owned).unwrap_or(text)
    };
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
    /// The team's work was done, and it went into the archive. More follows when a run takes it out again.
    TeamArchived {
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
        /// What was done.
        change: TaskChangeKind,
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
        /// What changed, or its new state.
        state: MemberChange,
        /// More, in words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// Something that runs a member was started: a process, a pane, or both.
    Started {
        /// The member.
        member: AgentName,
        /// What runs.
        program: StartedProgram,
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
        /// What became of it.
        outcome: PermissionOutcome,
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
    TurnEnded(Turn),
    /// A process began to run the team, for the first time or again.
    RunStarted,
    /// The process that ran the team is done. A run that was killed has no such line.
    RunEnded,
    /// What the run that made the team took for those before it, which its lead has deleted.
    EarlierTeams {
        /// How long their runs took.
        ran_ms: u64,
        /// What the turns of each of their members took, by the model.
        spent: BTreeMap<AgentName, BTreeMap<String, Spent>>,
    },
}

/// One call of a model, and what it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The agent.
    pub member: AgentName,
    /// The model it ran on.
    pub model: String,
    /// Tokens read, cached ones included.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// What it cost; absent for a model without a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Tokens read that came from the cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_read_tokens: u64,
    /// Tokens read that went into the cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_creation_tokens: u64,
    /// Calls of tools that the model made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tool_calls: u32,
    /// How long the model took.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub took_ms: u64,
}

fn is_zero<T: Default + PartialEq>(count: &T) -> bool {
    *count == T::default()
}

impl Turn {
    /// A turn of which nothing is known but that it was.
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
            | Self::RunStarted
            | Self::RunEnded
            | Self::EarlierTeams { .. } => None,
        }
    }
}
