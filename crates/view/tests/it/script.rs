//! Scripts (lists of run events) for the tests, and functions that compute the state after a
//! script.

use std::path::PathBuf;
use std::time::Duration;

use pitcrew_model::{Block, StopReason, Usage};
use pitcrew_protocol::{AgentName, PermissionMode, Status};
use pitcrew_runtime::events::{
    AgentStarted, Answered, Compacted, RunEvent, RunStarted, Spending, ToolEnded,
};
use pitcrew_runtime::run::RunLimits;
use pitcrew_view::{AgentState, TeamState, ViewEvent, fold};
use serde_json::{Value, json};

pub(crate) fn name(name: &str) -> AgentName {
    AgentName::new(name).unwrap()
}

/// Returns the state of the team after the events of a script.
pub(crate) fn after(script: &[RunEvent]) -> TeamState {
    script.iter().fold(TeamState::default(), |state, event| fold(state, &ViewEvent::Run(event)))
}

/// Returns the state of one agent after the events of a script.
pub(crate) fn agent_after(agent: &str, script: &[RunEvent]) -> AgentState {
    after(script).agent(&name(agent)).unwrap().clone()
}

/// Returns the start event of a run whose lead is ann.
pub(crate) fn started() -> RunEvent {
    RunEvent::Started(RunStarted {
        agent: name("ann"),
        team: "demo".to_owned(),
        team_file: PathBuf::from("/root/teams/demo/config.json"),
        session_id: "session".to_owned(),
        cwd: PathBuf::from("/work"),
        model: "m".to_owned(),
        mode: PermissionMode::Default,
        tools: vec!["Bash".to_owned()],
        agents: Vec::new(),
        resumed: false,
        limits: RunLimits { max_turns: Some(40), max_cost_usd: Some(5.0), max_teammates: None },
        spent_before_usd: 1.5,
    })
}

pub(crate) fn joins(agent: &str, parent_call: Option<&str>) -> RunEvent {
    RunEvent::AgentStarted(AgentStarted {
        agent: name(agent),
        parent_call: parent_call.map(str::to_owned),
        agent_type: Some("tester".to_owned()),
        model: "m".to_owned(),
        color: Some("blue".to_owned()),
        cwd: PathBuf::from("/work"),
        mode: PermissionMode::Plan,
    })
}

pub(crate) fn changes(agent: &str, status: Status, detail: Option<&str>) -> RunEvent {
    RunEvent::AgentChanged { agent: name(agent), status, detail: detail.map(str::to_owned) }
}

pub(crate) fn usage(input_tokens: u64, output_tokens: u64) -> Usage {
    Usage { input_tokens, output_tokens, ..Usage::default() }
}

/// Returns the event for an answer of the model with these blocks. The answer used 1000 input
/// tokens and 100 output tokens.
pub(crate) fn answers(agent: &str, blocks: Vec<Block>, cost_usd: Option<f64>) -> RunEvent {
    RunEvent::Answered(Answered {
        agent: name(agent),
        parent_call: None,
        message_id: "m".to_owned(),
        model: "x".to_owned(),
        blocks,
        stop: StopReason::EndTurn,
        usage: usage(1_000, 100),
        cost_usd,
        took: Duration::ZERO,
    })
}

/// Returns the tokens and cost of the answer from `answers`, in the form in which an agent in
/// another process reports them.
pub(crate) fn spending(tool_calls: u32, cost_usd: Option<f64>) -> Spending {
    let usage = usage(1_000, 100);
    Spending { model: "x".to_owned(), usage, cost_usd, tool_calls, took: Duration::ZERO }
}

pub(crate) fn call(id: &str, tool: &str) -> Block {
    serde_json::from_value(json!({"type": "tool_use", "id": id, "name": tool, "input": {}}))
        .unwrap()
}

pub(crate) fn calls(agent: &str, tool: &str, input: Value) -> RunEvent {
    RunEvent::ToolStarted {
        agent: name(agent),
        call: "c1".to_owned(),
        tool: tool.to_owned(),
        input,
    }
}

pub(crate) fn tool_ends(agent: &str, tool: &str, data: Value, is_error: bool) -> RunEvent {
    RunEvent::ToolEnded(ToolEnded {
        agent: name(agent),
        parent_call: None,
        call: "c1".to_owned(),
        tool: tool.to_owned(),
        text: "a text\nof two lines".to_owned(),
        data,
        is_error,
    })
}

pub(crate) fn asks(agent: &str, call: &str, tool: &str) -> RunEvent {
    RunEvent::PermissionAsked { agent: name(agent), call: call.to_owned(), tool: tool.to_owned() }
}

pub(crate) fn answered(agent: &str, call: &str, refused: Option<&str>) -> RunEvent {
    RunEvent::PermissionAnswered {
        agent: name(agent),
        call: call.to_owned(),
        refused: refused.map(str::to_owned),
        would_allow: refused.map(|_| "Bash(make:*)".to_owned()),
    }
}

pub(crate) fn compacts(agent: &str, tokens_after: u64) -> RunEvent {
    RunEvent::Compacted(Compacted {
        agent: name(agent),
        model: "x".to_owned(),
        tokens_before: 170_000,
        tokens_after,
        usage: usage(170_000, 2_000),
        cost_usd: Some(0.25),
    })
}
