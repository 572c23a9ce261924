//! The last event of a run. It contains how the run ended, the number of turns, the time, the
//! tokens and cost of each model, and the denied permissions.

use std::time::Duration;

use pitcrew_agent::Role;
use pitcrew_model::Usage;
use pitcrew_protocol::{EventIds, FailedAgent, ResultEvent, RunSummary, Status, StreamUsage};
use pitcrew_runtime::run::{AgentSummary, MAX_OUTPUT_TOKENS, ModelTotal, RunEnd, RunOutcome};
use serde_json::{Value, json};

use crate::outcome;
use crate::state::{Denial, TeamState};

/// Returns the last event of a run. `uuid` is the id of the new event.
#[must_use]
pub fn result_event(state: &TeamState, ended: &RunOutcome, uuid: String) -> ResultEvent {
    let (end, text) = (ended.end.as_str(), outcome::result_text(&ended.end));
    let subtype = match &ended.end {
        RunEnd::Success { .. } => "success".to_owned(),
        RunEnd::Failed { .. } | RunEnd::Broken { .. } => "error_during_execution".to_owned(),
        RunEnd::Unfinished { .. }
        | RunEnd::Parked { .. }
        | RunEnd::Interrupted
        | RunEnd::ShutDown
        | RunEnd::LimitReached { .. } => format!("error_{end}"),
    };
    let is_error = !matches!(ended.end, RunEnd::Success { .. });
    let totals = &ended.totals;
    let ids = EventIds { session_id: state.session_id.clone(), uuid, parent_tool_use_id: None };
    let models = totals.models.iter().map(|(model, total)| (model.clone(), model_usage(total)));
    let summary = RunSummary {
        subtype,
        is_error,
        duration_ms: millis(totals.ran),
        duration_api_ms: millis(totals.model_time),
        num_turns: ended.agents.first().map_or(0, |agent| agent.turns.into()),
        result: text,
        total_cost_usd: ended.cost_usd(),
        usage: stream_usage(&ended.usage()).of_run(),
        model_usage: models.collect(),
        permission_denials: state.denials.iter().map(denial).collect(),
        failed_agents: failed_agents(ended),
    };
    ResultEvent::new(ids, summary)
}

fn denial(denial: &Denial) -> Value {
    json!({
        "tool_name": denial.tool, "tool_use_id": denial.call, "reason": denial.reason, "allow_rule": denial.allow_rule,
    })
}

/// Returns the agents that failed, with the reasons. The lead is left out, because the result of
/// the run already contains its failure.
fn failed_agents(outcome: &RunOutcome) -> Vec<FailedAgent> {
    let of = |agent: &AgentSummary| {
        let team = (agent.role == Role::Teammate).then_some(outcome.team.as_str());
        FailedAgent::new(agent.name.as_str(), team, agent.reason.as_deref())
    };
    let is_failed =
        |agent: &&AgentSummary| agent.state == Status::Failed && agent.role != Role::Lead;
    outcome.agents.iter().filter(is_failed).map(of).collect()
}

fn model_usage(ModelTotal { usage, cost_usd, context_window, .. }: &ModelTotal) -> Value {
    json!({
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cacheReadInputTokens": usage.cache_read_input_tokens,
        "cacheCreationInputTokens": usage.cache_creation_input_tokens,
        "webSearchRequests": 0,
        "costUSD": cost_usd,
        "contextWindow": context_window,
        "maxOutputTokens": MAX_OUTPUT_TOKENS,
    })
}

/// Converts token counts to the form of the stream.
pub(crate) fn stream_usage(usage: &Usage) -> StreamUsage {
    StreamUsage::new(
        usage.input_tokens,
        usage.cache_creation_input_tokens,
        usage.cache_read_input_tokens,
        usage.output_tokens,
    )
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
