//! The facts about a team that the stream of a client tells, and their effect on the state of the
//! team. What is the same in a run of pitcrew changes the state by the functions of `fold`.

use pitcrew_model::Usage;
use pitcrew_protocol::{AgentName, CallEffect, Status, Task, TaskId};

use crate::fold::{agent_changed, count_effect, current_task, set_doing, spend};
use crate::state::{AgentState, Cleanup, SessionSummary, TeamState, TimelineEntry};

/// A fact about a team from the stream of a client.
#[derive(Debug)]
pub(super) enum StreamFact<'a> {
    /// An agent leads the session. It is the lead of the team when there is a team.
    Lead(AgentName),
    /// The session has this team.
    Team(&'a str),
    /// An agent has this status now.
    Status(&'a AgentName, Status),
    /// A model answered an agent: the tokens and the number of tool calls.
    TurnBegan(&'a AgentName, Usage, u32),
    /// An agent used more tokens and called more tools in its latest turn. The numbers were not
    /// counted before.
    TurnWentOn(&'a AgentName, Usage, u32),
    /// An agent called a tool. The text describes the call.
    CallStarted(&'a AgentName, String),
    /// A tool call of an agent failed.
    CallFailed(&'a AgentName),
    /// A tool call of an agent had its effect. The text is the new status of a task that the call
    /// changed.
    CallEnded(&'a AgentName, CallEffect, Option<&'a str>),
    /// A task was created or changed.
    Task(Task),
    /// A task was deleted.
    TaskDeleted(&'a TaskId),
    /// The lead tried to clean up the team.
    Cleanup(Cleanup),
    /// A run of the session ended.
    Session(SessionSummary),
    /// Something for the timeline happened.
    Happened(TimelineEntry),
}

/// Changes the state of a team by a fact.
pub(super) fn tell(state: &mut TeamState, fact: StreamFact<'_>) {
    match fact {
        StreamFact::Lead(name) => {
            if state.agent(&name).is_none() {
                state.agents.push(AgentState::new(name.clone()));
            }
            state.lead = Some(name);
        }
        StreamFact::Team(name) => {
            name.clone_into(&mut state.team);
            state.cleanup = None;
        }
        StreamFact::Status(agent, status) => agent_changed(state, agent, status, None),
        StreamFact::TurnBegan(agent, usage, tool_calls) => {
            spend(state, agent, usage, None, tool_calls);
        }
        StreamFact::TurnWentOn(agent, usage, tool_calls) => {
            if let Some(agent) = state.agent_mut(agent) {
                agent.usage += usage;
                agent.tool_calls = agent.tool_calls.saturating_add(tool_calls);
            }
        }
        StreamFact::CallStarted(agent, doing) => set_doing(state, agent, Some(doing)),
        StreamFact::CallFailed(agent) => set_doing(state, agent, None),
        StreamFact::CallEnded(agent, effect, status) => {
            set_doing(state, agent, None);
            count_effect(state, effect, status);
        }
        StreamFact::Task(task) => put_task(state, task),
        StreamFact::TaskDeleted(id) => remove_task(state, id),
        StreamFact::Cleanup(cleanup) => state.cleanup = Some(cleanup),
        StreamFact::Session(summary) => state.session = Some(summary),
        StreamFact::Happened(entry) => state.timeline.push(entry),
    }
}

/// Puts a task into the list, which is sorted by id.
fn put_task(state: &mut TeamState, task: Task) {
    let owner = task.owner.clone();
    let before = match state.tasks.binary_search_by(|known| known.id.cmp(&task.id)) {
        Ok(at) => state.tasks.get_mut(at).and_then(|known| std::mem::replace(known, task).owner),
        Err(at) => {
            state.tasks.insert(at, task);
            None
        }
    };
    for owner in [before, owner].into_iter().flatten() {
        look_for_current_task(state, &owner);
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
