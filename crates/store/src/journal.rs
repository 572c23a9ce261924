//! The team's journal: an append-only log with one JSON line per event.
//!
//! The journal is evidence and not the source of truth. The present state is read from inboxes,
//! tasks and transcripts, and the history from the journal.

use std::collections::{BTreeMap, BTreeSet};

use pitcrew_protocol::{AgentName, MessageId, TaskAssignment, TaskId};
use serde::{Deserialize, Serialize};

use crate::spelled::{MemberChange, PermissionOutcome, StartedProgram, TaskChangeKind};

/// Maximum number of lasting permissions of one member in a summary.
const MOST_ALWAYS: usize = 100;

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Time of the event, in milliseconds since 1970.
    pub at_ms: i64,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// The data that a resume needs from a journal. Its size depends on the number of members,
/// assignments and open tasks, not on the length of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalSummary {
    /// The journal's data about each member, including members that left.
    pub members: BTreeMap<AgentName, MemberSummary>,
    /// The messages that assigned tasks to members.
    pub assignments: BTreeSet<MessageId>,
    /// Tasks that were created and neither completed nor deleted. Changes by other programs are not
    /// counted.
    #[serde(default)]
    pub open_tasks: BTreeSet<TaskId>,
    /// Total duration of the team's finished runs.
    #[serde(default)]
    ran_ms: u64,
    /// The run without an end entry. It is still running, or it was killed.
    #[serde(default)]
    open_run: Option<RunSpan>,
}

/// The time from the start of a run to its latest relevant event, in milliseconds since 1970.
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

/// The journal's data about one member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberSummary {
    /// The latest change to each state, ordered by time, the newest last.
    pub states: Vec<MemberState>,
    /// Number of turns that the member ended since its last spawn.
    pub turns: u32,
    /// Permissions that the member got for the future since its last spawn. Contains only
    /// permissions that are valid after a resume.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub always: BTreeSet<String>,
    /// The cost of all turns of the member, by model. Includes earlier members of the same name,
    /// because their turns were paid too.
    #[serde(default)]
    pub spent: BTreeMap<String, Spent>,
}

/// The consumption of the turns on one model: tokens, cost and time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Number of turns.
    pub turns: u32,
    /// Number of turns without a known price.
    pub unpriced_turns: u32,
    /// Number of tool calls that the model made.
    pub tool_calls: u32,
    /// Input tokens, including cached ones.
    pub input_tokens: u64,
    /// Input tokens that were read from the cache.
    pub cache_read_tokens: u64,
    /// Input tokens that were written to the cache.
    pub cache_creation_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Cost in billionths of a US dollar. A sum of whole numbers is the same in any order.
    pub cost_nano_usd: u64,
    /// Time that the model took.
    pub model_ms: u64,
}

impl Spent {
    /// Returns the cost in US dollars.
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
    /// More details, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl JournalSummary {
    /// Returns the summary of these entries.
    #[must_use]
    pub fn of(entries: impl IntoIterator<Item = JournalEntry>) -> Self {
        let mut summary = Self::default();
        for entry in entries {
            summary.add(entry);
        }
        summary
    }

    /// Returns the total duration of all runs of the team, without the time between them. A killed
    /// run counts up to its last event.
    #[must_use]
    pub fn ran_ms(&self) -> u64 {
        self.ran_ms.saturating_add(self.open_run.map_or(0, RunSpan::length_ms))
    }

