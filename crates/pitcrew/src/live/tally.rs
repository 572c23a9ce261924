//! What a run's last event sums up: turns, time, tokens and cost by model, and what was denied. Pure but for the clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use pitcrew_model::Usage;
use pitcrew_protocol::{
    CallEffect, EventIds, FailedAgent, ResultEvent, RunSummary, Status, StreamUsage, ToolTraits,
};
use pitcrew_runtime::agent::Role;
use pitcrew_runtime::events::{RemoteActivity, RunEvent, ToolEnded};
use pitcrew_runtime::run::{AgentSummary, MAX_OUTPUT_TOKENS, ModelTotal, RunEnd, RunOutcome};
use serde::Serialize;
use serde_json::{Value, json};

use crate::report;

/// The sums of a run so far.
#[derive(Debug)]
pub(crate) struct Tally {
    started: Instant,
    session_id: String,
    asked: BTreeMap<String, String>,
    denied: Vec<Value>,
    would_allow: BTreeSet<String>,
    sums: Sums,
}

/// What happened how often.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Sums {
    /// How long the run took.
    pub(crate) duration_ms: u64,
    /// Tasks that were made.
    pub(crate) tasks_made: u64,
    /// Tasks that were completed.
    pub(crate) tasks_completed: u64,
    /// Messages that entered conversations.
    pub(crate) messages: u64,
    /// Plans that were handed in.
    pub(crate) plans: u64,
    /// Permissions that were asked for.
    pub(crate) permissions_asked: u64,
    /// Permissions that were refused.
    pub(crate) permissions_refused: u64,
}

impl Tally {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            session_id: String::new(),
            asked: BTreeMap::new(),
            denied: Vec::new(),
            would_allow: BTreeSet::new(),
            sums: Sums::default(),
        }
    }

    /// The rules that would have allowed what was refused for want of somebody to ask.
    pub(crate) fn would_allow(&self) -> impl Iterator<Item = &str> {
        self.would_allow.iter().map(String::as_str)
    }

    /// Takes an event in.
    pub(crate) fn add(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Started(started) => {
                self.session_id.clone_from(&started.session_id);
            }
            RunEvent::PermissionAsked { call, tool, .. } => {
                self.sums.permissions_asked += 1;
                self.asked.insert(call.clone(), tool.clone());
            }
            RunEvent::PermissionAnswered { call, refused, would_allow, .. } => {
                self.would_allow.extend(would_allow.clone());
                if let (Some(reason), Some(tool)) = (refused, self.asked.remove(call)) {
                    self.sums.permissions_refused += 1;
                    self.denied.push(json!({
                        "tool_name": tool, "tool_use_id": call, "reason": reason, "allow_rule": would_allow,
                    }));
                }
            }
            RunEvent::MailDelivered { ids, .. } => self.sums.messages += ids.len() as u64,
            RunEvent::ToolEnded(ended) if !ended.is_error => self.count(ended),
            RunEvent::DoneElsewhere { activity, .. } => self.count_elsewhere(activity),
            RunEvent::ToolEnded(_)
            | RunEvent::Answered(_)
            | RunEvent::Compacted(_)
            | RunEvent::AgentStarted(_)
            | RunEvent::AgentLaunched { .. }
            | RunEvent::AgentChanged { .. }
            | RunEvent::TextDelta { .. }
            | RunEvent::ModelWaits { .. }
            | RunEvent::ModelSilent { .. }
            | RunEvent::ToolStarted { .. }
            | RunEvent::AllowedAlways { .. }
            | RunEvent::ModeChanged { .. }
            | RunEvent::ModeRecorded { .. }
            | RunEvent::ShuttingDown { .. }
            | RunEvent::Warning { .. } => {}
        }
    }

    fn count(&mut self, ended: &ToolEnded) {
        match ToolTraits::of(&ended.tool).effect {
            CallEffect::CreatesTask => self.sums.tasks_made += 1,
            CallEffect::ChangesTask
                if ended.data.pointer("/statusChange/to") == Some(&json!("completed")) =>
            {
                self.sums.tasks_completed += 1;
            }
            CallEffect::SubmitsPlan => self.sums.plans += 1,
            CallEffect::None
            | CallEffect::WritesFile
            | CallEffect::EditsFile
            | CallEffect::SendsMessage
            | CallEffect::StartsAgent
            | CallEffect::ChangesTask
            | CallEffect::ChecksTasks
            | CallEffect::EndsTeam => {}
        }
    }

    fn count_elsewhere(&mut self, activity: &RemoteActivity) {
        match activity {
            RemoteActivity::TurnEnded(_) => {}
            RemoteActivity::TaskChanged { change, .. } => match change.as_str() {
                "created" => self.sums.tasks_made += 1,
                "completed" => self.sums.tasks_completed += 1,
                _ => {}
            },
            RemoteActivity::PlanHandedIn => self.sums.plans += 1,
        }
    }

    /// What happened how often so far.
    pub(crate) fn sums(&self) -> Sums {
        Sums { duration_ms: millis(self.started.elapsed()), ..self.sums.clone() }
    }

    /// The last event of the run.
    pub(crate) fn result(&self, outcome: &RunOutcome) -> ResultEvent {
        let (end, text) = (report::end_name(&outcome.end), report::result_text(&outcome.end));
        let subtype = match &outcome.end {
            RunEnd::Success { .. } => "success".to_owned(),
            RunEnd::Failed { .. } | RunEnd::Broken { .. } => "error_during_execution".to_owned(),
            RunEnd::Unfinished { .. }
            | RunEnd::Parked { .. }
            | RunEnd::Interrupted
            | RunEnd::ShutDown
            | RunEnd::LimitReached { .. } => format!("error_{end}"),
        };
        let is_error = !matches!(outcome.end, RunEnd::Success { .. });
        let totals = &outcome.totals;
        let ids = EventIds {
            session_id: self.session_id.clone(),
            uuid: uuid::Uuid::new_v4().to_string(),
            parent_tool_use_id: None,
        };
        let summary = RunSummary {
            subtype,
            is_error,
            duration_ms: millis(totals.ran),
            duration_api_ms: millis(totals.model_time),
            num_turns: outcome.agents.first().map_or(0, |agent| agent.turns.into()),
            result: text,
            total_cost_usd: outcome.cost_usd(),
            usage: stream_usage(&outcome.usage()).of_run(),
            model_usage: totals
                .models
                .iter()
                .map(|(model, total)| (model.clone(), model_usage(total)))
                .collect(),
            permission_denials: self.denied.clone(),
            failed_agents: failed_agents(outcome),
        };
        ResultEvent::new(ids, summary)
    }
}

/// The agents that failed, with the reasons. The lead's own is the result.
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

/// Tokens as the stream writes them.
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
