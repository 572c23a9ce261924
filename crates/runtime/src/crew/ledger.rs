//! What every agent of a run did, used and cost.

use std::collections::BTreeSet;

use pitcrew_model::Usage;
use pitcrew_protocol::AgentName;

use crate::agent::Status;
use crate::run::AgentSummary;

/// Why an agent ended that was dropped where it stood.
pub(super) const RESUMABLE: &str = "it was stopped, and can be resumed";

/// The summaries of all agents there ever were, in order of their start.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    agents: Vec<AgentSummary>,
    unpriced: BTreeSet<String>,
}

impl Ledger {
    /// Opens an account, or goes on with the one there is.
    pub(crate) fn open(&mut self, name: &AgentName, agent_type: Option<String>, model: &str) {
        let account = self.of(name);
        account.agent_type = agent_type;
        model.clone_into(&mut account.model);
    }

    /// The account of an agent.
    pub(crate) fn of(&mut self, name: &AgentName) -> &mut AgentSummary {
        let at = self.agents.iter().position(|agent| agent.name == *name).unwrap_or_else(|| {
            self.agents.push(AgentSummary {
                name: name.clone(),
                agent_type: None,
                model: String::new(),
                state: Status::Pending,
                reason: None,
                turns: 0,
                tool_calls: 0,
                usage: Usage::default(),
                cost_usd: 0.0,
            });
            self.agents.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "the place was just found or made")]
        &mut self.agents[at]
    }

    /// Adds a model call.
    pub(crate) fn spend(&mut self, name: &AgentName, model: String, usage: Usage, cost_usd: Option<f64>) {
        let account = self.of(name);
        account.turns += 1;
        account.usage += usage;
        account.cost_usd += cost_usd.unwrap_or(0.0);
        if cost_usd.is_none() {
            self.unpriced.insert(model);
        }
    }

    /// Corrects the accounts of a run whose team is gone.
    pub(crate) fn nobody_can_be_resumed(&mut self) {
        for agent in self.agents.iter_mut().filter(|agent| agent.reason.as_deref() == Some(RESUMABLE)) {
            agent.reason = Some("it was stopped, and its team is gone".to_owned());
        }
    }

    /// Whether no model has answered yet.
    pub(super) fn is_untouched(&self) -> bool {
        self.agents.iter().all(|agent| agent.turns == 0)
    }

    /// The cost so far, in US dollars.
    pub(crate) fn cost_usd(&self) -> f64 {
        self.agents.iter().map(|agent| agent.cost_usd).sum()
    }

    /// All accounts, and the models without a price.
    pub(crate) fn close(self) -> (Vec<AgentSummary>, Vec<String>) {
        (self.agents, self.unpriced.into_iter().collect())
    }
}
