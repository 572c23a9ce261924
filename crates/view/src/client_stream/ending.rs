//! The last line of a client's run.

use std::borrow::Cow;

use pitcrew_protocol::{AgentName, Status};
use pitcrew_runtime::events::RunEvent;

use super::fact::{StreamFact, tell};
use super::line::{CallTokens, Line};
use super::session::{Session, lead, set_status};
use crate::fold::fold_run;
use crate::state::{AgentState, Happened, ModelUse, SessionSummary, TeamState, bounded};

/// Maximum number of models in a summary.
pub(super) const MODELS_MOST: usize = 100;

/// Maximum number of refused calls that are kept of one run.
pub(super) const DENIALS_MOST: usize = 1_000;

/// The reason of a refusal. The stream has none.
const REFUSED: &str = "the client refused the call";

impl Session {
    pub(super) fn ended(&mut self, state: &mut TeamState, line: &Line<'_>) {
        let lead = lead(state);
        let mut summary = summary(line);
        if let Some(earlier) = &state.session {
            add_earlier(&mut summary, earlier);
        }
        let status = if summary.is_error { Status::Failed } else { Status::Completed };
        let room = DENIALS_MOST.saturating_sub(state.denials.len());
        for denied in line.permission_denials.iter().take(room) {
            let (agent, call) = (lead.clone(), denied.tool_use_id.id().unwrap_or_default());
            // Each result of a session has all refusals of the session again.
            if state.denials.iter().any(|known| known.call == call) {
                continue;
            }
            let call = call.into_owned();
            let tool = denied.tool_name.id().map(Cow::into_owned).unwrap_or_default();
            let asked =
                RunEvent::PermissionAsked { agent: agent.clone(), call: call.clone(), tool };
            fold_run(state, &asked);
            let refused = Some(REFUSED.to_owned());
            let answered = RunEvent::PermissionAnswered { agent, call, refused, would_allow: None };
            fold_run(state, &answered);
        }
        set_status(state, &lead, status);
        none_works(state);
        let ended = format!("the session ended: {}", summary.outcome);
        self.converse(|conversations| conversations.happened(&lead, ended));
        self.note(state, Happened::SessionEnded { outcome: summary.outcome.clone() });
        tell(state, StreamFact::Session(summary));
    }
}

/// Notes that no agent works after the end of a session. The stream does not tell how the agents
/// ended, except with pitcrew's own events.
fn none_works(state: &mut TeamState) {
    let is_at_work = |agent: &&AgentState| matches!(agent.status, Status::Active | Status::Pending);
    let at_work: Vec<AgentName> =
        state.agents.iter().filter(is_at_work).map(|agent| agent.name.clone()).collect();
    for agent in &at_work {
        set_status(state, agent, Status::Idle);
    }
}

/// Adds what the earlier results of the session told. A client whose lead takes mail after its result
/// has further results. Cost, model time and models are those of the whole session in each of them, and
/// the rest is that of the latest part.
fn add_earlier(summary: &mut SessionSummary, earlier: &SessionSummary) {
    let sum = |now: Option<u64>, before: Option<u64>| match (now, before) {
        (Some(now), Some(before)) => Some(now.saturating_add(before)),
        (now, before) => now.or(before),
    };
    summary.duration_ms = sum(summary.duration_ms, earlier.duration_ms);
    summary.turns = sum(summary.turns, earlier.turns);
    summary.usage = [summary.usage, earlier.usage].into_iter().sum();
}

fn summary(line: &Line<'_>) -> SessionSummary {
    let models = line.model_usage.0.iter().map(|(model, tokens)| ModelUse {
        model: bounded(model.into()),
        usage: tokens.usage(),
        cost_usd: tokens.cost_usd.dollars(),
        web_searches: tokens.web_search_requests.count().unwrap_or_default(),
    });
    SessionSummary {
        outcome: bounded(line.subtype.text().unwrap_or_default()),
        is_error: line.is_error.flag() == Some(true),
        result: bounded(line.result.text().unwrap_or_default()),
        duration_ms: line.duration_ms.count(),
        duration_api_ms: line.duration_api_ms.count(),
        turns: line.num_turns.count(),
        cost_usd: line.total_cost_usd.dollars(),
        usage: line.usage.as_ref().map(CallTokens::usage).unwrap_or_default(),
        models: models.collect(),
    }
}
