//! pitcrew's own events in the stream of a run of pitcrew. They tell what the rest of the stream
//! does not contain: the turns of the teammates, costs, permissions and modes.
//!
//! The module [`stream`](crate::stream) writes these events.

use std::borrow::Cow;
use std::time::Duration;

use pitcrew_model::Usage;
use pitcrew_protocol::{AgentName, PermissionMode, Status, TaskId};
use pitcrew_runtime::events::{AgentStarted, RunEvent, Spending, ToolEnded};
use serde_json::Value;

use super::calls::{Ask, Call};
use super::ending::DENIALS_MOST;
use super::fact::{StreamFact, tell};
use super::input::CallInput;
use super::json::fields;
use super::line::{CallTokens, Line};
use super::raw::Raw;
use super::results::name_of;
use super::session::{AGENTS_MOST, Session};
use super::tasks::task_event;
use crate::fold::fold_run;
use crate::state::{TeamState, bounded};
use crate::wording::brief_with;

fields! {
    /// The data of an event. Each event has some of the fields.
    struct Data<'a> {
        agent_type: Raw<'a> = "agent_type",
        model: Raw<'a> = "model",
        color: Raw<'a> = "color",
        cwd: Raw<'a> = "cwd",
        mode: Raw<'a> = "mode",
        parent_tool_use_id: Raw<'a> = "parent_tool_use_id",
        usage: Option<CallTokens<'a>> = "usage",
        cost_usd: Raw<'a> = "cost_usd",
        status: Raw<'a> = "status",
        detail: Raw<'a> = "detail",
        reason: Raw<'a> = "reason",
        delay_ms: Raw<'a> = "delay_ms",
        tool_use_id: Raw<'a> = "tool_use_id",
        tool_name: Raw<'a> = "tool_name",
        tool_input: CallInput<'a> = "tool_input",
        is_error: Raw<'a> = "is_error",
        from: Raw<'a> = "from",
        ids: Raw<'a> = "ids",
        allowed: Raw<'a> = "allowed",
        allow_rule: Raw<'a> = "allow_rule",
        task: Raw<'a> = "task",
        change: Raw<'a> = "change",
    }
}

impl Session {
    /// Folds an event of pitcrew into the state of the team.
    pub(super) fn team_event(&mut self, state: &mut TeamState, line: &Line<'_>) {
        self.has_team_events = true;
        let team = line.team_name.text().unwrap_or_default();
        // The lead goes on after it has deleted its team. Only a call makes a team of that name again.
        if state.team != team {
            self.in_team(state, &team);
        }
        let Some(agent) = line.teammate_id.text().as_deref().and_then(name_of) else { return };
        let data: Data<'_> = line.data.object().unwrap_or_default();
        let event = line.event.text().unwrap_or_default();
        if event == "agent_started" {
            return self.agent_started(state, agent, &data);
        }
        // The tool calls of these agents are in the stream.
        let is_shown =
            state.lead.as_ref() == Some(&agent) || self.subagents.values().any(|it| *it == agent);
        if !is_shown && event == "tool_started" {
            tell(state, StreamFact::TurnWentOn(&agent, Usage::default(), 1));
        }
        let is_of_call = matches!(event.as_ref(), "tool_started" | "tool_ended");
        // The state keeps every question, every refusal and every rule.
        let is_full = match event.as_ref() {
            "permission_asked" => state.asked.len() >= DENIALS_MOST,
            "permission_answered" => {
                state.denials.len().max(state.would_allow.len()) >= DENIALS_MOST
            }
            _ => false,
        };
        if is_full || (is_shown && is_of_call) {
            return;
        }
        if event == "tool_started" {
            let tool = data.tool_name.id().unwrap_or_default();
            let telling = data.tool_input.input.telling();
            self.converse(|conversations| {
                let (id, json) = (data.tool_use_id, data.tool_input.json);
                conversations.called(&agent, id, data.tool_name, json);
            });
            let doing = brief_with(&tool, telling.as_deref());
            tell(state, StreamFact::CallStarted(&agent, doing));
            if let Some(id) = data.tool_use_id.id() {
                self.call_began(id.into_owned(), &agent, &tool, &data.tool_input.input);
            }
            return;
        }
        if event == "tool_ended" {
            // These events do not have the text of the result.
            let (call, is_error) = (data.tool_use_id, data.is_error.flag() == Some(true));
            let text = if is_error { "the call failed" } else { "the call has ended" };
            self.converse(|conversations| {
                conversations.call_ended(&agent, call, text.to_owned(), is_error);
            });
            let id = call.id().unwrap_or_default();
            if let Some(Call { ask: Ask::ChangeTask(input), .. }) =
                self.calls.take(&id).filter(|_| !is_error)
            {
                self.own_task_changed(state, &agent, input);
            }
        }
        if let Some(event) = event_of(&event, agent, &data) {
            if let RunEvent::TaskChanged { agent, task, change } = &event {
                task_event(state, agent, task, change);
            }
            fold_run(state, &event);
        }
    }

