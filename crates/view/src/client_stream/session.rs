//! Turns the lines of a client's stream into events, and folds them into the state of the team.
//!
//! Source: `fixtures/claude-2.1.39/stream-json/*.ndjson` and the stream document.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use pitcrew_model::Usage;
use pitcrew_protocol::{AgentName, PermissionMode, Status, TeamEvent, parse_injected};
use pitcrew_runtime::events::{AgentStarted, RunEvent, RunStarted, Spending, ToolEnded};
use serde_json::{Value, json};

use super::calls::{Ask, Call, Calls, telling};
use super::fact::StreamFact;
use super::line::{Block, CallTokens, Line, Message, ResultData};
use super::raw::{Content, Raw};
use crate::fold::{ViewEvent, fold};
use crate::state::{Happened, TeamState, TimelineEntry, bounded};

/// Maximum number of agents in the state. Later agents are only in the timeline.
pub(super) const AGENTS_MOST: usize = 1_000;

/// A client's session, as far as it was read.
#[derive(Debug)]
pub(super) struct Session {
    /// The number of the current line, from 1 up.
    pub(super) line: u64,
    id: Option<String>,
    pub(super) cwd: PathBuf,
    pub(super) mode: PermissionMode,
    /// Whether the stream has pitcrew's own events. They count tokens and start agents.
    pub(super) has_team_events: bool,
    pub(super) calls: Calls,
    /// The subagents at work, by the ids of the calls that started them.
    pub(super) subagents: HashMap<String, AgentName>,
    /// The latest turn of each agent. A turn with several blocks has several lines.
    turns: HashMap<AgentName, Turn>,
}

/// A turn of an agent: the id of the model's message, and the tokens that were counted.
#[derive(Debug)]
struct Turn {
    message: String,
    counted: Usage,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            line: 0,
            id: None,
            cwd: PathBuf::new(),
            mode: PermissionMode::Default,
            has_team_events: false,
            calls: Calls::default(),
            subagents: HashMap::new(),
            turns: HashMap::new(),
        }
    }
}

pub(super) fn run(state: &mut TeamState, event: &RunEvent) {
    *state = fold(std::mem::take(state), &ViewEvent::Run(event));
}

pub(super) fn tell(state: &mut TeamState, fact: &StreamFact) {
    *state = fold(std::mem::take(state), &ViewEvent::Stream(fact));
}

pub(super) fn set_status(state: &mut TeamState, agent: &AgentName, status: Status) {
    run(state, &RunEvent::AgentChanged { agent: agent.clone(), status, detail: None });
}

impl Session {
    /// Folds a line into the state of the team. Returns false if the line is not known.
    pub(super) fn read(&mut self, state: &mut TeamState, line: &Line<'_>) -> bool {
        if line.kind.is("assistant") {
            let Some(message) = &line.message.0 else { return false };
            self.answered(state, line, message);
        } else if line.kind.is("user") {
            let Some(message) = &line.message.0 else { return false };
            self.told(state, line, message);
        } else if line.kind.is("result") {
            self.ended(state, line);
        } else if line.kind.is("system") && line.subtype.is("init") {
            self.started(state, line);
        } else if line.kind.is("system") && line.subtype.is(TeamEvent::SUBTYPE) {
            self.team_event(state, line);
        } else {
            return false;
        }
        true
    }

    /// Adds an entry to the timeline.
    pub(super) fn note(&self, state: &mut TeamState, what: Happened) {
        let entry = TimelineEntry { line: self.line, what };
        tell(state, &StreamFact::Happened(entry));
    }

    fn started(&mut self, state: &mut TeamState, line: &Line<'_>) {
        let id = line.session_id.text().unwrap_or_default().into_owned();
        // Each input to a session begins with such a line.
        if self.id.as_ref() == Some(&id) {
            return;
        }
        self.id = Some(id.clone());
        self.cwd = PathBuf::from(line.cwd.text().unwrap_or_default().into_owned());
        let mode = line.permission_mode.text();
        self.mode = mode.and_then(|mode| PermissionMode::named(&mode)).unwrap_or_default();
        let started = RunStarted {
            agent: state.lead.clone().unwrap_or_else(AgentName::lead),
            team: state.team.clone(),
            team_file: PathBuf::new(),
            session_id: id,
            cwd: self.cwd.clone(),
            model: line.model.text().unwrap_or_default().into_owned(),
            mode: self.mode,
            tools: Vec::new(),
            agents: Vec::new(),
            resumed: false,
        };
        run(state, &RunEvent::Started(started));
    }

