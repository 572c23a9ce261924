//! The order of the agents: first those that need input, then those at work, the idle and the ended
//! ones.

use pitcrew_protocol::{AgentName, Status};
use pitcrew_view::host::OpenQuestion;
use pitcrew_view::{AgentState, TeamState};

/// The groups of the list, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// The agent waits for a person or for its lead, or it failed.
    NeedsInput,
    /// The agent works.
    Working,
    /// The agent is between two turns.
    Idle,
    /// The agent has ended.
    Ended,
}

impl Group {
    pub(super) const ALL: [Self; 4] = [Self::NeedsInput, Self::Working, Self::Idle, Self::Ended];

    pub(super) fn heading(self) -> &'static str {
        match self {
            Self::NeedsInput => "needs input",
            Self::Working => "working",
            Self::Idle => "idle",
            Self::Ended => "ended",
        }
    }

    /// Returns a mark that is readable without colour.
    pub(super) fn mark(self) -> &'static str {
        match self {
            Self::NeedsInput => "! ",
            Self::Working => "* ",
            Self::Idle => "- ",
            Self::Ended => "  ",
        }
    }
}

/// An agent with its place in the list.
#[derive(Clone, Debug)]
pub(super) struct Placed<'a> {
    pub(super) agent: &'a AgentState,
    pub(super) group: Group,
    /// What the agent does, or the reason why it needs input.
    pub(super) now: String,
}

/// Returns the agents in the order of the list. Within a group they keep the order of the state.
pub(super) fn in_order<'a>(state: &'a TeamState, questions: &[OpenQuestion]) -> Vec<Placed<'a>> {
    let placed = state.agents.iter().map(|agent| match needs_input(agent, questions) {
        Some(now) => Placed { agent, group: Group::NeedsInput, now },
        None => Placed { agent, group: group(agent.status), now: agent.now() },
    });
    let mut placed: Vec<Placed<'_>> = placed.collect();
    placed.sort_by_key(|placed| placed.group);
    placed
}

fn group(status: Status) -> Group {
    match status {
        Status::Failed | Status::AwaitingPlanApproval => Group::NeedsInput,
        Status::Active | Status::ShutdownRequested => Group::Working,
        Status::Pending | Status::Idle | Status::Parked => Group::Idle,
        Status::Completed | Status::Killed => Group::Ended,
    }
}

/// Returns why the agent needs input. Returns `None` if it needs none.
fn needs_input(agent: &AgentState, questions: &[OpenQuestion]) -> Option<String> {
    if let Some(asked) = asked_by(&agent.name, questions) {
        return Some(asked);
    }
    match agent.status {
        Status::Failed => Some(match &agent.reason {
            Some(reason) => format!("failed: {reason}"),
            None => "failed".to_owned(),
        }),
        Status::AwaitingPlanApproval => Some("its plan waits for the lead's answer".to_owned()),
        Status::Completed | Status::Killed => None,
        Status::Pending
        | Status::Active
        | Status::Idle
        | Status::Parked
        | Status::ShutdownRequested => agent.process.as_ref()?.waits_for().map(str::to_owned),
    }
}

/// Returns what an agent asks the user. Returns `None` if it asks nothing.
fn asked_by(name: &AgentName, questions: &[OpenQuestion]) -> Option<String> {
    let mut asked = questions.iter().filter(|open| open.question.asker == *name);
    let first = asked.next()?;
    let more = asked.count();
    let asks = match first.question.is_plan() {
        true => "asks to approve its plan".to_owned(),
        false => format!("asks permission for {}", first.question.tool),
    };
    Some(if more == 0 { asks } else { format!("{asks} (and {more} more)") })
}
