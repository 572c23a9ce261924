//! The known state of a team and its agents. The function [`fold`](crate::fold::fold) computes this
//! state from events.

mod session;
mod timeline;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use pitcrew_agent::Role;
use pitcrew_model::{Usage, in_dollars};
use pitcrew_protocol::{AgentName, Color, Status, Task, TaskId};
use pitcrew_runtime::run::RunLimits;
use serde::{Deserialize, Serialize};

pub use session::{Cleanup, ModelUse, SessionSummary, tokens_in_words};
pub use timeline::{Happened, Mail, Route, Timeline, TimelineEntry};
pub(crate) use timeline::{bounded, bounded_to};

use crate::member_status::MemberStatus;
use crate::text::first_line;
use crate::wording::{asks_for, short, state_in_words};

/// Maximum number of characters that are shown of an agent's current activity.
const DOING_CHARS: usize = 60;

/// The known state of a team.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TeamState {
    /// The team's name. It is empty until the team's run has started or the team's config was read.
    pub team: String,
    /// The session id of the run. It is empty if there is no run.
    pub session_id: String,
    /// The main agent of the run: the lead of the team, or the single member that this process
    /// runs.
    pub lead: Option<AgentName>,
    /// The limits of the run. A run that this process only reads from records has none here.
    pub limits: RunLimits,
    /// The cost of the earlier runs in US dollars. The limit on cost counts it too.
    pub spent_before_usd: f64,
    /// The agents. If the config was read, its members come first, in the config's order. Otherwise
    /// all agents are in the order in which they started.
    pub agents: Vec<AgentState>,
    /// The numbers of tasks, messages, plans and permissions in this run.
    pub counts: Counts,
    /// The permissions that were refused, in the order of refusal.
    pub denials: Vec<Denial>,
    /// The permission rules that would have allowed the refused calls. Only calls that were refused
    /// because no person was there to ask are included.
    pub would_allow: BTreeSet<String>,
    /// The tasks of the team with their dependencies, sorted by id. Empty until the tasks were
    /// read.
    pub tasks: Vec<Task>,
    /// The mail, the tasks and the agents of the team in the order of events. The stream of another
    /// client and the records of a team fill it, and not the events of a run.
    pub timeline: Timeline,
    /// The end of the team, if the stream of another client told it.
    pub cleanup: Option<Cleanup>,
    /// The summary of the session, if the stream of another client or the records of a team told it.
    pub session: Option<SessionSummary>,
    /// The name of the tool for each call that waits for a permission, by the id of the call.
    pub(crate) asked: BTreeMap<String, String>,
}

/// The numbers of tasks, messages, plans and permissions in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// The number of tasks that were created.
    pub tasks_made: u64,
    /// The number of tasks that were completed in the run.
    pub tasks_completed: u64,
    /// The number of messages that were delivered into the conversations of agents.
    pub messages: u64,
    /// The number of plans that were submitted.
    pub plans: u64,
    /// The number of permission requests.
    pub permissions_asked: u64,
    /// The number of permission requests that were refused.
    pub permissions_refused: u64,
}

/// A permission request that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// The name of the tool.
    pub tool: String,
    /// The id of the call.
    pub call: String,
    /// The reason for the refusal.
    pub reason: String,
    /// The permission rule that would have allowed the call. Set only if the call was refused
    /// because no person was there to ask.
    pub allow_rule: Option<String>,
}