    fn answered(&mut self, state: &mut TeamState, line: &Line<'_>, message: &Message<'_>) {
        let agent = self.agent(state, line, message.model);
        if state.agent(&agent).is_some_and(|known| known.status != Status::Active) {
            set_status(state, &agent, Status::Active);
        }
        let calls = match &message.content {
            Content::Text(_) => 0,
            Content::Blocks(blocks) => blocks.iter().filter(|it| it.kind.is("tool_use")).count(),
        };
        self.spend(state, &agent, message, u32::try_from(calls).unwrap_or(u32::MAX));
        match &message.content {
            Content::Text(text) => self.said(state, &agent, text.clone()),
            Content::Blocks(blocks) => {
                for block in blocks {
                    if block.kind.is("tool_use") {
                        self.called(state, &agent, block);
                    } else if block.kind.is("text") {
                        self.said(state, &agent, block.text.text().unwrap_or_default());
                    }
                }
            }
        }
    }

    /// Returns the agent whose line this is. A new subagent is added to the state.
    fn agent(&mut self, state: &mut TeamState, line: &Line<'_>, model: Raw<'_>) -> AgentName {
        let Some(call) = line.parent_tool_use_id.id() else { return lead(state) };
        if let Some(name) = self.subagents.get(call.as_ref()) {
            return name.clone();
        }
        let (agent_type, asked_model) = match self.calls.get(&call).map(|call| &call.ask) {
            Some(Ask::Spawn { agent_type, model, .. }) => (agent_type.clone(), model.clone()),
            Some(_) | None => (None, None),
        };
        let first = AgentName::new(agent_type.as_deref().unwrap_or("subagent"))
            .unwrap_or_else(|_| AgentName::foreign("subagent"));
        // Beyond the limit, all subagents of a type are counted as one.
        if self.subagents.len() >= AGENTS_MOST || state.agents.len() >= AGENTS_MOST {
            return first;
        }
        let name = first.deduplicated(|name| state.agent(name).is_some());
        self.subagents.insert(call.as_ref().to_owned(), name.clone());
        let started = AgentStarted {
            agent: name.clone(),
            parent_call: Some(call.into_owned()),
            agent_type,
            model: model.id().map(Cow::into_owned).or(asked_model).unwrap_or_default(),
            color: None,
            cwd: self.cwd.clone(),
            mode: self.mode,
        };
        run(state, &RunEvent::AgentStarted(started));
        name
    }

    /// Counts the tokens and the calls of a turn.
    fn spend(
        &mut self,
        state: &mut TeamState,
        agent: &AgentName,
        message: &Message<'_>,
        tool_calls: u32,
    ) {
        if self.has_team_events {
            let (agent, usage) = (agent.clone(), Usage::default());
            return tell(state, &StreamFact::TurnWentOn { agent, usage, tool_calls });
        }
        let usage = message.usage.object::<CallTokens<'_>>().map(|tokens| tokens.usage());
        let usage = usage.unwrap_or_default();
        let id = message.id.id();
        let turn =
            self.turns.get_mut(agent).filter(|turn| id.as_deref() == Some(turn.message.as_str()));
        if let Some(turn) = turn {
            let more = beyond(usage, turn.counted);
            turn.counted += more;
            let fact = StreamFact::TurnWentOn { agent: agent.clone(), usage: more, tool_calls };
            return tell(state, &fact);
        }
        let message_id = id.unwrap_or_default().into_owned();
        if self.turns.len() < AGENTS_MOST || self.turns.contains_key(agent) {
            self.turns.insert(agent.clone(), Turn { message: message_id, counted: usage });
        }
        let spending = Spending {
            model: message.model.id().unwrap_or_default().into_owned(),
            usage,
            cost_usd: None,
            tool_calls,
            took: Duration::ZERO,
        };
        run(state, &RunEvent::TurnEnded { agent: agent.clone(), spending });
    }

    fn said(&self, state: &mut TeamState, agent: &AgentName, text: Cow<'_, str>) {
        if !text.trim().is_empty() {
            self.note(state, Happened::Said { agent: agent.clone(), text: bounded(text) });
        }
    }

