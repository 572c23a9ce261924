//! The short texts around the conversation.

use jiff::Timestamp;
use pitcrew_protocol::{AgentName, LEAD_NAME, Status};
use pitcrew_runtime::run::{RunEnd, RunOutcome};
use pitcrew_view::TeamState;
use pitcrew_view::client::TeamEnding;
use pitcrew_view::outcome::result_text;
use pitcrew_view::text::{first_line, in_one_line};
use pitcrew_view::wording::{in_dollars, short};

/// The maximum number of characters of the reason why a run ended.
const REASON_CHARS: usize = 100;

/// The maximum number of agents that are named as those that the end of a team waits for.
const NAMED_MOST: usize = 3;

/// Counts the agents by what they do. Agents that have ended well are left out, and those that ask
/// the user something: they do not go on before the answer.
pub(crate) fn counts(state: &TeamState, asks: impl Fn(&AgentName) -> bool) -> String {
    let going_on = || state.agents.iter().filter(|agent| !asks(&agent.name));
    let count = |status: Status| going_on().filter(|agent| agent.status == status).count();
    let mut all = Status::ALL;
    all.sort_by_key(|status| *status != Status::Active);
    let parts = all.into_iter().filter_map(|status| {
        let name = in_header(status)?;
        let count = count(status);
        (count > 0).then(|| format!("{count} {name}"))
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// Returns the word for the agents with this status. Returns `None` for those that have ended well.
fn in_header(status: Status) -> Option<&'static str> {
    match status {
        Status::Pending => Some("starting"),
        Status::Active => Some("working"),
        Status::Idle => Some("idle"),
        Status::AwaitingPlanApproval => Some("with a plan to answer"),
        Status::Parked => Some("parked"),
        Status::ShutdownRequested => Some("asked to leave"),
        Status::Failed => Some("failed"),
        Status::Completed | Status::Killed => None,
    }
}

/// Describes the end of a team that the user asked for: which agents it waits for, and until when.
pub(super) fn ending(state: &TeamState, ending: TeamEnding) -> String {
    let by = ending.ended_by_ms.and_then(|by_ms| Timestamp::from_millisecond(by_ms).ok());
    let until = by.map(|by| by.strftime(" until %H:%M:%S UTC").to_string()).unwrap_or_default();
    let names = waits_for(state);
    in_one_line(&format!("the team ends; waits for {names}{until}; /stop forces; Ctrl-C leaves"))
}

/// Describes the end of a run that the user stopped.
pub(super) fn stopping(state: &TeamState) -> String {
    let names = waits_for(state);
    in_one_line(&format!("the run is being stopped; waits for {names}; Ctrl-C leaves"))
}

/// Names the agents for which the end of a run waits.
fn waits_for(state: &TeamState) -> String {
    let left = state.teammates_left();
    let named: Vec<&str> = left.iter().take(NAMED_MOST).map(|name| name.as_str()).collect();
    let more = left.len().saturating_sub(NAMED_MOST);
    match (named.is_empty(), more) {
        (true, _) => LEAD_NAME.to_owned(),
        (false, 0) => named.join(", "),
        (false, more) => format!("{} and {more} more", named.join(", ")),
    }
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
