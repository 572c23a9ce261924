//! Writes a run as stream-json: the events of the run's main agent in Claude Code's format. On
//! request, it also writes pitcrew's own events about the whole team.
//!
//! Source of the format: `fixtures/claude-2.1.39/stream-json`. As in Claude Code, the stream does
//! not contain the turns of teammates.

use std::collections::HashSet;

use pitcrew_model::Block;
use pitcrew_protocol::{
    AgentName, AssistantEvent, Block as StreamBlock, Content, EventIds, ResultForm, StreamEvent,
    SystemInit, TeamEvent, ToolTraits, UserEvent,
};
use pitcrew_runtime::events::{AgentStarted, Answered, Compacted, RunEvent, Spending, ToolEnded};
use serde_json::{Map, Value, json};

use crate::result::stream_usage;
use crate::state::TeamState;

/// Converts the events of a run to stream-json: one JSON object per line.
#[derive(Debug)]
pub struct Stream {
    team_events: bool,
    /// The function that creates the id of a new event.
    new_id: fn() -> String,
    /// The ids of the tool calls in the stream. Each subagent was started by a tool call. If the id
    /// of that call is not in this set, the subagent works for a teammate.
    calls: HashSet<String>,
}

impl Stream {
    /// Creates a stream. If `team_events` is true, the stream also contains pitcrew's own events
    /// about the team. `new_id` creates the ids of the events.
    #[must_use]
    pub fn new(team_events: bool, new_id: fn() -> String) -> Self {
        Self { team_events, new_id, calls: HashSet::new() }
    }

    /// Returns the stream events for an event of the run. `state` is the team's state after the
    /// event.
    pub fn lines(&mut self, state: &TeamState, event: &RunEvent) -> Vec<StreamEvent> {
        let mut lines = match event {
            RunEvent::Started(started) => {
                let cwd = started.cwd.display().to_string();
                let mode = started.mode.as_str();
                vec![
                    SystemInit::new(
                        self.ids(state, None),
                        &cwd,
                        started.tools.clone(),
                        &started.model,
                        mode,
                    )
                    .into(),
                ]
            }
            RunEvent::Answered(answered) => self.answered(state, answered),
            RunEvent::ToolEnded(ended) => self.tool_ended(state, ended).into_iter().collect(),
            RunEvent::AgentStarted(_)
            | RunEvent::AgentLaunched { .. }
            | RunEvent::TurnEnded { .. }
            | RunEvent::TaskChanged { .. }
            | RunEvent::PlanHandedIn { .. }
            | RunEvent::AgentChanged { .. }
            | RunEvent::TextDelta { .. }
            | RunEvent::ModelWaits { .. }
            | RunEvent::ModelSilent { .. }
            | RunEvent::Compacted(_)
            | RunEvent::ToolStarted { .. }
            | RunEvent::MailDelivered { .. }
            | RunEvent::PermissionAsked { .. }
            | RunEvent::PermissionAnswered { .. }
            | RunEvent::AllowedAlways { .. }
            | RunEvent::ModeChanged { .. }
            | RunEvent::ModelChanged { .. }
            | RunEvent::ModeRecorded { .. }
            | RunEvent::ShuttingDown { .. }
            | RunEvent::Warning { .. } => Vec::new(),
        };
        if self.team_events {
            lines.extend(self.team_event(state, event));
        }
        lines
    }

    /// Returns the stream events for an answer of the model. Each block of the answer becomes one
    /// event.
    fn answered(&mut self, state: &TeamState, answered: &Answered) -> Vec<StreamEvent> {
        if !self.is_shown(state, &answered.agent, answered.parent_call.as_deref()) {
            return Vec::new();
        }
        let mut lines = Vec::new();
        for block in &answered.blocks {
            if let Block::ToolUse { id, .. } = block {
                self.calls.insert(id.clone());
            }
            // The block is converted to the stream's type through JSON. If the conversion fails,
            // the block is left out.
            let Some(block) = serde_json::to_value(block)
                .ok()
                .and_then(|b| serde_json::from_value::<StreamBlock>(b).ok())
            else {
                continue;
            };
            let ids = self.ids(state, answered.parent_call.clone());
            let usage = stream_usage(&answered.usage);
            lines.push(
                AssistantEvent::new(ids, &answered.message_id, &answered.model, block, usage)
                    .into(),
            );
        }
        lines
    }

    fn tool_ended(&self, state: &TeamState, ended: &ToolEnded) -> Option<StreamEvent> {
        if !self.is_shown(state, &ended.agent, ended.parent_call.as_deref()) {
            return None;
        }
        let is_blocks = ToolTraits::of(&ended.tool).result == ResultForm::Blocks;
        let content = if is_blocks && !ended.is_error {
            Content::Blocks(vec![StreamBlock::text(ended.text.clone())])
        } else {
            Content::Text(ended.text.clone())
        };
        let data = (!ended.data.is_null()).then(|| ended.data.clone());
        let ids = self.ids(state, ended.parent_call.clone());
        Some(UserEvent::result(ids, &ended.call, content, ended.is_error, data).into())
    }