/// The known state of one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentState {
    /// The name of the agent.
    pub name: AgentName,
    /// The role of the agent in the team, if it is known.
    pub role: Option<Role>,
    /// The agent's color. A lead has no color.
    pub color: Option<Color>,
    /// The name of the agent definition that the agent runs.
    pub agent_type: Option<String>,
    /// The model of the agent.
    pub model: Option<String>,
    /// The permission mode of the agent.
    pub mode: Option<String>,
    /// The kind of place in which the agent runs: the member's `backendType` in the config.
    pub backend_type: Option<String>,
    /// The git worktree of the agent.
    pub worktree: Option<String>,
    /// The process and pane of the agent, and the state of that process.
    pub process: Option<MemberStatus>,
    /// The state of the agent.
    pub status: Status,
    /// The reason why the agent ended, if a reason is known.
    pub reason: Option<String>,
    /// The task that the agent works on now.
    pub task: Option<CurrentTask>,
    /// The maximum number of the agent's model calls, those of earlier runs included. `None` if
    /// there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// The number of model calls that the agent has made.
    pub turns: u32,
    /// The number of tool calls that the agent has made.
    pub tool_calls: u32,
    /// The number of tokens that the agent has used.
    pub usage: Usage,
    /// The cost in US dollars. Only model calls with a known price are included.
    pub cost_usd: f64,
    /// Whether the price of each of the agent's model calls is known.
    pub has_price: bool,
    /// Whether the agent's model calls are known. If another client runs the agent and stores no
    /// conversation, its model calls are not known.
    pub is_counted: bool,
    /// The tool that the agent runs now, or a description of what the agent waits for.
    pub(crate) doing: Option<String>,
    /// The name of the tool for each of the agent's calls that wait for a permission, by the id of
    /// the call.
    #[serde(default)]
    pub(crate) asks: BTreeMap<String, String>,
}

/// The task that an agent works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrentTask {
    /// The id of the task.
    pub id: TaskId,
    /// The subject of the task.
    pub subject: String,
}

impl TeamState {
    /// Returns the state of a team in which only the name of one agent is known.
    #[must_use]
    pub fn of_agent(name: AgentName) -> Self {
        Self { agents: vec![AgentState::new(name)], ..Self::default() }
    }

    /// Returns the state of the agent with this name.
    #[must_use]
    pub fn agent(&self, name: &AgentName) -> Option<&AgentState> {
        self.agents.iter().find(|agent| agent.name == *name)
    }

    /// Returns the teammates that have not ended.
    #[must_use]
    pub fn teammates_left(&self) -> Vec<&AgentName> {
        let is_left =
            |agent: &&AgentState| agent.role == Some(Role::Teammate) && !agent.status.is_over();
        self.agents.iter().filter(is_left).map(|agent| &agent.name).collect()
    }

    pub(crate) fn agent_mut(&mut self, name: &AgentName) -> Option<&mut AgentState> {
        self.agents.iter_mut().find(|agent| agent.name == *name)
    }
}

impl AgentState {
    /// Returns the state of an agent of which only the name is known.
    #[must_use]
    pub fn new(name: AgentName) -> Self {
        Self {
            name,
            role: None,
            color: None,
            agent_type: None,
            model: None,
            mode: None,
            backend_type: None,
            worktree: None,
            process: None,
            status: Status::Pending,
            reason: None,
            task: None,
            max_turns: None,
            turns: 0,
            tool_calls: 0,
            usage: Usage::default(),
            cost_usd: 0.0,
            has_price: true,
            is_counted: true,
            doing: None,
            asks: BTreeMap::new(),
        }
    }

    /// Returns the agent's current activity as one line of text.
    #[must_use]
    pub fn now(&self) -> String {
        match (&self.doing, self.status) {
            (Some(doing), _) => first_line(doing, DOING_CHARS),
            // If the agent runs in another process, its permission request can become known before
            // the turn that contains the call. In this case, the text says that the agent asks for
            // a permission.
            (None, Status::Active) => {
                self.asks.values().next().map_or_else(|| "thinks".to_owned(), |tool| asks_for(tool))
            }
            (None, status) => state_in_words(status),
        }
    }

    /// Returns the number of the agent's tokens in a short form. Returns `None` if no tokens are
    /// known.
    #[must_use]
    pub fn tokens(&self) -> Option<String> {
        let tokens = self.usage.context_tokens();
        (tokens > 0).then(|| short(tokens))
    }

    /// Returns the agent's cost in dollars. Returns `None` if no tokens are known, or if the price
    /// of a model call is not known.
    #[must_use]
    pub fn cost(&self) -> Option<String> {
        (self.has_price && self.usage.context_tokens() > 0).then(|| in_dollars(self.cost_usd))
    }

    /// Returns the agent's activity, tokens and cost as one line of text. The line does not contain
    /// the agent's name.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = format!("{:<30}", self.now());
        if let Some(tokens) = self.tokens() {
            let _ = write!(line, "  {tokens} tokens");
        }
        if let Some(cost) = self.cost() {
            let _ = write!(line, "  {cost}");
        }
        line.trim_end().to_owned()
    }
}
