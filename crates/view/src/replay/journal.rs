//! Folds the journal of a team into its state, entry by entry.
//!
//! The journal does not have everything: of a task it names only the fields that have changed, and of
//! a member not its color. These come from the last records of the team.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pitcrew_agent::Role;
use pitcrew_model::Usage;
use pitcrew_protocol::{AgentName, LEAD_NAME, Task, TaskId, TaskStatus, TeamConfig};
use pitcrew_runtime::events::{RunEvent, Spending};
use pitcrew_team::Mail;
use pitcrew_team::store::{
    Event, JournalEntry, MemberChange, PermissionOutcome, TaskChangeKind, Turn,
};

use super::first_modes::FirstModes;
use crate::client_mail::fold_mail;
use crate::fold::{ViewEvent, fold, fold_run};
use crate::state::{AgentState, TeamState};
use crate::wording::mode_in_words;

/// A character that every subagent's name contains, and that no member's name contains.
const SUBAGENT_MARK: char = '#';

/// The state of a team while its journal is read.
#[derive(Debug)]
pub(super) struct JournalFold {
    pub(super) state: TeamState,
    /// The members at the end.
    members: BTreeMap<AgentName, AgentState>,
    /// The tasks at the end.
    tasks: BTreeMap<TaskId, Task>,
    modes: FirstModes,
    /// The members that another client runs.
    clients: BTreeSet<AgentName>,
}

impl JournalFold {
    /// Returns the state before the first entry: the members and tasks whose beginning the journal
    /// does not have.
    pub(super) fn new(
        config: &TeamConfig,
        tasks: &[Task],
        (journal, modes): (&[JournalEntry], FirstModes),
        clients: &BTreeSet<AgentName>,
    ) -> Self {
        let mut last = fold(TeamState::default(), &ViewEvent::Config(config));
        for agent in &mut last.agents {
            agent.mode = modes.get(&agent.name);
        }
        let begins = |agent: &AgentState| journal.iter().any(|entry| begins(&entry.event, agent));
        let is_made = |task: &Task| journal.iter().any(|entry| makes(&entry.event, task));
        let agents = last
            .agents
            .iter()
            .filter(|agent| !begins(agent) && !clients.contains(&agent.name))
            .cloned();
        // What became of them since is in the entries and in the mail, or only in the last records.
        let open = |task: &Task| Task { status: TaskStatus::Pending, owner: None, ..task.clone() };
        let there = tasks.iter().filter(|task| !is_made(task)).map(open).collect::<Vec<_>>();
        let state =
            TeamState { team: last.team.clone(), agents: agents.collect(), ..TeamState::default() };
        let mut state = fold(state, &ViewEvent::Tasks(&there));
        state.lead =
            last.agents.iter().map(|it| &it.name).find(|it| it.as_str() == LEAD_NAME).cloned();
        Self {
            state,
            members: last.agents.into_iter().map(|agent| (agent.name.clone(), agent)).collect(),
            tasks: tasks.iter().map(|task| (task.id.clone(), task.clone())).collect(),
            modes,
            clients: clients.clone(),
        }
    }

    /// Folds an entry of the journal.
    pub(super) fn add(&mut self, entry: &JournalEntry) {
        match &entry.event {
            Event::MemberChanged { member, state, detail } => {
                self.member_changed(member, state, detail.clone());
            }
            Event::Permission { request, member, tool, outcome, telling: _ } => {
                self.permission(member, (request, tool), outcome);
            }
            Event::TurnEnded(turn) => self.turn_ended(turn),
            Event::TaskChanged { task, by, change, fields } => {
                self.task_changed(task, by, change, fields);
            }
            Event::TeamCreated { .. }
            | Event::TeamDeleted { .. }
            | Event::TeamArchived { .. }
            | Event::MessagePersisted { .. }
            | Event::MessageInjected { .. }
            | Event::MessageAcknowledged { .. }
            | Event::MessageDead { .. }
            | Event::FrameRefused { .. }
            | Event::Overwritten(_)
            | Event::Started { .. }
            | Event::Stopped { .. }
            | Event::AllowedAlways { .. }
            | Event::ConversationCompacted { .. }
            | Event::RunStarted { .. }
            | Event::RunEnded { .. }
            | Event::EarlierTeams { .. } => {}
        }
    }

    /// Folds a message from or to a member that another client runs.
    pub(super) fn add_mail(&mut self, mail: &(AgentName, Mail)) {
        fold_mail(&mut self.state, &self.clients, mail);
    }

    fn member_changed(&mut self, name: &AgentName, change: &MemberChange, detail: Option<String>) {
        match change {
            MemberChange::Spawned | MemberChange::Joined => self.spawned(name),
            MemberChange::Status(status) => {
                self.known(name);
                let (agent, status) = (name.clone(), *status);
                fold_run(&mut self.state, &RunEvent::AgentChanged { agent, status, detail });
            }
            MemberChange::Mode => {
                if let Some(agent) = self.state.agent_mut(name) {
                    agent.mode = detail.as_deref().and_then(mode_in_words);
                }
            }
            MemberChange::Removed | MemberChange::ModeRefused | MemberChange::Other(_) => {}
        }
    }

