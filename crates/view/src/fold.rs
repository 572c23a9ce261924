//! The function `fold`: updates the known state of a team by one event. A user interface calls it
//! for each event that it receives.
//!
//! The function is pure: the same events in the same order result in the same state. It makes no
//! difference where the events come from or in which process an agent runs.

use pitcrew_agent::Role;
use pitcrew_model::{Block, Usage};
use pitcrew_protocol::{
    AgentName, CallEffect, Color, Member, PermissionMode, Status, Task, TaskStatus, TeamConfig,
    ToolTraits,
};
use pitcrew_runtime::events::{AgentStarted, Answered, RunEvent, RunStarted, Spending, ToolEnded};
use pitcrew_runtime::run::{AgentSummary, RunOutcome};
use pitcrew_team::store::TaskChangeKind;
use pitcrew_team::{KnownMode, SpawnRecord};
use serde_json::Value;

use crate::member_status::MemberStatus;
use crate::state::{AgentState, CurrentTask, Denial, TeamState};
use crate::wording::{doing, mode_in_words};

/// Any event from which a user interface learns something about a team.
#[derive(Clone, Copy, Debug)]
pub enum ViewEvent<'a> {
    /// An event of a run whose events this process receives.
    Run(&'a RunEvent),
    /// The team's config was read. In the new state, the members of the config come first, in the
    /// config's order. An agent that is not in the config has left the team, but stays in the
    /// state.
    Config(&'a TeamConfig),
    /// pitcrew has searched for the processes of the members. The list has one entry for each
    /// member.
    Located(&'a [MemberStatus]),
    /// The team's tasks were read.
    Tasks(&'a [Task]),
    /// A run ended. The agents in the outcome replace all agents in the state. The turns, tokens
    /// and costs of these agents include all runs of the team.
    Ended(&'a RunOutcome),
}

/// Returns the state of the team after the event.
#[must_use]
pub fn fold(mut state: TeamState, event: &ViewEvent<'_>) -> TeamState {
    match event {
        ViewEvent::Run(event) => fold_run(&mut state, event),
        ViewEvent::Config(config) => fold_config(&mut state, config),
        ViewEvent::Located(found) => {
            for agent in &mut state.agents {
                let status = found.iter().find(|status| *status.name() == agent.name);
                agent.process = status.cloned().or(agent.process.take());
            }
        }
        ViewEvent::Tasks(tasks) => {
            state.tasks = tasks.to_vec();
            state.tasks.sort_by(|a, b| a.id.cmp(&b.id));
            for agent in &mut state.agents {
                agent.task = current_task(&agent.name, tasks);
            }
        }
        ViewEvent::Ended(outcome) => fold_end(&mut state, outcome),
    }
    state
}

/// Updates the state by an event of a run. The stream of another client has so many events that
/// moving the whole state for each would take a good part of the time.
pub(crate) fn fold_run(state: &mut TeamState, event: &RunEvent) {
    match event {
        RunEvent::Started(started) => run_started(state, started),
        RunEvent::AgentStarted(started) => agent_started(state, started),
        RunEvent::AgentChanged { agent, status, detail } => {
            agent_changed(state, agent, *status, detail.as_deref());
        }
        RunEvent::Answered(answered) => answer_ended(state, answered),
        RunEvent::Compacted(it) => spend(state, &it.agent, it.usage, it.cost_usd, 0),
        RunEvent::TurnEnded { agent, spending } => {
            let Spending { usage, cost_usd, tool_calls, .. } = spending;
            spend(state, agent, *usage, *cost_usd, *tool_calls);
        }
        RunEvent::TaskChanged { change, .. } => count_task(state, change),
        RunEvent::PlanHandedIn { .. } => state.counts.plans += 1,
        RunEvent::TextDelta { agent, .. }
        | RunEvent::ModelWaits { agent, .. }
        | RunEvent::ModelSilent { agent, .. }
        | RunEvent::ToolStarted { agent, .. } => set_doing(state, agent, doing(event)),
        RunEvent::ToolEnded(ended) => {
            set_doing(state, &ended.agent, None);
            count_tool(state, ended);
        }
        RunEvent::MailDelivered { ids, .. } => state.counts.messages += ids.len() as u64,
        RunEvent::PermissionAsked { agent, call, tool } => {
            state.counts.permissions_asked += 1;
            state.asked.insert(call.clone(), tool.clone());
            if let Some(agent) = state.agent_mut(agent) {
                agent.asks.insert(call.clone(), tool.clone());
                agent.doing = doing(event);
            }
        }
        RunEvent::PermissionAnswered { agent, call, refused, would_allow } => {
            permission_answered(state, call, refused.as_deref(), would_allow.as_deref());
            if let Some(agent) = state.agent_mut(agent) {
                agent.asks.remove(call);
                agent.doing = None;
            }
        }
        RunEvent::ModeChanged { agent, mode } => {
            if let Some(agent) = state.agent_mut(agent) {
                agent.mode = Some(mode.as_str().to_owned());
            }
        }
        RunEvent::ModelChanged { agent, model } => {
            if let Some(agent) = state.agent_mut(agent) {
                agent.model = Some(model.clone());
            }
        }
        RunEvent::AgentLaunched { .. }
        | RunEvent::AllowedAlways { .. }
        // The state does not change yet: until the member's client applies the recorded mode, the
        // agent works in its previous mode.
        | RunEvent::ModeRecorded { .. }
        | RunEvent::ShuttingDown { .. }
        | RunEvent::Warning { .. } => {}
    }
}

fn run_started(state: &mut TeamState, started: &RunStarted) {
    state.team.clone_from(&started.team);
    state.session_id.clone_from(&started.session_id);
    state.lead = Some(started.agent.clone());
    state.limits = started.limits;
    state.spent_before_usd = started.spent_before_usd;
    restart(
        state,
        AgentState {
            model: Some(started.model.clone()),
            mode: Some(started.mode.as_str().to_owned()),
            ..AgentState::new(started.agent.clone())
        },
    );
}

fn agent_started(state: &mut TeamState, started: &AgentStarted) {
    let role = if started.parent_call.is_some() { Role::Subagent } else { Role::Teammate };
    restart(
        state,
        AgentState {
            role: Some(role),
            color: started.color.as_deref().and_then(color_of),
            agent_type: started.agent_type.clone(),
            model: Some(started.model.clone()),
            mode: Some(started.mode.as_str().to_owned()),
            ..AgentState::new(started.agent.clone())
        },
    );
}

/// Adds an agent that has just started. If the state has an agent with the same name, the new agent
/// replaces it. The new agent then keeps the data that came from the team's files.
fn restart(state: &mut TeamState, mut agent: AgentState) {
    agent.max_turns = state.limits.max_turns;
    if let Some(at) = state.agents.iter().position(|earlier| earlier.name == agent.name) {
        let earlier = state.agents.remove(at);
        agent.task = earlier.task;
        agent.backend_type = earlier.backend_type;
        agent.worktree = earlier.worktree;
        agent.max_turns = earlier.max_turns.into_iter().chain(agent.max_turns).min();
        agent.process = earlier.process;
    }
    state.agents.push(agent);
}

pub(crate) fn agent_changed(
    state: &mut TeamState,
    name: &AgentName,
    status: Status,
    detail: Option<&str>,
) {
    let Some(agent) = state.agent_mut(name) else { return };
    agent.status = status;
    // If an agent in another process is active, the detail says what the agent waits for.
    agent.doing = detail.filter(|_| status == Status::Active).map(str::to_owned);
    if status.is_over() {
        agent.asks.clear();
        agent.reason = detail.map(str::to_owned);
    }
}

fn answer_ended(state: &mut TeamState, answered: &Answered) {
    let calls = answered.blocks.iter().filter(|block| matches!(block, Block::ToolUse { .. }));
    let calls = u32::try_from(calls.count()).unwrap_or(u32::MAX);
    set_doing(state, &answered.agent, None);
    spend(state, &answered.agent, answered.usage, answered.cost_usd, calls);
}

/// Adds a model call to the agent's numbers: one turn, the number of tool calls, the tokens and the
/// cost.
pub(crate) fn spend(
    state: &mut TeamState,
    name: &AgentName,
    usage: Usage,
    cost_usd: Option<f64>,
    tool_calls: u32,
) {
    let Some(agent) = state.agent_mut(name) else { return };
    agent.turns = agent.turns.saturating_add(1);
    agent.tool_calls = agent.tool_calls.saturating_add(tool_calls);
    agent.usage += usage;
    agent.cost_usd += cost_usd.unwrap_or(0.0);
    agent.has_price &= cost_usd.is_some();
}

fn count_task(state: &mut TeamState, change: &TaskChangeKind) {
    match change {
        TaskChangeKind::Created => state.counts.tasks_made += 1,
        TaskChangeKind::Completed => state.counts.tasks_completed += 1,
        TaskChangeKind::Updated
        | TaskChangeKind::Claimed
        | TaskChangeKind::Released
        | TaskChangeKind::Deleted
        | TaskChangeKind::Other(_) => {}
    }
}

fn count_tool(state: &mut TeamState, ended: &ToolEnded) {
    if !ended.is_error {
        let status = ended.data.pointer("/statusChange/to").and_then(Value::as_str);
        count_effect(state, ToolTraits::of(&ended.tool).effect, status);
    }
}

/// Counts the effect of a call that did not fail. `status` is the new status of the task that the
/// call changed.
pub(crate) fn count_effect(state: &mut TeamState, effect: CallEffect, status: Option<&str>) {
    match effect {
        CallEffect::CreatesTask => state.counts.tasks_made += 1,
        CallEffect::ChangesTask if status == Some(TaskStatus::Completed.as_str()) => {
            state.counts.tasks_completed += 1;
        }
        CallEffect::SubmitsPlan => state.counts.plans += 1,
        CallEffect::None
        | CallEffect::WritesFile
        | CallEffect::EditsFile
        | CallEffect::SendsMessage
        | CallEffect::StartsAgent
        | CallEffect::ChangesTask
        | CallEffect::ChecksTasks
        | CallEffect::EndsTeam => {}
    }
}

fn permission_answered(
    state: &mut TeamState,
    call: &str,
    refused: Option<&str>,
    would_allow: Option<&str>,
) {
    state.would_allow.extend(would_allow.map(str::to_owned));
    // If the agent is in another process, the refusal of its permission request can be reported
    // more than once. Count each refusal only once.
    if let (Some(reason), Some(tool)) = (refused, state.asked.remove(call)) {
        state.counts.permissions_refused += 1;
        state.denials.push(Denial {
            tool,
            call: call.to_owned(),
            reason: reason.to_owned(),
            allow_rule: would_allow.map(str::to_owned),
        });
    }
}

pub(crate) fn set_doing(state: &mut TeamState, name: &AgentName, doing: Option<String>) {
    if let Some(agent) = state.agent_mut(name) {
        agent.doing = doing;
    }
}

fn fold_config(state: &mut TeamState, config: &TeamConfig) {
    state.team = config.name.to_string();
    let mut known = std::mem::take(&mut state.agents);
    for member in &config.members {
        let at = known.iter().position(|agent| agent.name == member.name);
        let agent = at.map_or_else(|| AgentState::new(member.name.clone()), |at| known.remove(at));
        // The config has no mode for a member whose mode was never changed.
        let spawned = || mode_in_words(&SpawnRecord::of(member)?.mode?);
        let mode = mode_of(member).or_else(|| agent.mode.clone()).or_else(spawned);
        state.agents.push(AgentState {
            color: member.color.as_deref().and_then(color_of),
            agent_type: member.agent_type.clone(),
            model: member.model.clone(),
            mode,
            backend_type: member.backend_type.clone(),
            worktree: member.worktree_path.clone(),
            max_turns: state.limits.turns_of(member),
            ..agent
        });
    }
    state.agents.append(&mut known);
}

/// Returns the permission mode of a member. This is the mode in the config, if the config has a
/// mode. Otherwise it is `plan`, if the member's plan must be approved first. Otherwise, for a
/// member that pitcrew started in another client, it is the mode in which that client was started.
fn mode_of(member: &Member) -> Option<String> {
    let planning =
        || member.plan_mode_required.filter(|it| *it).map(|_| PermissionMode::Plan.to_string());
    let is_client = || SpawnRecord::of(member).is_some() && !SpawnRecord::is_run_by_us(member);
    let of_client = || is_client().then(|| KnownMode::of_another_client(member).mode().to_owned());
    let mode = member.mode.clone().or_else(planning).or_else(of_client)?;
    mode_in_words(&mode)
}

/// Returns the first task in progress that the agent owns.
pub(crate) fn current_task(name: &AgentName, tasks: &[Task]) -> Option<CurrentTask> {
    let is_current = |task: &&Task| {
        task.owner.as_deref() == Some(name.as_str()) && task.status == TaskStatus::InProgress
    };
    let task = tasks.iter().find(is_current)?;
    Some(CurrentTask { id: task.id.clone(), subject: task.subject.clone() })
}

fn fold_end(state: &mut TeamState, outcome: &RunOutcome) {
    state.team.clone_from(&outcome.team);
    let before = std::mem::take(&mut state.agents);
    let ended = |summary: &AgentSummary| {
        let known = before.iter().find(|agent| agent.name == summary.name).cloned();
        AgentState {
            role: Some(summary.role),
            agent_type: summary.agent_type.clone(),
            model: Some(summary.model.clone()),
            status: summary.state,
            reason: summary.reason.clone(),
            turns: summary.turns,
            tool_calls: summary.tool_calls,
            usage: summary.usage,
            cost_usd: summary.cost_usd,
            has_price: outcome.totals.unpriced().all(|model| model != summary.model),
            is_counted: summary.is_counted,
            ..known.unwrap_or_else(|| AgentState::new(summary.name.clone()))
        }
    };
    state.agents = outcome.agents.iter().map(ended).collect();
    // The numbers of the outcome include those of the earlier runs.
    state.spent_before_usd = 0.0;
}

pub(crate) fn color_of(name: &str) -> Option<Color> {
    Color::ALL.into_iter().find(|color| color.as_str() == name)
}
