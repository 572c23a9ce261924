//! What every agent of a team did, used and cost, in this run and in those before it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pitcrew_model::Usage;
use pitcrew_protocol::{AgentName, LEAD_NAME, Status};
use pitcrew_team::store::{MemberSummary, Spent};

use crate::agent::Role;
use crate::events::Spending;
use crate::run::{AgentSummary, ModelTotal, Totals};

/// Why an agent ended that was dropped where it stood.
pub(super) const RESUMABLE: &str = "it was stopped, and can be resumed";

/// What stands in the name of a subagent, and in no member's.
const SUBAGENT_MARK: char = '#';

/// The summaries of all agents there ever were, in order of their start.
#[derive(Debug, Default)]
pub(crate) struct UsageTotals {
    agents: Vec<AgentSummary>,
    models: BTreeMap<String, ModelTotal>,
    model_time: Duration,
    /// The teammates that were started in this run and were not seen at work yet.
    unseen: BTreeSet<AgentName>,
    /// The agents that were started in this run, or were to be.
    of_this_run: BTreeSet<AgentName>,
}

impl UsageTotals {
    /// Opens an account, or goes on with the one there is.
    pub(crate) fn open(&mut self, name: &AgentName, agent_type: Option<String>, model: &str) {
        let account = self.of(name);
        account.agent_type = agent_type;
        model.clone_into(&mut account.model);
        (account.state, account.reason) = (Status::Pending, None);
        // One that worked in an earlier run has started, whatever comes of it in this one.
        let is_unseen = account.role == Role::Teammate && account.turns == 0;
        if is_unseen {
            self.unseen.insert(name.clone());
        }
        self.of_this_run.insert(name.clone());
    }

