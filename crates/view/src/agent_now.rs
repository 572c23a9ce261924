//! The present state of each agent of a team, with the tokens and the cost that it used, from the
//! team's files alone. It is the same for a running, a stopped and an archived team.

use std::path::Path;

use pitcrew_agent::Role;
use pitcrew_model::in_dollars;
use pitcrew_protocol::{AgentName, ApiError, LEAD_NAME, Status};
use pitcrew_runtime::client_conversation;
use pitcrew_runtime::run::RESUMABLE;
use pitcrew_team::TeamRecords;
use pitcrew_team::store::{
    JournalSummary, LogName, MemberSummary, RunsSummary, Spent, TEAM_DELETED,
};
use serde::Serialize;

use crate::conversation::Conversation;
use crate::member_status::MemberStatus;
use crate::text::in_one_line;
use crate::wording::{asks, brief, short, state_in_words};

/// The number of bytes at the end of a conversation that are read for the current tool call. The
/// arguments of most calls are shorter.
const LATEST_BYTES: u64 = 512 * 1024;

/// A character that every subagent's name contains, and that no member's name contains.
const SUBAGENT_MARK: char = '#';

/// The present state of an agent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgentNow {
    /// The agent's name.
    pub name: AgentName,
    /// The agent's role.
    #[serde(skip)]
    pub role: Role,
    /// The agent's last recorded state. `None` if no state is recorded.
    pub state: Option<Status>,
    /// Whether a process runs the agent now, so that the state is up to date.
    pub runs: bool,
    /// The tool call that the agent makes now, in one line.
    pub tool: Option<String>,
    /// The reason for the agent's state, or what it waits for.
    pub reason: Option<String>,
    /// What the agent used.
    #[serde(flatten)]
    pub spending: Spending,
}

/// Model calls with their tokens and cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spending {
    /// The number of model calls.
    pub turns: u32,
    /// The number of tool calls.
    pub tool_calls: u32,
    /// The number of tokens.
    pub tokens: u64,
    /// The cost in US dollars of the calls with a known price. `None` if no price is known.
    pub cost_usd: Option<f64>,
}

impl Spending {
    /// Returns what a whole team used in all its runs.
    #[must_use]
    pub fn of_team(summary: &JournalSummary) -> Self {
        Self::of(summary.members.values().flat_map(|member| member.spent.values()))
    }

    /// Returns the sum of what several agents used.
    #[must_use]
    pub fn sum<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        for one in all {
            sum.turns = sum.turns.saturating_add(one.turns);
            sum.tool_calls = sum.tool_calls.saturating_add(one.tool_calls);
            sum.tokens = sum.tokens.saturating_add(one.tokens);
            if let Some(usd) = one.cost_usd {
                *sum.cost_usd.get_or_insert(0.0) += usd;
            }
        }
        sum
    }

    fn of<'a>(spent: impl Iterator<Item = &'a Spent>) -> Self {
        let mut all = Self::default();
        for spent in spent {
            all.turns = all.turns.saturating_add(spent.turns);
            all.tool_calls = all.tool_calls.saturating_add(spent.tool_calls);
            all.tokens =
                all.tokens.saturating_add(spent.input_tokens).saturating_add(spent.output_tokens);
            if spent.turns > spent.unpriced_turns {
                *all.cost_usd.get_or_insert(0.0) += spent.cost_usd();
            }
        }
        all
    }

    /// Returns the number of tokens as text. It is `-` if no model call is known.
    #[must_use]
    pub fn tokens_in_words(&self) -> String {
        if self.turns == 0 { "-".to_owned() } else { short(self.tokens) }
    }

    /// Returns the cost as text. It is `-` if no price is known.
    #[must_use]
    pub fn cost_in_words(&self) -> String {
        self.cost_usd.map_or_else(|| "-".to_owned(), in_dollars)
    }
}

