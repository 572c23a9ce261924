//! The state of a team, from its host or from its files.

use std::time::Duration;

use pitcrew_protocol::AgentName;
use pitcrew_runtime::control_socket::KnockError;
use pitcrew_team::TeamRecords;
use pitcrew_team::store::Spent;
use pitcrew_view::agent_now::AgentNow;
use pitcrew_view::client::{FromHost, follow};
use pitcrew_view::host::HostState;
use pitcrew_view::lead::LeadError;
use pitcrew_view::member_status::MemberStatus;
use pitcrew_view::running::Running;
use pitcrew_view::{AgentState, TeamState, ViewEvent, fold};
use serde::Serialize;

use crate::app::App;
use crate::failure::Failure;

/// How long a host may take for its first snapshot.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Where a team is and whether it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TeamStatus {
    /// A process runs the team.
    Running,
    /// The team is in its place, and as far as known no process runs it.
    Stopped,
    /// The team is in the archive.
    Archived,
}

impl TeamStatus {
    fn of(running: &Running) -> Self {
        match running {
            Running::ByPitcrew { .. } | Running::BySession { .. } => Self::Running,
            Running::Stale { .. } | Running::Elsewhere { .. } | Running::No | Running::Unknown => {
                Self::Stopped
            }
        }
    }
}

/// Finds the process that runs a team. An archived team has none.
pub(crate) async fn running(records: &TeamRecords) -> Result<Option<Running>, Failure> {
    match records {
        TeamRecords::Live(team) => {
            Ok(Some(Running::of(team, team.config().await?.as_ref()).await?))
        }
        TeamRecords::Archived(..) => Ok(None),
    }
}

/// Returns where a team is and whether it runs.
pub(crate) fn status(running: Option<&Running>) -> TeamStatus {
    running.map_or(TeamStatus::Archived, TeamStatus::of)
}

/// The answer of a team's host.
#[derive(Debug)]
pub(crate) enum OfHost {
    /// The state.
    State(Box<HostState>),
    /// No pitcrew process runs the team, or it has just ended.
    NoHost,
    /// A pitcrew process runs the team and does not answer. It may be suspended.
    Silent,
}

/// Returns the state of a team: from its host if a pitcrew process runs it, else from its files.
///
/// # Errors
/// `not_running` if a pitcrew process runs the team and does not answer. The files do not know its
/// open questions, so they are not read in its place.
pub(crate) async fn state(app: &App, records: &TeamRecords) -> Result<HostState, Failure> {
    match of_host(records, PATIENCE).await? {
        OfHost::State(state) => Ok(*state),
        OfHost::NoHost => of_files(app, records).await,
        OfHost::Silent => Err(Failure::silent(records.config().await?.name.as_str())),
    }
}

/// Asks the host of a team for its state.
pub(crate) async fn of_host(records: &TeamRecords, patience: Duration) -> Result<OfHost, Failure> {
    let TeamRecords::Live(team) = records else { return Ok(OfHost::NoHost) };
    if !matches!(running(records).await?, Some(Running::ByPitcrew { .. })) {
        return Ok(OfHost::NoHost);
    }
    let asked = async {
        let Some(mut following) = follow(team, None).await? else { return Ok(OfHost::NoHost) };
        Ok(match following.next().await {
            FromHost::Snapshot(state) => OfHost::State(state),
            FromHost::Event(_) | FromHost::Gone(_) => OfHost::NoHost,
        })
    };
    match tokio::time::timeout(patience, asked).await {
        Err(_late) => Ok(OfHost::Silent),
        Ok(Err(LeadError::Unreachable { error: KnockError::Silent { .. }, .. })) => {
            Ok(OfHost::Silent)
        }
        Ok(answer) => Ok(answer?),
    }
}

/// Computes the state of a team from its files.
pub(crate) async fn of_files(app: &App, records: &TeamRecords) -> Result<HostState, Failure> {
    let config = records.config().await?;
    let tasks = records.tasks().await?;
    let processes = match records {
        TeamRecords::Live(team) => {
            MemberStatus::of(team, &config, &Running::of(team, &config).await?).await?
        }
        TeamRecords::Archived(..) => Vec::new(),
    };
    let mut state = fold(TeamState::default(), &ViewEvent::Config(&config));
    state = fold(state, &ViewEvent::Tasks(&tasks));
    state = fold(state, &ViewEvent::Located(&processes));
    state.team = config.name.to_string();
    let summary = records.summary().await?;
    for now in AgentNow::of_team(records, &processes, &app.root).await? {
        let spent = summary.members.get(&now.name).map(|member| &member.spent);
        let agent = agent_in(&mut state, &now.name);
        recorded(agent, now);
        spent.into_iter().flat_map(|by_model| by_model.values()).for_each(|it| used(agent, it));
    }
    Ok(HostState { next_seq: 0, team: state, tasks, questions: Vec::new() })
}

/// Returns the agent of this name. Adds one that is no member any more.
fn agent_in<'a>(state: &'a mut TeamState, name: &AgentName) -> &'a mut AgentState {
    let at = state.agents.iter().position(|agent| agent.name == *name);
    let at = at.unwrap_or(state.agents.len());
    if at == state.agents.len() {
        state.agents.push(AgentState::new(name.clone()));
    }
    #[expect(clippy::indexing_slicing, reason = "the entry was found or added just now")]
    &mut state.agents[at]
}

fn recorded(agent: &mut AgentState, now: AgentNow) {
    agent.role.get_or_insert(now.role);
    agent.status = now.state.unwrap_or(agent.status);
    agent.reason = now.reason.or(agent.reason.take());
    agent.turns = now.spending.turns;
    agent.tool_calls = now.spending.tool_calls;
    agent.cost_usd = now.spending.cost_usd.unwrap_or_default();
    agent.has_price = now.spending.cost_usd.is_some() || now.spending.turns == 0;
}

fn used(agent: &mut AgentState, spent: &Spent) {
    let cached = spent.cache_read_tokens.saturating_add(spent.cache_creation_tokens);
    let usage = &mut agent.usage;
    usage.input_tokens += spent.input_tokens.saturating_sub(cached);
    usage.output_tokens += spent.output_tokens;
    usage.cache_read_input_tokens += spent.cache_read_tokens;
    usage.cache_creation_input_tokens += spent.cache_creation_tokens;
    agent.has_price &= spent.unpriced_turns == 0;
}