    /// Adds the next entry. If you change which data is added, increase `FORM` in
    /// `files/checkpoint.rs`.
    pub(crate) fn add(&mut self, JournalEntry { at_ms, event }: JournalEntry) {
        match event {
            // A killed run has no end entry, so the next start closes it.
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
                    // This is a new member with the same name.
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
            Event::TaskChanged { task, change, fields, .. } => {
                self.task_changed(task, &change, &fields);
            }
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

    fn task_changed(&mut self, task: TaskId, change: &TaskChangeKind, fields: &[String]) {
        match change {
            TaskChangeKind::Completed | TaskChangeKind::Deleted => {
                self.open_tasks.remove(&task);
            }
            // A change without the status does not show whether the task is open.
            TaskChangeKind::Updated if fields.iter().all(|field| field != "status") => {}
            TaskChangeKind::Updated
            | TaskChangeKind::Created
            | TaskChangeKind::Claimed
            | TaskChangeKind::Released
            | TaskChangeKind::Other(_) => _ = self.open_tasks.insert(task),
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

    /// Returns search texts. Every line that changes a summary contains at least one of them. Other
    /// lines may contain one too.
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

/// Whether the event belongs to the history of a message: it is about the message, or it is the end
/// of the team.
pub(crate) fn is_on_way_of(id: &MessageId, event: &Event) -> bool {
    event.message() == Some(id)
        || matches!(event, Event::TeamDeleted { .. } | Event::TeamArchived { .. })
}

/// Returns search texts. Every line in the history of a message contains at least one of them.
/// Other lines may contain one too.
pub(crate) fn texts_on_way_of(id: &MessageId) -> Vec<String> {
    let [deleted, archived] =
        [r#""event":"team_deleted""#, r#""event":"team_archived""#].map(str::to_owned);
    fast([serde_json::json!(id).to_string(), deleted, archived])
}

/// Shortens search texts to their ends, because the standard library finds short texts much faster.
fn fast<const N: usize>(texts: [String; N]) -> Vec<String> {
    const FAST: usize = 32;
    let end = |text: String| {
        text.get(text.len().saturating_sub(FAST)..).map(str::to_owned).unwrap_or(text)
    };
    texts.into_iter().map(end).collect()
}

/// Changes that another program overwrote in a file, and how they were restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overwritten {
    /// The file, such as `inboxes/bob.json`, `tasks/3.json` or `config.json`.
    pub file: String,
    /// The restored items: message ids, field names, or `removed` for a removed task that another
    /// program had written again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub put_back: Vec<String>,
    /// Fields that keep the other program's value, because that program changed them too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
}

/// An event in a team.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The team was created.
    TeamCreated {
        /// The team's name as given by its creator.
        team: String,
    },
    /// The team was deleted. This is the last line of its journal.
    TeamDeleted {
        /// The team's name as given by its creator.
        team: String,
    },
    /// The team finished its work and was archived. More lines follow if a run restores it.
    TeamArchived {
        /// The team's name as given by its creator.
        team: String,
    },
    /// A message is on disk.
    MessagePersisted {
        /// The message.
        id: MessageId,
        /// The sender.
        from: String,
        /// The owner of the inbox.
        to: AgentName,
        /// The frame's type. Absent for a plain text message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        frame: Option<String>,
    },
    /// A message is in its receiver's transcript, which means that it is delivered.
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
    /// A message cannot be delivered any more.
    MessageDead {
        /// The message.
        id: MessageId,
        /// The agent to which the message belonged.
        to: AgentName,
        /// The reason.
        reason: String,
    },
    /// A message claimed to come from the lead but was not accepted as such. No agent received it,
    /// and it was marked as read.
    FrameRefused {
        /// The message.
        id: MessageId,
        /// The owner of the inbox that contained the message.
        to: AgentName,
        /// The sender that the message names.
        from: String,
        /// The frame type of the message.
        frame: String,
        /// The reason for the refusal.
        reason: String,
    },
    /// A task was created, changed or removed.
    TaskChanged {
        /// The task.
        task: TaskId,
        /// The author of the change.
        by: String,
        /// The kind of change.
        change: TaskChangeKind,
        /// The changed fields.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        fields: Vec<String>,
    },
    /// Another program wrote back an older reading of a file without its lock, and so overwrote
    /// pitcrew's changes.
    Overwritten(Overwritten),
    /// A member joined, left, or changed its state or mode.
    MemberChanged {
        /// The member.
        member: AgentName,
        /// The kind of change, or the new state of the member.
        state: MemberChange,
        /// More details, as text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// A process, a pane, or both were started to run a member.
    Started {
        /// The member.
        member: AgentName,
        /// The program that runs the member.
        program: StartedProgram,
        /// The process id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
        /// Start time of the process in clock ticks since boot.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start_ticks: Option<u64>,
        /// The pane, as `backend:id`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pane: Option<String>,
        /// Id of the process that started the member and is responsible for stopping it.
        owner: u32,
    },
    /// The process and pane of a member are gone. Nothing is left to stop.
    Stopped {
        /// The member.
        member: AgentName,
        /// The former process id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
        /// The former pane, as `backend:id`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pane: Option<String>,
    },
    /// A permission was requested, or the request was answered.
    Permission {
        /// The id of the permission request.
        request: String,
        /// The member that requested the permission.
        member: AgentName,
        /// The tool.
        tool: String,
        /// The outcome of the request so far.
        outcome: PermissionOutcome,
    },
    /// A user at the process of a member gave this member a permission for the rest of the run.
    AllowedAlways {
        /// The member. The permission is valid only for this member.
        member: AgentName,
        /// The rule of the permission, such as `Bash(npm test:*)`. If there is no rule, a
        /// description of the permission.
        what: String,
        /// Whether the member keeps the permission after a resume.
        lasts: bool,
    },
    /// A summary replaced an agent's conversation, because the conversation had almost reached the
    /// limit of its model.
    ConversationCompacted {
        /// The agent.
        member: AgentName,
        /// Length of the conversation before, in tokens.
        tokens_before: u64,
        /// Approximate length of the conversation now, in tokens.
        tokens_after: u64,
    },
    /// An agent ended a turn.
    TurnEnded(Turn),
    /// A process started to run the team, for the first time or again.
    RunStarted,
    /// The process that ran the team has finished. A killed run has no such line.
    RunEnded,
    /// The consumption of earlier teams of the same run, which its lead deleted before it created
    /// this team.
    EarlierTeams {
        /// Total duration of the runs of the earlier teams.
        ran_ms: u64,
        /// Consumption of each member of the earlier teams, by model.
        spent: BTreeMap<AgentName, BTreeMap<String, Spent>>,
    },
}

/// One call of a model, and its consumption.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The agent.
    pub member: AgentName,
    /// The model that was called.
    pub model: String,
    /// Input tokens, including cached ones.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Cost of the call. Absent for a model without a known price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Input tokens that were read from the cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_read_tokens: u64,
    /// Input tokens that were written to the cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_creation_tokens: u64,
    /// Number of tool calls that the model made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tool_calls: u32,
    /// Time that the model took.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub took_ms: u64,
}

fn is_zero<T: Default + PartialEq>(count: &T) -> bool {
    *count == T::default()
}

impl Turn {
    /// Returns a turn without any consumption data.
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
    /// Returns the message that the event is about.
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
