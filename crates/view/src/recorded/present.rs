//! The end of each agent and of the team, from the journal and the processes. Every user interface
//! that shows a team without its host takes it from here, so all of them show the same end.

use std::collections::BTreeMap;

use pitcrew_agent::Role;
use pitcrew_protocol::{AgentName, ApiError, Status, TeamConfig};
use pitcrew_team::TeamRecords;
use pitcrew_team::store::{JournalSummary, MemberSummary, RunsSummary};

use super::{NO_END, conversation, lead_of, session, usage_of};
use crate::ViewError;
use crate::agent_now::{AgentNow, role_of};
use crate::client_mail::{client_members, fold_mail, mail_of};
use crate::conversation::Part;
use crate::fold::{ViewEvent, fold};
use crate::host::HostState;
use crate::member_status::{MemberStatus, ProcessState};
use crate::running::Running;
use crate::state::{AgentState, TeamState};
use crate::wording::asks;

/// The reason of an agent whose process ended in a turn, if the end of the run is not recorded.
const LOST: &str = "its process ended in a turn; it can be resumed";

/// The reason of an agent of another client whose process has ended.
const GONE: &str = "its process has ended";

/// The processes of a team.
#[derive(Debug, Default)]
pub(super) struct Present {
    processes: Vec<MemberStatus>,
    /// The process that runs the team. `None` for an archived team.
    running: Option<Running>,
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
    // `unread` names a journal that cannot be read.
    let summary = records.summary().await.unwrap_or_default();
    present.add_clients(&mut team, records, (&config, &summary)).await;
    present.add_journal(&mut team, &summary);
    team.lead = lead_of(&team);
    add_result(&mut team, records).await;
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

/// Adds what the lead said last to the summary of a run that has ended without a reason of its own. No
/// record of the run has it, and a host tells it.
pub(super) async fn add_result(state: &mut TeamState, records: &TeamRecords) {
    let is_missing = state.session.as_ref().is_some_and(|session| session.result.is_empty());
    let Some(lead) = state.lead.clone().filter(|_| is_missing) else { return };
    let Some(conversation) = conversation(records, &lead).await else { return };
    let said = conversation.parts.into_iter().rev().find_map(|part| match part {
        Part::Text { text } => Some(text),
        _ => None,
    });
    if let (Some(session), Some(said)) = (&mut state.session, said) {
        session.result = said;
    }
}

impl Present {
    /// Finds the processes of a team. An archived team has none.
    pub(super) async fn of(records: &TeamRecords, config: &TeamConfig) -> Result<Self, ViewError> {
        let TeamRecords::Live(team) = records else { return Ok(Self::default()) };
        let running = Running::of(team, config).await?;
        let processes = MemberStatus::of(team, config, &running).await?;
        Ok(Self { processes, running: Some(running) })
    }

    /// Whether a process may run the team.
    fn may_run(&self) -> bool {
        self.running.as_ref().is_some_and(Running::may_run)
    }

    /// Adds what the config and the mail say about the agents that another client runs.
    pub(super) async fn add_clients(
        &self,
        state: &mut TeamState,
        records: &TeamRecords,
        (config, summary): (&TeamConfig, &JournalSummary),
    ) {
        let is_recorded = |name: &AgentName| {
            let states = summary.members.get(name).map_or(&[][..], |member| &member.states);
            states.iter().any(|change| change.state.status().is_some())
        };
        let members = client_members(&config.members, is_recorded);
        for mail in mail_of(records, &members).await {
            fold_mail(state, &members, &mail);
        }
        for member in config.members.iter().filter(|member| members.contains(&member.name)) {
            if let Some(agent) = state.agent_mut(&member.name) {
                self.add_client(agent, member.is_active);
            }
        }
        if let Some(lead) = state.agent_mut(&AgentName::lead())
            && !is_recorded(&lead.name)
        {
            self.add_lead(lead);
        }
    }

    /// Adds what the config and the processes say about an agent that another client runs.
    fn add_client(&self, agent: &mut AgentState, is_active: Option<bool>) {
        agent.status = match (is_active, agent.status) {
            // The client keeps a member active that has ended the turn of a message.
            (Some(true), Status::Pending) => Status::Active,
            (Some(false), Status::Pending | Status::Active) if agent.asks.is_empty() => {
                Status::Idle
            }
            (Some(_) | None, status) => status,
        };
        agent.role.get_or_insert(Role::Teammate);
        if self.running.is_none() && !agent.status.is_over() {
            agent.status = Status::Completed;
        }
        let process = self.processes.iter().find(|process| *process.name() == agent.name);
        if process.is_some_and(|process| process.state() == ProcessState::Gone)
            && !agent.status.is_over()
        {
            (agent.status, agent.reason) = (Status::Killed, Some(GONE.to_owned()));
            (agent.doing, agent.asks) = (None, BTreeMap::new());
        }
        let asked = agent.asks.values().next().map(|tool| asks(tool));
        if let (Some(process), Some(asked)) = (&mut agent.process, asked) {
            process.wait_for(asked);
        }
    }

    /// Adds what the processes say about a lead that another client runs. It records no states.
    fn add_lead(&self, lead: &mut AgentState) {
        lead.role.get_or_insert(Role::Lead);
        let place = match &self.running {
            // Its files do not say whether it is in a turn.
            Some(Running::BySession { .. }) => "in a session of its own",
            Some(Running::Elsewhere { .. }) => "in a session elsewhere",
            Some(Running::Unknown) => "in another client",
            Some(Running::Stale { .. }) => {
                (lead.status, lead.reason) = (Status::Completed, Some(GONE.to_owned()));
                return;
            }
            Some(Running::ByPitcrew { .. } | Running::No) => return,
            // The team is in the archive.
            None => return lead.status = Status::Completed,
        };
        lead.doing = Some(place.to_owned());
    }

    /// Adds what the journal says about the agents and the runs.
    pub(super) fn add_journal(&self, state: &mut TeamState, summary: &JournalSummary) {
        for (name, member) in &summary.members {
            if state.agent(name).is_none() {
                let mut agent = AgentState::new(name.clone());
                // Another client ran it, and it has left: it got mail, and has no state.
                if role_of(name) == Role::Teammate {
                    agent.status = Status::Completed;
                }
                state.agents.push(agent);
            }
            if let Some(agent) = state.agent_mut(name) {
                self.add_member(agent, member, &summary.runs);
            }
        }
        if summary.runs.count > 0 {
            // A run that goes on has no end yet.
            let session = session(summary);
            state.session = Some(session).filter(|it| it.outcome != NO_END || !self.may_run());
        }
    }

    fn add_member(&self, agent: &mut AgentState, member: &MemberSummary, runs: &RunsSummary) {
        let now = AgentNow::of(agent.name.clone(), member, runs, &self.processes);
        agent.role = Some(now.role);
        agent.status = now.state.unwrap_or(agent.status);
        agent.reason = now.reason;
        let is_over = !now.runs && !self.may_run();
        if is_over && agent.status == Status::Active {
            (agent.status, agent.reason) = (Status::Killed, Some(LOST.to_owned()));
        }
        // Nothing waits in the archive, also if the team was deleted while something did.
        if self.running.is_none() && !agent.status.is_over() {
            agent.status = Status::Completed;
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