    fn agent_started(&mut self, state: &mut TeamState, agent: AgentName, data: &Data<'_>) {
        if state.agents.len() >= AGENTS_MOST && state.agent(&agent).is_none() {
            return;
        }
        let parent_call = data.parent_tool_use_id.id().map(Cow::into_owned);
        if let Some(call) = parent_call.as_ref().filter(|call| self.calls.get(call).is_some()) {
            self.subagents.insert(call.clone(), agent.clone());
        }
        let mode = data.mode.text().as_deref().and_then(PermissionMode::named);
        let started = AgentStarted {
            agent,
            parent_call,
            agent_type: data.agent_type.id().map(Cow::into_owned),
            model: owned(data.model),
            color: data.color.text().map(Cow::into_owned),
            cwd: owned(data.cwd).into(),
            mode: mode.unwrap_or(self.mode),
        };
        fold_run(state, &RunEvent::AgentStarted(started));
    }
}

/// Returns the event of the run that was written as this event. Returns `None` for events that do
/// not change the state of a team.
fn event_of(event: &str, agent: AgentName, data: &Data<'_>) -> Option<RunEvent> {
    let call = || data.tool_use_id.id().unwrap_or_default().into_owned();
    let tool = || data.tool_name.id().unwrap_or_default().into_owned();
    let event = match event {
        "turn_ended" | "compacted" => {
            let usage = data.usage.as_ref().map(CallTokens::usage).unwrap_or_default();
            let (cost_usd, took) = (data.cost_usd.dollars(), Duration::ZERO);
            let spending =
                Spending { model: owned(data.model), usage, cost_usd, tool_calls: 0, took };
            RunEvent::TurnEnded { agent, spending }
        }
        "agent_changed" => {
            let status = Status::named(&data.status.text()?)?;
            let detail = data.detail.text().map(bounded);
            RunEvent::AgentChanged { agent, status, detail }
        }
        "model_waits" => {
            let delay = Duration::from_millis(data.delay_ms.count().unwrap_or_default());
            RunEvent::ModelWaits { agent, reason: owned(data.reason), delay }
        }
        "tool_ended" => RunEvent::ToolEnded(ToolEnded {
            agent,
            parent_call: None,
            call: call(),
            tool: tool(),
            text: String::new(),
            data: Value::Null,
            is_error: data.is_error.flag() == Some(true),
        }),
        "task_changed" => {
            let task = TaskId::parse(&data.task.text()?)?;
            RunEvent::TaskChanged { agent, task, change: owned(data.change).into() }
        }
        "plan_handed_in" => RunEvent::PlanHandedIn { agent },
        "message_injected" => {
            let (from, ids) = (data.from.read()?, data.ids.read()?);
            RunEvent::MailDelivered { agent, from, ids }
        }
        "permission_asked" => RunEvent::PermissionAsked { agent, call: call(), tool: tool() },
        "permission_answered" => RunEvent::PermissionAnswered {
            agent,
            call: call(),
            refused: data.reason.text().map(bounded).filter(|_| data.allowed.flag() != Some(true)),
            would_allow: data.allow_rule.text().map(bounded),
        },
        "mode_changed" => {
            RunEvent::ModeChanged { agent, mode: PermissionMode::named(&data.mode.text()?)? }
        }
        "model_changed" => RunEvent::ModelChanged { agent, model: bounded(data.model.text()?) },
        _ => return None,
    };
    Some(event)
}

fn owned(raw: Raw<'_>) -> String {
    bounded(raw.text().unwrap_or_default())
}
