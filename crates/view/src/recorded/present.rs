//! The end of each agent and of the team, from the journal and the processes. Every user interface
//! that shows a team without its host takes it from here, so all of them show the same end.

use pitcrew_agent::Role;
use pitcrew_protocol::{ApiError, Status, TeamConfig};
use pitcrew_team::TeamRecords;
use pitcrew_team::store::{JournalSummary, MemberSummary, RunsSummary};

use super::{NO_END, lead_of, session, usage_of};
use crate::ViewError;
use crate::agent_now::AgentNow;
use crate::fold::{ViewEvent, fold};
use crate::host::HostState;
use crate::member_status::MemberStatus;
use crate::running::Running;
use crate::state::{AgentState, TeamState};

/// The reason of an agent whose process ended in a turn, if the end of the run is not recorded.
const LOST: &str = "its process ended in a turn; it can be resumed";

/// The processes of a team.
#[derive(Debug, Default)]
pub(super) struct Present {
    processes: Vec<MemberStatus>,
    /// Whether a process may run the team.
    may_run: bool,
}

/// Returns the state of a team from its files, in the form in which a host sends its own. Without a
/// host, it has the end of each agent and the summary of the runs.
///
/// # Errors
/// `team_not_found`, or `internal_error` if a file cannot be read.
pub async fn of_files(records: &TeamRecords) -> Result<HostState, ViewError> {
    let config = records.config().await?;
    let tasks = records.tasks().await?;
    let present = Present::of(records, &config).await?;
    let mut team = all_members(records, &config).await?;
    team = fold(team, &ViewEvent::Tasks(&tasks));
    team = fold(team, &ViewEvent::Located(&present.processes));
    for member in &config.members {
        if let Some(agent) = team.agent_mut(&member.name) {
            agent.status = of_config(member.is_active).unwrap_or(agent.status);
        }
    }
    present.add_journal(&mut team, &records.summary().await?);
    team.lead = lead_of(&team);
    Ok(HostState { next_seq: 0, team, tasks, questions: Vec::new() })
}

/// Returns the state of a team with its members, also those that have left it.
///
/// # Errors
/// `team_not_found`, or `internal_error` if the config cannot be read.
pub(super) async fn all_members(
    records: &TeamRecords,
    config: &TeamConfig,
) -> Result<TeamState, ApiError> {
    let with_former = records.config_with_former().await?;
    let mut state = fold(TeamState::default(), &ViewEvent::Config(&with_former));
    for former in with_former.members.iter().filter(|it| config.member(it.name.as_str()).is_none())
    {
        if let Some(agent) = state.agent_mut(&former.name) {
            agent.status = Status::Completed;
        }
    }
    Ok(state)
}

/// Returns the state of a member that the config tells. Another client records no other state.
fn of_config(is_active: Option<bool>) -> Option<Status> {
    is_active.map(|is_active| if is_active { Status::Active } else { Status::Idle })
}

impl Present {
    /// Finds the processes of a team. An archived team has none.
    pub(super) async fn of(records: &TeamRecords, config: &TeamConfig) -> Result<Self, ViewError> {
        let TeamRecords::Live(team) = records else { return Ok(Self::default()) };
        let running = Running::of(team, config).await?;
        let processes = MemberStatus::of(team, config, &running).await?;
        Ok(Self { processes, may_run: running.may_run() })
    }

    /// Adds what the journal says about the agents and the runs.
    pub(super) fn add_journal(&self, state: &mut TeamState, summary: &JournalSummary) {
        for (name, member) in &summary.members {
            if state.agent(name).is_none() {
                state.agents.push(AgentState::new(name.clone()));
            }
            if let Some(agent) = state.agent_mut(name) {
                self.add_member(agent, member, &summary.runs);
            }
        }
        if summary.runs.count > 0 {
            // A run that goes on has no end yet.
            let session = session(summary);
            state.session = Some(session).filter(|it| it.outcome != NO_END || !self.may_run);
        }
    }

    fn add_member(&self, agent: &mut AgentState, member: &MemberSummary, runs: &RunsSummary) {
        let now = AgentNow::of(agent.name.clone(), member, runs, &self.processes);
        agent.role = Some(now.role);
        agent.status = now.state.unwrap_or(agent.status);
        agent.reason = now.reason;
        let is_over = !now.runs && !self.may_run;
        if is_over && agent.status == Status::Active {
            (agent.status, agent.reason) = (Status::Killed, Some(LOST.to_owned()));
        }
        // A subagent ends with its run, and its end is not recorded.
        if is_over && now.role == Role::Subagent && now.state.is_none() {
            agent.status = Status::Completed;
        }
        agent.turns = now.spending.turns;
        agent.tool_calls = now.spending.tool_calls;
        agent.cost_usd = now.spending.cost_usd.unwrap_or_default();
        agent.has_price = member.spent.values().all(|spent| spent.unpriced_turns == 0);
        agent.usage = member.spent.values().map(usage_of).sum();
        if agent.model.is_none() {
            agent.model = member.spent.keys().next_back().cloned();
        }
    }
}