    /// Whether there is an account of that name, of this run or of those before.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.agents.iter().any(|agent| agent.name.as_str() == name)
    }

    /// The account of an agent.
    pub(crate) fn of(&mut self, name: &AgentName) -> &mut AgentSummary {
        let at = self.agents.iter().position(|agent| agent.name == *name).unwrap_or_else(|| {
            self.agents.push(AgentSummary {
                name: name.clone(),
                role: role_of(name),
                agent_type: None,
                model: String::new(),
                state: Status::Pending,
                reason: None,
                turns: 0,
                tool_calls: 0,
                usage: Usage::default(),
                cost_usd: 0.0,
                is_counted: true,
            });
            self.agents.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "the place was just found or made")]
        &mut self.agents[at]
    }

    /// Adds a model call.
    pub(crate) fn spend(&mut self, name: &AgentName, spending: &Spending) {
        let Spending { model, usage, cost_usd, tool_calls, took } = spending;
        self.seen_at_work(name);
        let account = self.of(name);
        if account.model.is_empty() {
            model.clone_into(&mut account.model);
        }
        if account.role == Role::Subagent && account.state == Status::Pending {
            // One of another client, of which nothing but its calls is known.
            account.state = Status::Completed;
        }
        account.is_counted = true;
        account.turns = account.turns.saturating_add(1);
        account.tool_calls = account.tool_calls.saturating_add(*tool_calls);
        account.usage += *usage;
        account.cost_usd += cost_usd.unwrap_or(0.0);
        let total = self.models.entry(model.clone()).or_default();
        total.usage += *usage;
        total.cost_usd += cost_usd.unwrap_or(0.0);
        total.is_unpriced |= cost_usd.is_none();
        self.model_time = self.model_time.saturating_add(*took);
    }

    /// Adds what an agent did in earlier runs of its team.
    pub(crate) fn carry_over(
        &mut self,
        name: &AgentName,
        before: &MemberSummary,
        last: Option<(Status, Option<String>)>,
    ) {
        let account = self.of(name);
        if account.model.is_empty() {
            // Nobody has started it in this run.
            if let Some(last) = last {
                (account.state, account.reason) = last;
            } else if account.role == Role::Subagent {
                // Its states are in no journal, and it has ended with the run that it was in.
                account.state = Status::Completed;
            }
            let most_used = before.spent.iter().max_by_key(|(_, spent)| spent.turns);
            account.model = most_used.map(|(model, _)| model.clone()).unwrap_or_default();
        }
        for (model, spent) in &before.spent {
            let usage = usage_of(spent);
            let account = self.of(name);
            account.is_counted = true;
            account.turns = account.turns.saturating_add(spent.turns);
            account.tool_calls = account.tool_calls.saturating_add(spent.tool_calls);
            account.usage += usage;
            account.cost_usd += spent.cost_usd();
            let total = self.models.entry(model.clone()).or_default();
            total.usage += usage;
            total.cost_usd += spent.cost_usd();
            total.is_unpriced |= spent.unpriced_turns > 0;
            self.model_time = self.model_time.saturating_add(Duration::from_millis(spent.model_ms));
        }
    }

    /// Takes note that nothing is known of an agent's model calls, until one is counted.
    pub(crate) fn not_counted_yet(&mut self, name: &AgentName) {
        let account = self.of(name);
        account.is_counted = account.turns > 0;
    }

    /// Takes note that a teammate works, so that it has started.
    pub(crate) fn seen_at_work(&mut self, name: &AgentName) {
        self.unseen.remove(name);
    }

    /// Takes note that a teammate could not be started in this run.
    pub(crate) fn did_not_start(&mut self, name: &AgentName) {
        self.unseen.insert(name.clone());
        self.of_this_run.insert(name.clone());
    }

    /// The teammates of this run that failed, or were left, before they were seen at work: first those that had worked in an
    /// earlier run, then those that never did.
    pub(crate) fn not_started(&self) -> (Vec<AgentName>, Vec<AgentName>) {
        let is_left =
            |agent: &&AgentSummary| matches!(agent.state, Status::Failed | Status::Pending);
        let left =
            self.agents.iter().filter(is_left).filter(|agent| self.unseen.contains(&agent.name));
        let (before, never): (Vec<_>, Vec<_>) = left.partition(|agent| agent.turns > 0);
        let names = |agents: Vec<&AgentSummary>| {
            agents.into_iter().map(|agent| agent.name.clone()).collect()
        };
        (names(before), names(never))
    }

    /// Why teammates failed in this run.
    pub(crate) fn failures(&self) -> Vec<(AgentName, String)> {
        let is_failed =
            |agent: &&AgentSummary| agent.role == Role::Teammate && agent.state == Status::Failed;
        let failed = self
            .agents
            .iter()
            .filter(is_failed)
            .filter(|agent| self.of_this_run.contains(&agent.name));
        failed.filter_map(|agent| Some((agent.name.clone(), agent.reason.clone()?))).collect()
    }

    /// Corrects the accounts of a run whose team is gone.
    pub(crate) fn nobody_can_be_resumed(&mut self) {
        for agent in
            self.agents.iter_mut().filter(|agent| agent.reason.as_deref() == Some(RESUMABLE))
        {
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

    /// All accounts, and what all took that ran so long, with the windows of the models.
    pub(crate) fn close(
        mut self,
        ran: Duration,
        mut window_of: impl FnMut(&str) -> u64,
    ) -> (Vec<AgentSummary>, Totals) {
        for (model, total) in &mut self.models {
            total.context_window = window_of(model);
        }
        (self.agents, Totals { ran, model_time: self.model_time, models: self.models })
    }
}

/// The part of an agent by its name.
fn role_of(name: &AgentName) -> Role {
    match name.as_str() {
        LEAD_NAME => Role::Lead,
        name if name.contains(SUBAGENT_MARK) => Role::Subagent,
        _ => Role::Teammate,
    }
}

fn usage_of(spent: &Spent) -> Usage {
    let cached = spent.cache_read_tokens.saturating_add(spent.cache_creation_tokens);
    Usage {
        input_tokens: spent.input_tokens.saturating_sub(cached),
        output_tokens: spent.output_tokens,
        cache_read_input_tokens: spent.cache_read_tokens,
        cache_creation_input_tokens: spent.cache_creation_tokens,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_teammate_that_worked_in_an_earlier_run_has_started_and_its_failure_is_told() {
        let (bob, ann) = (AgentName::new("bob").unwrap(), AgentName::new("ann").unwrap());
        let spent = Spent { turns: 2, ..Spent::default() };
        let before =
            MemberSummary { spent: [("m".to_owned(), spent)].into(), ..MemberSummary::default() };
        let mut usage_totals = UsageTotals::default();
        usage_totals.carry_over(&bob, &before, None);
        for name in [&bob, &ann] {
            usage_totals.open(name, None, "m");
            let account = usage_totals.of(name);
            (account.state, account.reason) = (Status::Failed, Some("the disk is full".to_owned()));
        }
        assert_eq!(usage_totals.not_started(), (Vec::new(), vec![ann.clone()]));
        let failed = [bob.clone(), ann.clone()].map(|name| (name, "the disk is full".to_owned()));
        assert_eq!(usage_totals.failures(), failed);
        usage_totals.did_not_start(&bob);
        assert_eq!(usage_totals.not_started(), (vec![bob], vec![ann]));
    }
}