    fn called(&mut self, state: &mut TeamState, agent: &AgentName, block: &Block<'_>) {
        let (Some(id), Some(tool)) = (block.id.id(), block.name.id()) else { return };
        let ask = Ask::of(&tool, block.input);
        let tool = tool.into_owned();
        self.calls.put(&id, Call { agent: agent.clone(), tool: tool.clone(), ask });
        let event = RunEvent::ToolStarted {
            agent: agent.clone(),
            call: id.into_owned(),
            tool,
            input: telling(block.input),
        };
        run(state, &event);
    }

    fn told(&mut self, state: &mut TeamState, line: &Line<'_>, message: &Message<'_>) {
        let blocks = match &message.content {
            Content::Text(text) => return self.heard(state, line, text),
            Content::Blocks(blocks) => blocks,
        };
        let is_result = |block: &&Block<'_>| block.kind.is("tool_result");
        // The data in the line belong to one result only.
        let data = match blocks.iter().filter(is_result).count() {
            1 => line.tool_use_result,
            _ => Raw::default(),
        };
        for block in blocks {
            if block.kind.is("tool_result") {
                self.call_ended(state, line, block, data);
            } else if block.kind.is("text") {
                self.heard(state, line, &block.text.text().unwrap_or_default());
            }
        }
    }

    /// Reads the mail in a text that was put into the lead's conversation.
    fn heard(&mut self, state: &mut TeamState, line: &Line<'_>, text: &str) {
        if line.parent_tool_use_id.is_some() || !text.contains("<teammate") {
            return;
        }
        for mail in parse_injected(text) {
            self.received(state, mail);
        }
    }

    fn call_ended(
        &mut self,
        state: &mut TeamState,
        line: &Line<'_>,
        block: &Block<'_>,
        data: Raw<'_>,
    ) {
        let id = block.tool_use_id.id().unwrap_or_default();
        let call = self.calls.take(&id);
        let agent = match &call {
            Some(call) => call.agent.clone(),
            None => self.agent(state, line, Raw::default()),
        };
        let is_error = block.is_error.flag() == Some(true);
        let is_of_team = !matches!(&call, Some(Call { ask: Ask::Other, .. }));
        let data: ResultData<'_> =
            if is_of_team { data.object().unwrap_or_default() } else { ResultData::default() };
        let reason = if is_error { block.content.text() } else { None };
        let reason = bounded(reason.unwrap_or_default());
        let ended = ToolEnded {
            agent: agent.clone(),
            parent_call: line.parent_tool_use_id.text().map(Cow::into_owned),
            call: id.as_ref().to_owned(),
            tool: call.as_ref().map(|call| call.tool.clone()).unwrap_or_default(),
            text: reason.clone(),
            data: status_change(&data),
            is_error,
        };
        run(state, &RunEvent::ToolEnded(ended));
        if let Some(subagent) = self.subagents.remove(id.as_ref()) {
            let status = if is_error { Status::Failed } else { Status::Completed };
            set_status(state, &subagent, status);
        }
        if is_error {
            self.call_failed(state, call.as_ref(), reason);
        } else if is_of_team {
            self.team_result(state, &agent, call.map(|call| call.ask), &data);
        }
    }
}

/// Returns the name of the lead. If no lead is known, the agent whose lines these are becomes it.
pub(super) fn lead(state: &mut TeamState) -> AgentName {
    if let Some(lead) = &state.lead {
        return lead.clone();
    }
    tell(state, &StreamFact::Lead(AgentName::lead()));
    AgentName::lead()
}

/// Returns the tokens of `usage` that are more than `counted`.
fn beyond(usage: Usage, counted: Usage) -> Usage {
    Usage {
        input_tokens: usage.input_tokens.saturating_sub(counted.input_tokens),
        output_tokens: usage.output_tokens.saturating_sub(counted.output_tokens),
        cache_creation_input_tokens: usage
            .cache_creation_input_tokens
            .saturating_sub(counted.cache_creation_input_tokens),
        cache_read_input_tokens: usage
            .cache_read_input_tokens
            .saturating_sub(counted.cache_read_input_tokens),
    }
}

/// Returns the part of a result that the fold of a run reads.
fn status_change(data: &ResultData<'_>) -> Value {
    match data.status_change.0.as_ref().and_then(|change| change.to.text()) {
        Some(to) => json!({"statusChange": {"to": to}}),
        None => Value::Null,
    }
}