impl AgentNow {
    /// Returns the agents of a team, the lead first, then the members in the order of their names,
    /// and after each agent its subagents. Agents without any record are left out. `processes` is
    /// empty for an archived team. `root` is the folder below which clients record conversations.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn of_team(
        records: &TeamRecords,
        processes: &[MemberStatus],
        root: &Path,
    ) -> Result<Vec<Self>, ApiError> {
        let mut agents = Vec::new();
        let JournalSummary { members, runs, .. } = records.summary().await?;
        for (name, member) in members {
            let mut agent = Self::of(name, &member, &runs, processes);
            if agent.runs && agent.state == Some(Status::Active) && agent.reason.is_none() {
                agent.tool = current_call(records, &agent.name, root).await?;
            }
            agents.push(agent);
        }
        // The name of a subagent begins with the name of its caller, so the order by name keeps them
        // together.
        agents.sort_by_key(|agent| agent.role != Role::Lead && !is_of_lead(&agent.name));
        Ok(agents)
    }

    /// Returns the state that the journal, the runs of the team and the agent's process tell.
    #[must_use]
    pub fn of(
        name: AgentName,
        member: &MemberSummary,
        runs: &RunsSummary,
        processes: &[MemberStatus],
    ) -> Self {
        let is_resumable = ends_resumable(runs);
        let process = processes.iter().find(|process| process.name().as_str() == host_of(&name));
        let last = member
            .states
            .iter()
            .rev()
            .find_map(|change| Some((change.state.status()?, change.detail.clone())));
        let (state, detail) = last.unzip();
        let role = role_of(&name);
        let has_process = process.is_some_and(MemberStatus::runs);
        let (runs, waits_for) = match role {
            Role::Lead | Role::Teammate => {
                (has_process, process.and_then(MemberStatus::waits_for).map(str::to_owned))
            }
            // The end of a subagent is not recorded. A subagent that waits for an answer runs.
            Role::Subagent => {
                let open = member.asks.last().filter(|_| has_process);
                (open.is_some(), open.map(|open| asks(&open.tool)))
            }
        };
        let mut reason = waits_for.or(detail.flatten());
        let mut state = state;
        // The journal has no state of an agent that was cancelled at the end of its run.
        if !has_process && is_resumable && state.is_some_and(can_be_cancelled) {
            (state, reason) = (Some(Status::Killed), Some(RESUMABLE.to_owned()));
        }
        let spending = Spending::of(member.spent.values());
        Self { role, name, state, runs, tool: None, reason, spending }
    }

    /// Returns the state, the current tool call and the reason as one line of text.
    #[must_use]
    pub fn line(&self) -> String {
        let state = match self.state {
            None => match &self.reason {
                Some(reason) => return in_one_line(reason),
                None => "-".to_owned(),
            },
            Some(Status::Active) if !self.runs => "stopped in a turn".to_owned(),
            Some(Status::Active) => match (&self.tool, &self.reason) {
                (Some(tool), _) => return in_one_line(tool),
                (None, Some(reason)) => return in_one_line(reason),
                (None, None) => "thinks".to_owned(),
            },
            Some(status) => state_in_words(status),
        };
        match &self.reason {
            Some(reason) => in_one_line(&format!("{state}: {reason}")),
            None => state,
        }
    }

    /// Returns the cells of a table: name, state, model calls, tool calls, tokens and cost.
    #[must_use]
    pub fn cells(&self) -> [String; 6] {
        let Spending { turns, tool_calls, .. } = self.spending;
        [
            self.name.to_string(),
            self.line(),
            turns.to_string(),
            tool_calls.to_string(),
            self.spending.tokens_in_words(),
            self.spending.cost_in_words(),
        ]
    }
}

/// Returns the call that an agent makes now, as recorded at the end of its conversation.
async fn current_call(
    records: &TeamRecords,
    name: &AgentName,
    root: &Path,
) -> Result<Option<String>, ApiError> {
    let TeamRecords::Live(team) = records else { return Ok(None) };
    let log = LogName::Transcript(name.clone());
    // A transcript of a newer version, and one that cannot be read, tells nothing here.
    let lines = team.log_end(&log, LATEST_BYTES).await.unwrap_or_default();
    let conversation = match lines.is_empty() {
        false => Conversation::of_transcript(&lines).unwrap_or_default(),
        true => {
            let recorded = records.client_conversation(name).await?;
            let text = recorded.and_then(|it| client_conversation(root, &it.id, LATEST_BYTES));
            Conversation::of_client(&text.unwrap_or_default())
        }
    };
    Ok(conversation.open_calls().next().map(|call| brief(&call.tool, &call.input)))
}

/// Whether the last run of the team has ended in such a way that another run can go on with it.
fn ends_resumable(runs: &RunsSummary) -> bool {
    let end = runs.ended.as_ref().and_then(|ended| ended.end.as_deref());
    end.is_some_and(|end| !["completed", "shut_down", TEAM_DELETED].contains(&end))
}

/// Whether the end of a run cancels an agent in this state. The journal records each other end.
fn can_be_cancelled(state: Status) -> bool {
    match state {
        Status::Pending
        | Status::Active
        | Status::Idle
        | Status::AwaitingPlanApproval
        | Status::ShutdownRequested => true,
        Status::Parked | Status::Completed | Status::Failed | Status::Killed => false,
    }
}

/// Returns the name of the agent in whose process an agent works: its caller, if it is a subagent.
fn host_of(name: &AgentName) -> &str {
    name.as_str().split_once(SUBAGENT_MARK).map_or(name.as_str(), |(caller, _)| caller)
}

pub(crate) fn role_of(name: &AgentName) -> Role {
    match name.as_str() {
        LEAD_NAME => Role::Lead,
        name if name.contains(SUBAGENT_MARK) => Role::Subagent,
        _ => Role::Teammate,
    }
}

fn is_of_lead(name: &AgentName) -> bool {
    name.as_str().split_once(SUBAGENT_MARK).is_some_and(|(caller, _)| caller == LEAD_NAME)
}
