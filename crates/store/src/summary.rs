//! The summary of a journal: what a resume and the lists of teams need from it, without reading the
//! whole journal again.

use std::collections::{BTreeMap, BTreeSet};

use pitcrew_protocol::{AgentName, MessageId, Status, TaskAssignment, TaskId};
use serde::{Deserialize, Serialize};

use crate::journal::fast;
use crate::spelled::{MemberChange, PermissionOutcome, TaskChangeKind};
use crate::{Event, JournalEntry, Turn};

/// The maximum number of permissions of one member that a journal summary keeps.
const MOST_ALWAYS: usize = 100;

/// The maximum number of open permission requests of one member that a journal summary keeps.
const MOST_ASKS: usize = 100;

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
    /// The runs of the team.
    #[serde(default)]
    pub runs: RunsSummary,
    /// Total duration of the team's ended runs, in milliseconds. The duration that an
    /// [`Event::EarlierTeams`] entry gives is included.
    #[serde(default)]
    ran_ms: u64,
    /// The run that has no end entry. This run is still going on, or it was killed. `None` if all
    /// runs have ended.
    #[serde(default)]
    open_run: Option<RunSpan>,
}

/// What the journal says about the runs of a team.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunsSummary {
    /// Number of runs that began.
    pub count: u32,
    /// Time at which the first run began, in milliseconds since 1970.
    pub began_ms: Option<i64>,
    /// The beginning of the first run's goal, if it is recorded.
    pub goal: Option<String>,
    /// The commit that was checked out when the first run began, if it is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// The end of the last run. `None` while that run goes on, and if that run was killed.
    pub ended: Option<EndedRun>,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedRun {
    /// Time of the end, in milliseconds since 1970.
    pub at_ms: i64,
    /// How the run ended, as in [`Event::RunEnded`]. [`TEAM_DELETED`] if the team was deleted and
    /// the end of the run is not recorded.
    pub end: Option<String>,
    /// The reason, if `end` does not explain itself.
    pub reason: Option<String>,
}

/// The end of a run whose team was deleted, if no other end is recorded.
pub const TEAM_DELETED: &str = "team_deleted";

/// The end of a run that succeeded.
const COMPLETED: &str = "completed";

impl RunsSummary {
    fn started(&mut self, at_ms: i64, goal: Option<String>, head: Option<String>) {
        self.count = self.count.saturating_add(1);
        self.head = self.head.take().or(head);
        self.began_ms.get_or_insert(at_ms);
        self.goal = self.goal.take().or(goal);
        self.ended = None;
    }

    /// Records the end of the team itself. Only the end of a run that has no recorded end changes.
    fn team_ended(&mut self, at_ms: i64, end: &str) {
        if self.count == 0 {
            return;
        }
        let ended = self.ended.get_or_insert(EndedRun { at_ms, end: None, reason: None });
        ended.end.get_or_insert_with(|| end.to_owned());
    }
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
    /// The permission requests of the member that are open in the latest run, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<OpenRequest>,
}

impl MemberSummary {
    fn changed(&mut self, state: MemberChange, detail: Option<String>) {
        if state == MemberChange::Spawned {
            // After a spawn, the name belongs to a new member. The turns are therefore counted from
            // 0 again.
            self.turns = 0;
            self.always.clear();
        }
        if state.status().is_some_and(|status| status == Status::Idle || status.is_over()) {
            // An agent at rest waits for no permission.
            self.asks.clear();
        }
        self.states.retain(|earlier| earlier.state != state);
        self.states.push(MemberState { state, detail });
    }

    fn permission(&mut self, request: OpenRequest, outcome: &PermissionOutcome) {
        self.asks.retain(|open| open.request != request.request);
        if *outcome == PermissionOutcome::Asked && self.asks.len() < MOST_ASKS {
            self.asks.push(request);
        }
    }
}

/// A permission request without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRequest {
    /// The id of the request.
    pub request: String,
    /// The name of the tool for which permission was requested.
    pub tool: String,
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

    /// Adds what the turns of another agent or run used.
    pub fn add_all(&mut self, other: &Self) {
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

    /// Returns the time of the last run's end. If that run goes on or was killed, returns the time
    /// of its latest relevant event. The unit is milliseconds since 1970.
    #[must_use]
    pub fn latest_ms(&self) -> Option<i64> {
        let ended = self.runs.ended.as_ref().map(|ended| ended.at_ms);
        ended.or_else(|| self.open_run.map(|run| run.latest_ms))
    }

    /// Adds the next entry of the journal. If you change which data this function adds, increase
    /// `FORM` in `files/checkpoint.rs`. Otherwise pitcrew would continue to use stored summaries
    /// that lack the new data.
    pub(crate) fn add(&mut self, JournalEntry { at_ms, event }: JournalEntry) {
        match event {
            // If the previous run was killed, it has no end entry. In that case the start of this
            // run closes it.
            Event::RunStarted { goal, head } => {
                self.close_run();
                // The process that waited for the answers is gone. An agent that continues asks
                // again.
                self.members.values_mut().for_each(|member| member.asks.clear());
                self.runs.started(at_ms, goal, head);
                self.open_run = Some(RunSpan { began_ms: at_ms, latest_ms: at_ms });
            }
            Event::RunEnded { end, reason } => {
                self.run_goes_on(at_ms);
                self.close_run();
                self.runs.ended = Some(EndedRun { at_ms, end, reason });
            }
            Event::MemberChanged { member, state, detail } => {
                self.run_goes_on(at_ms);
                self.members.entry(member).or_default().changed(state, detail);
            }
            Event::TurnEnded(turn) => {
                self.run_goes_on(at_ms);
                let member = self.members.entry(turn.member.clone()).or_default();
                member.turns = member.turns.saturating_add(1);
                member.spent.entry(turn.model.clone()).or_default().add(&turn);
            }
            Event::Permission { request, member, tool, outcome, telling: _ } => {
                let asked = OpenRequest { request, tool };
                self.members.entry(member).or_default().permission(asked, &outcome);
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
            Event::TeamDeleted { .. } => self.runs.team_ended(at_ms, TEAM_DELETED),
            // Only the team of a run that succeeded is archived.
            Event::TeamArchived { .. } => self.runs.team_ended(at_ms, COMPLETED),
            Event::TeamCreated { .. }
            | Event::MessagePersisted { .. }
            | Event::MessageInjected { .. }
            | Event::MessageAcknowledged { .. }
            | Event::MessageDead { .. }
            | Event::FrameRefused { .. }
            | Event::Overwritten(_)
            | Event::Started { .. }
            | Event::Stopped { .. }
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
            of_event("permission"),
            of_event("task_changed"),
            of_event("team_deleted"),
            of_event("team_archived"),
            assignment,
        ])
    }
}