    /// Whether the turns of an agent are in the stream. The stream contains the turns of the run's
    /// main agent. It also contains the turns of a subagent if the call that started the subagent
    /// is in the stream.
    fn is_shown(&self, state: &TeamState, agent: &AgentName, parent_call: Option<&str>) -> bool {
        match parent_call {
            Some(call) => self.calls.contains(call),
            None => state.lead.as_ref() == Some(agent),
        }
    }

    fn team_event(&self, state: &TeamState, event: &RunEvent) -> Option<StreamEvent> {
        let (name, agent, data) = told(event)?;
        let id = agent.map(|agent| format!("{agent}@{}", state.team));
        let data: Map<String, Value> = data.as_object().cloned().unwrap_or_default();
        Some(TeamEvent::new(self.ids(state, None), name, &state.team, id.as_deref(), data).into())
    }

    fn ids(&self, state: &TeamState, parent_tool_use_id: Option<String>) -> EventIds {
        EventIds { session_id: state.session_id.clone(), uuid: (self.new_id)(), parent_tool_use_id }
    }
}

/// Returns the content of pitcrew's own event for an event of the run: the name of the event, the
/// agent that the event is about, and the data. Returns `None` if there is no such event.
fn told(event: &RunEvent) -> Option<(&'static str, Option<&AgentName>, Value)> {
    let of = |name, agent, data| Some((name, Some(agent), data));
    match event {
        RunEvent::Started(it) => Some((
            "started",
            None,
            json!({"team_file_path": it.team_file, "resumed": it.resumed, "agents": it.agents}),
        )),
        RunEvent::AgentStarted(it) => of("agent_started", &it.agent, agent_started(it)),
        RunEvent::AgentLaunched { agent, stage } => {
            of("agent_launched", agent, json!({"stage": stage.as_str()}))
        }
        RunEvent::TurnEnded { agent, spending } => of("turn_ended", agent, spent(spending)),
        RunEvent::TaskChanged { agent, task, change } => {
            of("task_changed", agent, json!({"task": task, "change": change}))
        }
        RunEvent::PlanHandedIn { agent } => of("plan_handed_in", agent, json!({})),
        RunEvent::AgentChanged { agent, status, detail } => {
            of("agent_changed", agent, json!({"status": status.as_str(), "detail": detail}))
        }
        RunEvent::ModelWaits { agent, reason, delay } => {
            let delay_ms = delay.as_millis() as u64;
            of("model_waits", agent, json!({"reason": reason, "delay_ms": delay_ms}))
        }
        RunEvent::ModelSilent { agent, silent_for } => {
            of("model_silent", agent, json!({"silent_ms": silent_for.as_millis() as u64}))
        }
        RunEvent::Answered(it) => of("turn_ended", &it.agent, answered(it)),
        RunEvent::Compacted(it) => of("compacted", &it.agent, compacted(it)),
        RunEvent::ToolStarted { agent, call, tool, input } => {
            let data = json!({"tool_use_id": call, "tool_name": tool, "tool_input": input});
            of("tool_started", agent, data)
        }
        RunEvent::ToolEnded(it) => {
            let data =
                json!({"tool_use_id": it.call, "tool_name": it.tool, "is_error": it.is_error});
            of("tool_ended", &it.agent, data)
        }
        RunEvent::MailDelivered { agent, from, ids } => {
            of("message_injected", agent, json!({"from": from, "ids": ids}))
        }
        RunEvent::PermissionAsked { agent, call, tool } => {
            of("permission_asked", agent, json!({"tool_use_id": call, "tool_name": tool}))
        }
        RunEvent::PermissionAnswered { agent, call, refused, would_allow } => {
            let data = json!({"tool_use_id": call, "allowed": refused.is_none(), "reason": refused, "allow_rule": would_allow});
            of("permission_answered", agent, data)
        }
        RunEvent::AllowedAlways { agent, what } => {
            of("allowed_always", agent, json!({"what": what}))
        }
        RunEvent::ModeChanged { agent, mode } => {
            of("mode_changed", agent, json!({"mode": mode.as_str()}))
        }
        RunEvent::ModelChanged { agent, model } => {
            of("model_changed", agent, json!({"model": model}))
        }
        RunEvent::ModeRecorded { agent, mode } => {
            of("mode_recorded", agent, json!({"mode": mode.as_str()}))
        }
        RunEvent::ShuttingDown { reason } => {
            Some(("shutting_down", None, json!({"reason": reason})))
        }
        RunEvent::Warning { text } => Some(("warning", None, json!({"text": text}))),
        RunEvent::TextDelta { .. } => None,
    }
}

fn agent_started(it: &AgentStarted) -> Value {
    json!({
        "agent_type": it.agent_type, "model": it.model, "color": it.color, "cwd": it.cwd, "mode": it.mode.as_str(),
        "parent_tool_use_id": it.parent_call,
    })
}

fn answered(it: &Answered) -> Value {
    json!({"message_id": it.message_id, "model": it.model, "usage": it.usage, "cost_usd": it.cost_usd})
}

fn compacted(it: &Compacted) -> Value {
    json!({
        "model": it.model, "tokens_before": it.tokens_before, "tokens_after": it.tokens_after, "usage": it.usage,
        "cost_usd": it.cost_usd,
    })
}

fn spent(it: &Spending) -> Value {
    json!({"model": it.model, "usage": it.usage, "cost_usd": it.cost_usd})
}
