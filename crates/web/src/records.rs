//! The state of a team, from its host or from its files.

use std::time::Duration;

use pitcrew_protocol::AgentName;
use pitcrew_team::store::Spent;
use pitcrew_team::{Team, TeamRecords};
use pitcrew_view::agent_now::AgentNow;
use pitcrew_view::client::{FromHost, follow};
use pitcrew_view::host::HostState;
use pitcrew_view::member_status::MemberStatus;
use pitcrew_view::running::Running;
use pitcrew_view::{AgentState, TeamState, ViewEvent, fold};
use serde::Serialize;

use crate::app::App;
use crate::failure::Failure;

/// How long a host may take for its first snapshot.
const PATIENCE: Duration = Duration::from_secs(5);

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

/// Returns the state of a team: from its host if a pitcrew process runs it, else from its files.
pub(crate) async fn state(app: &App, records: &TeamRecords) -> Result<HostState, Failure> {
    let is_hosted = matches!(running(records).await?, Some(Running::ByPitcrew { .. }));
    if let TeamRecords::Live(team) = records
        && is_hosted
        && let Some(state) = of_host(team).await?
    {
        return Ok(state);
    }
    of_files(app, records).await
}

/// Asks the host of a team for its state. Returns `None` if the host is gone or does not answer.
async fn of_host(team: &Team) -> Result<Option<HostState>, Failure> {
    let asked = async {
        let Some(mut following) = follow(team, None).await? else { return Ok(None) };
        Ok(match following.next().await {
            FromHost::Snapshot(state) => Some(*state),
            FromHost::Event(_) | FromHost::Gone(_) => None,
        })
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap_or(Ok(None))
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
