//! What is known of a team and its agents: the state that [`fold`](crate::fold::fold) makes of
//! events.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use pitcrew_agent::Role;
use pitcrew_model::Usage;
use pitcrew_protocol::{AgentName, Color, Status, TaskId};
use serde::Serialize;

use crate::member_status::MemberStatus;
use crate::text::first_line;
use crate::wording::{asks_for, short};

/// The most characters of an agent's current activity.
const DOING_CHARS: usize = 60;

/// What is known of a team.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TeamState {
    /// The team's name; empty until its run has started or its config was read.
    pub team: String,
    /// The session of the run; empty without a run.
    pub session_id: String,
    /// The main agent of the run: the lead, or a member that runs alone.
    pub lead: Option<AgentName>,
    /// The agents: members in the config's order where it was read, else in the order of their
    /// start.
    pub agents: Vec<AgentState>,
    /// How often what happened in this run.
    pub counts: Counts,
    /// The permissions that were refused, in order.
    pub denials: Vec<Denial>,
    /// The rules that would have allowed what was refused because nobody was there to ask.
    pub would_allow: BTreeSet<String>,
    /// The tools for which permission was asked, by the calls.
    pub(crate) asked: BTreeMap<String, String>,
}

/// How often what happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Tasks that were made.
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
    /// The tool.
    pub tool: String,
    /// The id of the call.
    pub call: String,
    /// The reason of the refusal.
    pub reason: String,
    /// The rule that would have allowed the call, if no person was there to ask.
    pub allow_rule: Option<String>,
}

/// What is known of one agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentState {
    /// Its name.
    pub name: AgentName,
    /// Its part in the team, where it is known.
    pub role: Option<Role>,
    /// The agent's color; the lead has none.
    pub color: Option<Color>,
    /// Its type.
    pub agent_type: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// Its permission mode.
    pub mode: Option<String>,
    /// The kind of place in which it runs, as the config names it.
    pub backend_type: Option<String>,
    /// Its git worktree.
    pub worktree: Option<String>,
    /// Where its process runs and what that does.
    pub process: Option<MemberStatus>,
    /// Its state.
    pub status: Status,
    /// Why it ended, where a reason is known.
    pub reason: Option<String>,
    /// The task that it works on.
    pub task: Option<CurrentTask>,
    /// Model calls.
    pub turns: u32,
    /// Tool calls.
    pub tool_calls: u32,
    /// Tokens.
    pub usage: Usage,
    /// Cost in US dollars, of the calls whose price is known.
    pub cost_usd: f64,
    /// Whether each of its model calls has a price.
    pub has_price: bool,
    /// Whether its model calls are known. They are not known for another client that stores no
    /// conversation.
    pub is_counted: bool,
    /// The tool that it runs, or what it waits for.
    pub(crate) doing: Option<String>,
    /// The tools for which it asks permission, by the calls.
    pub(crate) asks: BTreeMap<String, String>,
}

/// The task that an agent works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentTask {
    /// Its id.
    pub id: TaskId,
    /// Its subject.
    pub subject: String,
}

impl TeamState {
    /// Returns a team of which nothing but one agent's name is known.
    #[must_use]
    pub fn of_agent(name: AgentName) -> Self {
        Self { agents: vec![AgentState::new(name)], ..Self::default() }
    }

    /// Returns the agent of that name.
    #[must_use]
    pub fn agent(&self, name: &AgentName) -> Option<&AgentState> {
        self.agents.iter().find(|agent| agent.name == *name)
    }

    pub(crate) fn agent_mut(&mut self, name: &AgentName) -> Option<&mut AgentState> {
        self.agents.iter_mut().find(|agent| agent.name == *name)
    }
}

impl AgentState {
    /// Returns an agent of which nothing but its name is known.
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

    /// Returns its state, current tool, tokens and cost in one line, without its name.
    #[must_use]
    pub fn line(&self) -> String {
        let doing = match (&self.doing, self.status) {
            (Some(doing), _) => first_line(doing, DOING_CHARS),
            // A question of an agent in another process may be known before the turn in which it
            // was asked.
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
