//! The team's journal: an append-only log with one JSON line per event.
//!
//! The journal is evidence and not the source of truth. The present state of a team is read from
//! its inboxes, tasks and transcripts. The journal only gives the history.

use std::collections::{BTreeMap, BTreeSet};

use pitcrew_protocol::{AgentName, MessageId, TaskAssignment, TaskId};
use serde::{Deserialize, Serialize};

use crate::spelled::{MemberChange, PermissionOutcome, StartedProgram, TaskChangeKind};

/// The maximum number of permissions of one member that a journal summary keeps.
const MOST_ALWAYS: usize = 100;

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Time of the event, in milliseconds since 1970.
    pub at_ms: i64,
    /// The event itself.
    #[serde(flatten)]
    pub event: Event,
}

/// A summary of the journal, with the data that a resume of the team needs. The size of a summary
/// depends on the number of members, assignments and open tasks. It does not depend on the length
/// of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalSummary {
    /// What the journal says about each member, including members that have left the team.
    pub members: BTreeMap<AgentName, MemberSummary>,
    /// The ids of the messages that assigned tasks to members.
    pub assignments: BTreeSet<MessageId>,
    /// Tasks that were created and not yet completed or deleted. Only changes that pitcrew made are
    /// counted, because other programs write no journal.
    #[serde(default)]
    pub open_tasks: BTreeSet<TaskId>,
    /// Total duration of the team's ended runs, in milliseconds. The duration that an
    /// [`Event::EarlierTeams`] entry gives is included.
    #[serde(default)]
    ran_ms: u64,
    /// The run that has no end entry. This run is still going on, or it was killed. `None` if all
    /// runs have ended.
    #[serde(default)]
    open_run: Option<RunSpan>,
}

/// The time when a run started, and the time of the latest event of the run that the summary uses
/// as a sign of life: a member change, an ended turn or the end of the run. Both times are in
/// milliseconds since 1970.
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

/// What the journal says about one member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberSummary {
    /// The latest change to each state, ordered by time. The newest change is the last element.
    pub states: Vec<MemberState>,
    /// Number of turns that the member has ended since its last spawn.
    pub turns: u32,
    /// Permissions that a user gave this member since its last spawn. Only permissions that stay
    /// valid after a resume are included.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub always: BTreeSet<String>,
    /// What all turns of the member used, by model: tokens, cost and time. The turns of earlier
    /// members with the same name are included, because these turns were paid too.
    #[serde(default)]
    pub spent: BTreeMap<String, Spent>,
}

/// What all turns that called one model used: tokens, cost and time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Number of turns.
    pub turns: u32,
    /// Number of turns without a known price.
    pub unpriced_turns: u32,
    /// Number of tool calls that the model made.
    pub tool_calls: u32,
    /// Number of input tokens, including cached tokens.
    pub input_tokens: u64,
    /// Number of input tokens that were read from the cache.
    pub cache_read_tokens: u64,
    /// Number of input tokens that were written to the cache.
    pub cache_creation_tokens: u64,
    /// Number of output tokens.
    pub output_tokens: u64,
    /// Cost in billionths of a US dollar. An integer is used because a sum of integers is the same
    /// in any order.
    pub cost_nano_usd: u64,
    /// Total duration of the model calls, in milliseconds.
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

/// A change of a member's state in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberState {
    /// The new state, in the form of [`Event::MemberChanged`].
    pub state: MemberChange,
    /// A text with more details about the change, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl JournalSummary {
    /// Returns the summary of the given entries, which must be in order.
    #[must_use]
    pub fn of(entries: impl IntoIterator<Item = JournalEntry>) -> Self {
        let mut summary = Self::default();
        for entry in entries {
            summary.add(entry);
        }
        summary
    }

    /// Returns the total duration of all runs of the team in milliseconds, without the times
    /// between the runs. A run without an end entry counts up to its last turn or member change.
    #[must_use]
    pub fn ran_ms(&self) -> u64 {
        self.ran_ms.saturating_add(self.open_run.map_or(0, RunSpan::length_ms))
    }

    /// Adds the next entry of the journal. If you change which data this function adds, increase
    /// `FORM` in `files/checkpoint.rs`. Otherwise pitcrew would continue to use stored summaries
    /// that lack the new data.
    pub(crate) fn add(&mut self, JournalEntry { at_ms, event }: JournalEntry) {
        match event {
            // If the previous run was killed, it has no end entry. In that case the start of this
            // run closes it.
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
                    // After a spawn, the name belongs to a new member. The turns are therefore
                    // counted from 0 again.
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
            // An update that did not change the status of the task does not show whether the task
            // is open.
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

    /// Returns search texts for the journal lines that change a summary. Every such line contains
    /// at least one of the texts. Other lines can contain one of the texts too.
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
fn fast<const N: usize>(texts: [String; N]) -> Vec<String> {
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
    /// The team was deleted. This is the last line of the team's journal.
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
        /// The sender of the message.
        from: String,
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
        /// A text with more details about the change, if there are any.
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
    RunStarted,
    /// The process that ran the team has finished. If a run is killed, it writes no such line.
    RunEnded,
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
            | Self::RunStarted
            | Self::RunEnded
            | Self::EarlierTeams { .. } => None,
        }
    }
}
