//! Activity, usage and cost of every agent of a team, in this run and in earlier runs.

use std::collections::BTreeMap;
use std::time::Duration;

use pitcrew_agent::Role;
use pitcrew_model::Usage;
use pitcrew_protocol::{AgentName, LEAD_NAME, Status};
use pitcrew_team::store::{MemberSummary, Spent};

use crate::events::Spending;
use crate::run::{AgentSummary, ModelTotal, RESUMABLE, Totals};

/// A character that every subagent's name contains, and that no member's name contains.
const SUBAGENT_MARK: char = '#';

/// The work and the usage of one agent, in this run and in earlier runs.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) summary: AgentSummary,
    /// Whether the agent is a teammate that was started in this run and has not been seen working
    /// yet.
    is_unseen: bool,
    /// Whether this run started the agent or tried to start it.
    is_of_this_run: bool,
}

/// The total usage of all agents of a run.
#[derive(Debug, Default)]
pub(crate) struct UsageTotals {
    models: BTreeMap<String, ModelTotal>,
    model_time: Duration,
    cost_usd: f64,
}

impl Account {
    /// Creates an empty account for an agent.
    pub(crate) fn new(name: &AgentName) -> Self {
        let summary = AgentSummary {
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
        };
        Self { summary, is_unseen: false, is_of_this_run: false }
    }

    /// Records that this run starts the agent.
    pub(crate) fn open(&mut self, agent_type: Option<String>, model: &str) {
        self.summary.agent_type = agent_type;
        model.clone_into(&mut self.summary.model);
        self.note_state(Status::Pending, None);
        // A teammate that worked in an earlier run counts as started, even if it does not work in
        // this run.
        self.is_unseen |= self.summary.role == Role::Teammate && self.summary.turns == 0;
        self.is_of_this_run = true;
    }

    /// Records the agent's state and the reason given for the state.
    pub(crate) fn note_state(&mut self, state: Status, reason: Option<String>) {
        (self.summary.state, self.summary.reason) = (state, reason);
    }

    /// Adds a model call to this account and to `totals`.
    pub(crate) fn spend(&mut self, spending: &Spending, totals: &mut UsageTotals) {
        let Spending { model, usage, cost_usd, tool_calls, took } = spending;
        self.seen_at_work();
        let summary = &mut self.summary;
        if summary.model.is_empty() {
            model.clone_into(&mut summary.model);
        }
        if summary.role == Role::Subagent && summary.state == Status::Pending {
            // This is a subagent of another client. Its state is unknown, and only its calls are
            // known. Count it as completed.
            summary.state = Status::Completed;
        }
        summary.is_counted = true;
        summary.turns = summary.turns.saturating_add(1);
        summary.tool_calls = summary.tool_calls.saturating_add(*tool_calls);
        summary.usage += *usage;
        summary.cost_usd += cost_usd.unwrap_or(0.0);
        totals.add(model, *usage, cost_usd.unwrap_or(0.0), cost_usd.is_none());
        totals.model_time = totals.model_time.saturating_add(*took);
    }

    /// Adds the agent's usage in the team's earlier runs to this account and to the totals.
    pub(crate) fn carry_over(
        &mut self,
        before: &MemberSummary,
        last: Option<(Status, Option<String>)>,
        totals: &mut UsageTotals,
    ) {
        let summary = &mut self.summary;
        if summary.model.is_empty() {
            // This run has not started the agent, so show the state that the agent had last.
            if let Some(last) = last {
                (summary.state, summary.reason) = last;
            } else if summary.role == Role::Subagent {
                // The journal contains no state of this subagent. It ended together with its run.
                summary.state = Status::Completed;
            }
            let most_used = before.spent.iter().max_by_key(|(_, spent)| spent.turns);
            summary.model = most_used.map(|(model, _)| model.clone()).unwrap_or_default();
        }
        for (model, spent) in &before.spent {
            let usage = usage_of(spent);
            summary.is_counted = true;
            summary.turns = summary.turns.saturating_add(spent.turns);
            summary.tool_calls = summary.tool_calls.saturating_add(spent.tool_calls);
            summary.usage += usage;
            summary.cost_usd += spent.cost_usd();
            totals.add(model, usage, spent.cost_usd(), spent.unpriced_turns > 0);
            totals.model_time =
                totals.model_time.saturating_add(Duration::from_millis(spent.model_ms));
        }
    }

