//! The facts about a team that only the stream of a client tells, and their effect on the state of
//! the team. Everything else in a stream becomes an event of a run.

use pitcrew_model::Usage;
use pitcrew_protocol::{AgentName, Task, TaskId};

use crate::fold::current_task;
use crate::state::{AgentState, Cleanup, SessionSummary, TeamState, TimelineEntry};

/// A fact about a team from the stream of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamFact {
    /// An agent leads the session. It is the lead of the team when there is a team.
    Lead(AgentName),
    /// The session has this team.
    Team(String),
    /// An agent used more tokens and called more tools in its latest turn.
    TurnWentOn {
        /// The agent.
        agent: AgentName,
        /// The tokens that were not counted before.
        usage: Usage,
        /// The number of tool calls that were not counted before.
        tool_calls: u32,
    },
    /// A task was created or changed.
    Task(Box<Task>),
    /// A task was deleted.
    TaskDeleted(TaskId),
    /// The lead tried to clean up the team.
    Cleanup(Cleanup),
    /// A run of the session ended.
    Session(Box<SessionSummary>),
    /// Something for the timeline happened.
    Happened(TimelineEntry),
}

/// Changes the state of a team by a fact.
pub(crate) fn fold_fact(state: &mut TeamState, fact: &StreamFact) {
    match fact {
        StreamFact::Lead(name) => {
            state.lead = Some(name.clone());
            if state.agent(name).is_none() {
                state.agents.push(AgentState::new(name.clone()));
            }
        }
        StreamFact::Team(name) => {
            state.team.clone_from(name);
            state.cleanup = None;
        }
        StreamFact::TurnWentOn { agent, usage, tool_calls } => {
            if let Some(agent) = state.agent_mut(agent) {
                agent.usage += *usage;
                agent.tool_calls = agent.tool_calls.saturating_add(*tool_calls);
            }
        }
        StreamFact::Task(task) => put_task(state, task),
        StreamFact::TaskDeleted(id) => remove_task(state, id),
        StreamFact::Cleanup(cleanup) => state.cleanup = Some(cleanup.clone()),
        StreamFact::Session(summary) => state.session = Some(SessionSummary::clone(summary)),
        StreamFact::Happened(entry) => state.timeline.push(entry.clone()),
    }
}

/// Puts a task into the list, which is sorted by id.
fn put_task(state: &mut TeamState, task: &Task) {
    let before = match state.tasks.binary_search_by(|known| known.id.cmp(&task.id)) {
        Ok(at) => state.tasks.get_mut(at).and_then(|known| {
            let owner = known.owner.take();
            known.clone_from(task);
            owner
        }),
        Err(at) => {
            state.tasks.insert(at, task.clone());
            None
        }
    };
    for owner in [before.as_deref(), task.owner.as_deref()].into_iter().flatten() {
        look_for_current_task(state, owner);
    }
}

fn remove_task(state: &mut TeamState, id: &TaskId) {
    let Ok(at) = state.tasks.binary_search_by(|known| known.id.cmp(id)) else { return };
    let removed = state.tasks.remove(at);
    for task in &mut state.tasks {
        task.blocks.retain(|other| other != id);
        task.blocked_by.retain(|other| other != id);
    }
    if let Some(owner) = removed.owner {
        look_for_current_task(state, &owner);
    }
}

fn look_for_current_task(state: &mut TeamState, owner: &str) {
    if let Some(agent) = state.agents.iter_mut().find(|agent| agent.name.as_str() == owner) {
        agent.task = current_task(&agent.name, &state.tasks);
    }
}
