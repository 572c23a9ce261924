//! The known state of a team and its agents. The function [`fold`](crate::fold::fold) computes it
//! from events.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use pitcrew_agent::Role;
use pitcrew_model::Usage;
use pitcrew_protocol::{AgentName, Color, Status, TaskId};
use serde::Serialize;

use crate::member_status::MemberStatus;
use crate::text::first_line;
use crate::wording::{asks_for, short};

/// Maximum number of characters shown of an agent's current activity.
const DOING_CHARS: usize = 60;

/// The known state of a team.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TeamState {
    /// The team's name. Empty until the team's run has started or the team's config was read.
    pub team: String,
    /// The id of the run's session. Empty without a run.
    pub session_id: String,
    /// The main agent of the run: the lead, or a member that runs alone.
    pub lead: Option<AgentName>,
    /// The agents. Members are in the config's order if the config was read. Otherwise all agents
    /// are in the order of their start.
    pub agents: Vec<AgentState>,
    /// The numbers of tasks, messages, plans and permissions in this run.
    pub counts: Counts,
    /// The permissions that were refused, in order.
    pub denials: Vec<Denial>,
    /// The rules that would have allowed the calls which were refused because no person was there
    /// to ask.
    pub would_allow: BTreeSet<String>,
    /// For each call that waits for a permission, the tool. The key is the id of the call.
    pub(crate) asked: BTreeMap<String, String>,
}

/// The numbers of tasks, messages, plans and permissions in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// The number of tasks that were created.
    pub tasks_made: u64,
    /// The number of tasks that were completed.
    pub tasks_completed: u64,
    /// The number of messages that entered conversations.
    pub messages: u64,
    /// The number of plans that were submitted.
    pub plans: u64,
    /// The number of permissions that were asked for.
    pub permissions_asked: u64,
    /// The number of permissions that were refused.
    pub permissions_refused: u64,
}

/// A permission that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The name of the tool.
    pub tool: String,
    /// The id of the call.
    pub call: String,
    /// The reason of the refusal.
    pub reason: String,
    /// The rule that would have allowed the call. Only set if no person was there to ask.
    pub allow_rule: Option<String>,
}

/// The known state of one agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentState {
    /// The name of the agent.
    pub name: AgentName,
    /// The role of the agent in the team, if it is known.
    pub role: Option<Role>,
    /// The agent's color. The lead has none.
    pub color: Option<Color>,
    /// The type of the agent.
    pub agent_type: Option<String>,
    /// The model of the agent.
    pub model: Option<String>,
    /// The permission mode of the agent.
    pub mode: Option<String>,
    /// The kind of place in which the agent runs, as the config names it.
    pub backend_type: Option<String>,
    /// The git worktree of the agent.
    pub worktree: Option<String>,
    /// The process and pane of the agent, and the state of that process.
    pub process: Option<MemberStatus>,
    /// The state of the agent.
    pub status: Status,
    /// The reason why the agent ended, if a reason is known.
    pub reason: Option<String>,
    /// The task that the agent works on.
    pub task: Option<CurrentTask>,
    /// The number of model calls.
    pub turns: u32,
    /// The number of tool calls.
    pub tool_calls: u32,
    /// The number of tokens.
    pub usage: Usage,
    /// The cost in US dollars. Only calls with a known price are included.
    pub cost_usd: f64,
    /// Whether the price of each of the agent's model calls is known.
    pub has_price: bool,
    /// Whether the agent's model calls are known. They are not known if another client runs the
    /// agent and stores no conversation.
    pub is_counted: bool,
    /// The tool that the agent runs, or a description of what the agent waits for.
    pub(crate) doing: Option<String>,
    /// For each of the agent's calls that wait for a permission, the tool. The key is the id of the
    /// call.
    pub(crate) asks: BTreeMap<String, String>,
}

/// The task that an agent works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentTask {
    /// The id of the task.
    pub id: TaskId,
    /// The subject of the task.
    pub subject: String,
}

impl TeamState {
    /// Returns the state of a team of which only the name of one agent is known.
    #[must_use]
    pub fn of_agent(name: AgentName) -> Self {
        Self { agents: vec![AgentState::new(name)], ..Self::default() }
    }

    /// Returns the agent with this name.
    #[must_use]
    pub fn agent(&self, name: &AgentName) -> Option<&AgentState> {
        self.agents.iter().find(|agent| agent.name == *name)
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

    /// Returns the agent's activity, tokens and cost in one line, without the agent's name.
    #[must_use]
    pub fn line(&self) -> String {
        let doing = match (&self.doing, self.status) {
            (Some(doing), _) => first_line(doing, DOING_CHARS),
            // For an agent in another process, a question may become known before the turn in which
            // the agent asked it.
            (None, Status::Active) => {
                self.asks.values().next().map_or_else(|| "thinks".to_owned(), |tool| asks_for(tool))
            }
            (None, Status::Completed) => "ended".to_owned(),
            (None, status) => status.as_str().replace('_', " "),
        };
        let mut line = format!("{doing:<30}");
        let tokens = self.usage.context_tokens();
        if tokens > 0 {
            let _ = write!(line, "  {} tokens", short(tokens));
            if self.has_price {
                let _ = write!(line, "  ${:.2}", self.cost_usd);
            }
        }
        line.trim_end().to_owned()
    }
}