    /// Records that the number of the agent's model calls is unknown. It stays unknown until the
    /// agent's first call is counted.
    pub(crate) fn not_counted_yet(&mut self) {
        self.summary.is_counted = self.summary.turns > 0;
    }

    /// Records that the agent was seen working. It then counts as started.
    pub(crate) fn seen_at_work(&mut self) {
        self.is_unseen = false;
    }

    /// Records that the agent could not be started in this run.
    pub(crate) fn did_not_start(&mut self) {
        (self.is_unseen, self.is_of_this_run) = (true, true);
    }

    /// Returns true if the agent is a teammate that was never seen working in this run, and its
    /// state is failed or pending.
    pub(crate) fn has_not_started(&self) -> bool {
        self.is_unseen && matches!(self.summary.state, Status::Failed | Status::Pending)
    }

    /// Returns the teammate's name and the reason for its failure, if the teammate failed in this
    /// run.
    pub(crate) fn failure(&self) -> Option<(AgentName, String)> {
        let AgentSummary { name, role, state, reason, .. } = &self.summary;
        let has_failed = *role == Role::Teammate && *state == Status::Failed && self.is_of_this_run;
        reason.as_ref().filter(|_| has_failed).map(|reason| (name.clone(), reason.clone()))
    }

    /// Records that the agent was cancelled and can be resumed.
    pub(crate) fn was_dropped(&mut self) {
        self.note_state(Status::Killed, Some(RESUMABLE.to_owned()));
    }

    /// Changes the reason for the end of a cancelled agent after the team was deleted. The old
    /// reason says that the agent can be resumed, which is no longer possible.
    pub(crate) fn cannot_be_resumed(&mut self) {
        if self.summary.reason.as_deref() == Some(RESUMABLE) {
            self.summary.reason = Some("it was stopped, and its team is gone".to_owned());
        }
    }
}

impl UsageTotals {
    fn add(&mut self, model: &str, usage: Usage, cost_usd: f64, is_unpriced: bool) {
        let total = self.models.entry(model.to_owned()).or_default();
        total.usage += usage;
        total.cost_usd += cost_usd;
        total.is_unpriced |= is_unpriced;
        self.cost_usd += cost_usd;
    }

    /// Returns the cost of the run so far, in US dollars.
    pub(crate) fn cost_usd(&self) -> f64 {
        self.cost_usd
    }

    /// Returns the totals of all agents. `ran` is the duration of the run, and `window_of` returns
    /// the context window of a model.
    pub(crate) fn close(mut self, ran: Duration, mut window_of: impl FnMut(&str) -> u64) -> Totals {
        for (model, total) in &mut self.models {
            total.context_window = window_of(model);
        }
        Totals { ran, model_time: self.model_time, models: self.models }
    }
}

/// Returns the role of an agent. The agent's name shows the role.
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
    use super::super::agents::Agents;
    use super::*;

    #[test]
    fn a_teammate_that_worked_in_an_earlier_run_has_started_and_its_failure_is_told() {
        let (bob, ann) = (AgentName::new("bob").unwrap(), AgentName::new("ann").unwrap());
        let spent = Spent { turns: 2, ..Spent::default() };
        let before =
            MemberSummary { spent: [("m".to_owned(), spent)].into(), ..MemberSummary::default() };
        let (mut agents, mut totals) = (Agents::default(), UsageTotals::default());
        agents.account(&bob).carry_over(&before, None, &mut totals);
        for name in [&bob, &ann] {
            let account = agents.account(name);
            account.open(None, "m");
            account.note_state(Status::Failed, Some("the disk is full".to_owned()));
        }
        let failures = [&bob, &ann].map(|name| (name.clone(), "the disk is full".to_owned()));
        let open = agents.open_work();
        assert_eq!((open.left_behind, open.never_started), (Vec::new(), vec![ann.clone()]));
        assert_eq!(open.failures, failures);
        agents.account(&bob).did_not_start();
        let open = agents.open_work();
        assert_eq!((open.left_behind, open.never_started), (vec![bob], vec![ann]));
    }
}
