//! Turns the lines of a client's stream into events, and folds them into the state of the team.
//!
//! Source: `fixtures/claude-2.1.39/stream-json/*.ndjson` and the stream document.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;

use pitcrew_model::Usage;
use pitcrew_protocol::{
    AgentName, CallEffect, PermissionMode, Status, TeamEvent, ToolTraits, parse_injected,
};
use pitcrew_runtime::events::{AgentStarted, RunEvent, RunStarted};
use pitcrew_runtime::run::RunLimits;

use super::calls::{Ask, Call, Calls};
use super::conversations::Conversations;
use super::fact::{StreamFact, tell};
use super::input::Input;
use super::line::{Block, CallTokens, Line, Message, ResultData};
use super::raw::{Content, Raw};
use super::results::name_of;
use crate::fold::fold_run;
use crate::state::{Happened, Mail, Route, TeamState, TimelineEntry, bounded};
use crate::wording::brief_with;

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
    /// The agents in the background, by the ids of their tasks.
    pub(super) background: HashMap<String, AgentName>,
    /// The latest turn of each agent. A turn with several blocks has several lines.
    turns: HashMap<AgentName, Turn>,
    /// The conversations of the agents, if somebody reads them.
    pub(super) conversations: Option<Conversations>,
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
            background: HashMap::new(),
            turns: HashMap::new(),
            conversations: None,
        }
    }
}

pub(super) fn set_status(state: &mut TeamState, agent: &AgentName, status: Status) {
    tell(state, StreamFact::Status(agent, status));
}

impl Session {
    /// Creates a session that keeps the conversations of the agents.
    pub(super) fn with_conversations() -> Self {
        Self { conversations: Some(Conversations::default()), ..Self::default() }
    }

    /// Adds to the conversations, if somebody reads them.
    pub(super) fn converse(&mut self, add: impl FnOnce(&mut Conversations)) {
        if let Some(conversations) = &mut self.conversations {
            add(conversations);
        }
    }

    /// Folds a line into the state of the team. Returns false if the line is not known.
    pub(super) fn read(&mut self, state: &mut TeamState, line: &Line<'_>) -> bool {
        if line.kind.is("assistant") {
            let Some(message) = &line.message else { return false };
            self.answered(state, line, message);
        } else if line.kind.is("user") {
            let Some(message) = &line.message else { return false };
            self.told(state, line, message);
        } else if line.kind.is("result") {
            self.ended(state, line);
        } else if line.kind.is("system") && line.subtype.is("init") {
            self.started(state, line);
        } else if line.kind.is("system") && line.subtype.is(TeamEvent::SUBTYPE) {
            self.team_event(state, line);
        } else {
            return line.kind.is("system") && self.in_background(state, line);
        }
        true
    }

    /// Adds an entry to the timeline.
    pub(super) fn note(&mut self, state: &mut TeamState, what: Happened) {
        if let Happened::Mail(mail) = &what {
            self.mailed(state, mail);
        }
        let entry = TimelineEntry { line: self.line, what };
        tell(state, StreamFact::Happened(entry));
    }

    /// Adds a message to the conversations of its receivers, and of a teammate that sent it. The turns
    /// of the lead have its own messages and its mail.
    fn mailed(&mut self, state: &TeamState, mail: &Mail) {
        let Some(conversations) = &mut self.conversations else { return };
        let sender = name_of(&mail.from);
        let receivers = match &mail.to {
            Route::Agent(name) => std::slice::from_ref(name),
            Route::Team(names) => names.as_slice(),
        };
        for name in receivers.iter().chain(&sender) {
            if state.lead.as_ref() != Some(name) && state.agent(name).is_some() {
                conversations.mailed(name, mail);
            }
        }
    }

    fn started(&mut self, state: &mut TeamState, line: &Line<'_>) {
        let id = line.session_id.text().unwrap_or_default();
        // Each input to a session begins with such a line.
        if self.id.as_deref() == Some(id.as_ref()) {
            return;
        }
        let id = id.into_owned();
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
            limits: RunLimits::default(),
            spent_before_usd: 0.0,
        };
        fold_run(state, &RunEvent::Started(started));
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
            Content::Text(text) => {
                self.converse(|conversations| conversations.said(&agent, *text));
                self.said(state, &agent, text.text().unwrap_or_default());
            }
            Content::Blocks(blocks) => {
                for block in blocks {
                    self.converse(|conversations| conversations.answered(&agent, block));
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
        self.subagent(state, &call, model)
    }

    /// Returns the subagent that a call has started. A new one is added to the state.
    pub(super) fn subagent(
        &mut self,
        state: &mut TeamState,
        call: &str,
        model: Raw<'_>,
    ) -> AgentName {
        if let Some(name) = self.subagents.get(call) {
            return name.clone();
        }
        let (name, agent_type, asked_model, prompt) = match self.calls.get(call) {
            Some(Call {
                agent, ask: Ask::Spawn { name, agent_type, model, prompt, .. }, ..
            }) => {
                let prompt = prompt.clone().map(|prompt| (agent.clone(), prompt));
                (name.clone(), agent_type.clone(), model.clone(), prompt)
            }
            Some(_) | None => (None, None, None, None),
        };
        let names = name.iter().chain(&agent_type).filter_map(|name| AgentName::new(name).ok());
        let first = names.into_iter().next().unwrap_or_else(|| AgentName::foreign("subagent"));
        // Beyond the limit, all subagents of a type are counted as one.
        if self.subagents.len() >= AGENTS_MOST || state.agents.len() >= AGENTS_MOST {
            return first;
        }
        let name = first.deduplicated(|name| state.agent(name).is_some());
        self.subagents.insert(call.to_owned(), name.clone());
        let started = AgentStarted {
            agent: name.clone(),
            parent_call: Some(call.to_owned()),
            agent_type,
            model: model.id().map(Cow::into_owned).or(asked_model).unwrap_or_default(),
            color: None,
            cwd: self.cwd.clone(),
            mode: self.mode,
        };
        fold_run(state, &RunEvent::AgentStarted(started));
        if let Some((by, prompt)) = prompt {
            self.converse(|conversations| conversations.started(&name, &by, &prompt));
        }
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
            return tell(state, StreamFact::TurnWentOn(agent, Usage::default(), tool_calls));
        }
        let usage = message.usage.as_ref().map(CallTokens::usage).unwrap_or_default();
        let id = message.id.id();
        if let Some(turn) = self.turns.get_mut(agent) {
            if id.as_deref() == Some(turn.message.as_str()) {
                let more = beyond(usage, turn.counted);
                turn.counted += more;
                return tell(state, StreamFact::TurnWentOn(agent, more, tool_calls));
            }
            id.unwrap_or_default().as_ref().clone_into(&mut turn.message);
            turn.counted = usage;
        } else if self.turns.len() < AGENTS_MOST {
            let message = id.unwrap_or_default().into_owned();
            self.turns.insert(agent.clone(), Turn { message, counted: usage });
        }
        tell(state, StreamFact::TurnBegan(agent, usage, tool_calls));
    }

