//! The short texts around the conversation.

use pitcrew_protocol::{AgentName, Status};
use pitcrew_runtime::run::{RunEnd, RunOutcome};
use pitcrew_view::TeamState;
use pitcrew_view::outcome::result_text;
use pitcrew_view::text::{first_line, in_one_line};
use pitcrew_view::wording::{in_dollars, short};

/// The maximum number of characters of the reason why a run ended.
const REASON_CHARS: usize = 100;

/// Counts the agents by what they do: those that work, and those that rest.
pub(crate) fn counts(state: &TeamState) -> String {
    let count =
        |is_it: fn(Status) -> bool| state.agents.iter().filter(|agent| is_it(agent.status)).count();
    let working = count(|status| status == Status::Active);
    let idle = count(|status| status == Status::Idle);
    let parts = [(working, "working"), (idle, "idle")];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    parts.map(|(count, name)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
}

/// Describes an agent: its name, model, mode and tokens.
pub(super) fn about(state: &TeamState, name: &AgentName) -> String {
    let Some(agent) = state.agent(name) else { return name.to_string() };
    let tokens = agent.usage.context_tokens();
    let tokens = (tokens > 0).then(|| format!("{} tokens", short(tokens)));
    let cost = (agent.has_price && agent.cost_usd > 0.0).then(|| in_dollars(agent.cost_usd));
    let name = Some(name.to_string());
    let parts = [name, agent.model.clone(), agent.mode.clone(), tokens, cost];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join("  ");
    in_one_line(&text)
}

/// Describes the tokens and the cost of the team.
pub(super) fn costs(state: &TeamState) -> String {
    let parts: Vec<String> = state
        .agents
        .iter()
        .map(|agent| format!("{} {}", agent.name, short(agent.usage.context_tokens())))
        .collect();
    let cost: f64 = state.agents.iter().map(|agent| agent.cost_usd).sum();
    let is_whole = state.agents.iter().all(|agent| agent.has_price && agent.is_counted);
    let unknown = if is_whole { "" } else { ", without models of unknown price" };
    format!("tokens: {}; cost: {}{unknown}", parts.join(", "), in_dollars(cost))
}

/// Describes how a run ended.
pub(super) fn end_in_words(outcome: &RunOutcome) -> String {
    match &outcome.end {
        RunEnd::Success { .. } => "the run is complete".to_owned(),
        end @ (RunEnd::Failed { .. }
        | RunEnd::Broken { .. }
        | RunEnd::Parked { .. }
        | RunEnd::Unfinished { .. }
        | RunEnd::Interrupted
        | RunEnd::ShutDown
        | RunEnd::LimitReached { .. }) => {
            let reason = first_line(&result_text(end), REASON_CHARS);
            format!("the run ended, {}: {reason}", end.as_str().replace('_', " "))
        }
    }
}