    /// Adds an agent, in place of an earlier one of the same name.
    fn spawned(&mut self, name: &AgentName) {
        let agent = self.agent(name);
        self.modes.took(name);
        self.state.agents.retain(|earlier| earlier.name != *name);
        self.state.agents.push(agent);
    }

    /// Adds an agent that the journal has not begun.
    pub(super) fn known(&mut self, name: &AgentName) {
        if self.state.agent(name).is_none() {
            let agent = self.agent(name);
            self.state.agents.push(agent);
        }
    }

    fn agent(&self, name: &AgentName) -> AgentState {
        let of_config = self.members.get(name).cloned();
        let mut agent = of_config.unwrap_or_else(|| AgentState::new(name.clone()));
        agent.mode = self.modes.get(name);
        agent.role = Some(match name.as_str() {
            LEAD_NAME => Role::Lead,
            name if name.contains(SUBAGENT_MARK) => Role::Subagent,
            _ => Role::Teammate,
        });
        agent
    }

    fn permission(
        &mut self,
        agent: &AgentName,
        (call, tool): (&str, &str),
        outcome: &PermissionOutcome,
    ) {
        let (agent, call) = (agent.clone(), call.to_owned());
        let event = match outcome {
            PermissionOutcome::Asked => {
                RunEvent::PermissionAsked { agent, call, tool: tool.to_owned() }
            }
            PermissionOutcome::Allowed
            | PermissionOutcome::Denied
            | PermissionOutcome::Other(_) => {
                RunEvent::PermissionAnswered { agent, call, refused: None, would_allow: None }
            }
        };
        fold_run(&mut self.state, &event);
    }

    fn turn_ended(&mut self, turn: &Turn) {
        self.known(&turn.member);
        let cached = turn.cache_read_tokens.saturating_add(turn.cache_creation_tokens);
        let usage = Usage {
            // The journal counts cached tokens as input too.
            input_tokens: turn.input_tokens.saturating_sub(cached),
            output_tokens: turn.output_tokens,
            cache_creation_input_tokens: turn.cache_creation_tokens,
            cache_read_input_tokens: turn.cache_read_tokens,
        };
        let (cost_usd, tool_calls) = (turn.cost_usd, turn.tool_calls);
        let (model, took) = (turn.model.clone(), Duration::from_millis(turn.took_ms));
        let spending = Spending { model, usage, cost_usd, tool_calls, took };
        let agent = turn.member.clone();
        if let Some(agent) = self.state.agent_mut(&agent) {
            agent.model.get_or_insert_with(|| turn.model.clone());
        }
        fold_run(&mut self.state, &RunEvent::TurnEnded { agent, spending });
    }

    fn task_changed(&mut self, id: &TaskId, by: &str, change: &TaskChangeKind, fields: &[String]) {
        let mut tasks = std::mem::take(&mut self.state.tasks);
        let known = tasks.iter().position(|task| task.id == *id).map(|at| tasks.remove(at));
        // A task that is gone at the end is known only by its number.
        if let (Some(last), false) = (self.tasks.get(id), *change == TaskChangeKind::Deleted) {
            let task = known.unwrap_or_else(|| as_made(last));
            tasks.push(changed(task, last, (by, change, fields)));
        }
        self.state = fold(std::mem::take(&mut self.state), &ViewEvent::Tasks(&tasks));
    }
}

/// Whether the event is a state of the agent.
pub(super) fn is_state_of(event: &Event, agent: &AgentName) -> bool {
    matches!(event, Event::MemberChanged { member, state, .. }
        if member == agent && state.status().is_some())
}

/// Whether the event is the beginning of the agent.
fn begins(event: &Event, agent: &AgentState) -> bool {
    matches!(event, Event::MemberChanged { member, state, .. }
        if *member == agent.name && matches!(state, MemberChange::Spawned | MemberChange::Joined))
}

/// Whether the event is the creation of the task.
fn makes(event: &Event, made: &Task) -> bool {
    matches!(event, Event::TaskChanged { task, change: TaskChangeKind::Created, .. }
        if *task == made.id)
}

/// Returns a task as it was when it was made.
fn as_made(last: &Task) -> Task {
    Task { owner: None, status: TaskStatus::Pending, ..last.clone() }
}

/// Returns a task after a change. `last` is the task at the end.
fn changed(
    mut task: Task,
    last: &Task,
    (by, change, fields): (&str, &TaskChangeKind, &[String]),
) -> Task {
    match change {
        TaskChangeKind::Claimed => {
            task.owner = Some(by.to_owned());
            task.status = TaskStatus::InProgress;
        }
        TaskChangeKind::Completed => {
            task.owner = task.owner.or_else(|| last.owner.clone());
            task.status = TaskStatus::Completed;
        }
        TaskChangeKind::Released => {
            task.owner = None;
            task.status = TaskStatus::Pending;
        }
        TaskChangeKind::Updated => {
            let has = |name: &str| fields.iter().any(|field| field == name);
            if has("owner") {
                task.owner.clone_from(&last.owner);
            }
            // The completion of a task has an entry of its own.
            if has("status") && task.status == TaskStatus::Pending {
                task.status = TaskStatus::InProgress;
            }
        }
        TaskChangeKind::Created | TaskChangeKind::Deleted | TaskChangeKind::Other(_) => {}
    }
    task
}