    fn said(&mut self, state: &mut TeamState, agent: &AgentName, text: Cow<'_, str>) {
        if !text.trim().is_empty() {
            self.note(state, Happened::Said { agent: agent.clone(), text: bounded(text) });
        }
    }

    fn called(&mut self, state: &mut TeamState, agent: &AgentName, block: &Block<'_>) {
        let (Some(id), Some(tool)) = (block.id.id(), block.name.id()) else { return };
        let input = &block.input.input;
        let doing = brief_with(&tool, input.telling().as_deref());
        tell(state, StreamFact::CallStarted(agent, doing));
        self.call_began(id.into_owned(), agent, &tool, input);
    }

    /// Keeps what is needed of a call until its result.
    pub(super) fn call_began(
        &mut self,
        id: String,
        agent: &AgentName,
        tool: &str,
        input: &Input<'_>,
    ) {
        let traits = ToolTraits::of(tool);
        let ask = Ask::of(tool, traits, input);
        self.calls.put(id, Call { agent: agent.clone(), effect: traits.effect, ask });
    }

    fn told(&mut self, state: &mut TeamState, line: &Line<'_>, message: &Message<'_>) {
        let blocks = match &message.content {
            Content::Text(text) => return self.heard(state, line, *text),
            Content::Blocks(blocks) => blocks,
        };
        let is_result = |block: &&Block<'_>| block.kind.is("tool_result");
        // The data in the line belong to one result only.
        let data = match blocks.iter().filter(is_result).count() {
            1 => line.tool_use_result.as_ref(),
            _ => None,
        };
        for block in blocks {
            if block.kind.is("tool_result") {
                self.call_ended(state, line, block, data);
            } else if block.kind.is("text") {
                self.heard(state, line, block.text);
            }
        }
    }

    /// Reads the mail in a text that was put into the lead's conversation.
    fn heard(&mut self, state: &mut TeamState, line: &Line<'_>, text: Raw<'_>) {
        if let Some(call) = line.parent_tool_use_id.id() {
            if let Some(subagent) = self.subagents.get(call.as_ref()).cloned() {
                self.converse(|conversations| conversations.told(&subagent, text));
            }
            return;
        }
        let lead = state.lead.clone().unwrap_or_else(AgentName::lead);
        self.converse(|conversations| conversations.told(&lead, text));
        let Some(text) = text.text().filter(|text| text.contains("<teammate")) else { return };
        for mail in parse_injected(&text) {
            self.received(state, mail);
        }
    }

    fn call_ended(
        &mut self,
        state: &mut TeamState,
        line: &Line<'_>,
        block: &Block<'_>,
        data: Option<&ResultData<'_>>,
    ) {
        let id = block.tool_use_id.id().unwrap_or_default();
        let (agent, effect, ask) = match self.calls.take(&id) {
            Some(Call { agent, effect, ask }) => (agent, effect, Some(ask)),
            None => (self.agent(state, line, Raw::default()), CallEffect::None, None),
        };
        let is_error = block.is_error.flag() == Some(true);
        self.converse(|conversations| conversations.answered_call(&agent, block, is_error));
        if is_error {
            tell(state, StreamFact::CallFailed(&agent));
        } else {
            let status = data.and_then(status_change);
            tell(state, StreamFact::CallEnded(&agent, effect, status.as_deref()));
        }
        if let Some(subagent) = self.take_foreground(&id) {
            let status = if is_error { Status::Failed } else { Status::Completed };
            set_status(state, &subagent, status);
        }
        if is_error {
            let reason = || bounded(block.content.text().unwrap_or_default());
            self.call_failed(state, ask.as_ref(), reason);
        } else if !matches!(ask, Some(Ask::Other)) {
            let none = ResultData::default();
            self.team_result(state, &agent, ask, data.unwrap_or(&none));
        }
    }
}

/// Returns the name of the lead. If no lead is known, the agent whose lines these are becomes it.
pub(super) fn lead(state: &mut TeamState) -> AgentName {
    if let Some(lead) = &state.lead {
        return lead.clone();
    }
    tell(state, StreamFact::Lead(AgentName::lead()));
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

/// Returns the new status of the task that a call changed.
fn status_change<'a>(data: &ResultData<'a>) -> Option<Cow<'a, str>> {
    data.status_change.as_ref()?.to.text()
}
