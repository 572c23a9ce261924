//! What a stream tells at its end: the tasks that teammates of pitcrew have changed, and the summary
//! of a session with several results.

use pitcrew_protocol::TaskStatus;
use pitcrew_view::TeamState;
use pitcrew_view::client_stream::ClientStream;
use serde_json::{Value, json};

fn after(lines: &[Value]) -> TeamState {
    after_text(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())
}

/// A headless session of version 2.1.330: it starts an agent with a name, which runs beside its turns,
/// and writes to it when it has ended.
const NAMED: &str = include_str!("recordings/named-subagent.ndjson");

#[test]
fn an_agent_in_the_background_has_its_name_and_works_until_its_task_ends() {
    let (mut reader, mut state) = (ClientStream::new(), TeamState::default());
    let mut states: Vec<(u64, String)> = Vec::new();
    for line in NAMED.lines() {
        reader.feed(&mut state, format!("{line}\n").as_bytes());
        let worker = state.agents.iter().find(|agent| agent.name.as_str() == "worker");
        let status = worker.map_or("none", |worker| worker.status.as_str());
        if states.last().is_none_or(|(_, last)| last != status) {
            states.push((reader.lines_read().lines, status.to_owned()));
        }
    }
    // Lines 6 and 23 begin its tasks, and lines 15 and 26 end them.
    let wanted =
        [(1, "none"), (6, "running"), (15, "completed"), (23, "running"), (26, "completed")];
    assert_eq!(states, wanted.map(|(line, status)| (line, status.to_owned())));
    let names: Vec<_> = state.agents.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, ["team-lead", "worker"]);
    assert_eq!(state.agents[1].agent_type.as_deref(), Some("general-purpose"));
    assert_eq!((reader.lines_read().unknown, reader.lines_read().unreadable), (0, 0));
}

fn after_text(text: &str) -> TeamState {
    let (mut reader, mut state) = (ClientStream::new(), TeamState::default());
    reader.feed(&mut state, text.as_bytes());
    reader.finish(&mut state);
    state
}

#[test]
fn the_calls_of_a_teammate_change_the_tasks() {
    let call = |id: &str, name: &str, input: Value| json!({"type": "assistant", "message": {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": input}]}});
    let result = |id: &str, data: Value| json!({"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "done"}]}, "tool_use_result": data});
    let event = |event: &str, data: Value| json!({"type": "system", "subtype": "pitcrew_team_event", "event": event, "team_name": "t", "teammate_id": "bob@t", "data": data});
    let began = |id: &str, task: &str, status: &str| {
        event(
            "tool_started",
            json!({"tool_use_id": id, "tool_name": "TaskUpdate", "tool_input": {"taskId": task, "status": status}}),
        )
    };
    let ended = |id: &str, is_error: bool| {
        event(
            "tool_ended",
            json!({"tool_use_id": id, "tool_name": "TaskUpdate", "is_error": is_error}),
        )
    };
    let mut lines = vec![
        call("a", "TaskCreate", json!({"subject": "Greet", "description": "Say hello."})),
        result("a", json!({"task": {"id": "1", "subject": "Greet"}})),
        event("agent_started", json!({"model": "m"})),
        began("b", "1", "in_progress"),
        ended("b", false),
    ];
    let task = |state: &TeamState| (state.tasks[0].status, state.tasks[0].owner.clone());
    assert_eq!(task(&after(&lines)), (TaskStatus::InProgress, Some("bob".to_owned())));
    lines.extend([began("c", "1", "completed"), ended("c", true)]);
    assert_eq!(task(&after(&lines)).0, TaskStatus::InProgress);
    lines.extend([began("d", "1", "completed"), ended("d", false)]);
    lines.extend([began("e", "99", "completed"), ended("e", false)]);
    let state = after(&lines);
    assert_eq!(task(&state), (TaskStatus::Completed, Some("bob".to_owned())));
    assert_eq!(state.tasks.len(), 1, "a task that nobody has made is none");
}

#[test]
fn the_results_of_one_session_have_one_summary() {
    let result = |ms: u64, turns: u64, cost: f64| {
        json!({"type": "result", "subtype": "success", "is_error": false, "duration_ms": ms, "duration_api_ms": 9_500,
            "num_turns": turns, "total_cost_usd": cost, "result": "Done.", "usage": {"input_tokens": 10, "output_tokens": 5}})
    };
    let state = after(&[result(14_513, 6, 0.5), result(68, 1, 0.6), result(20, 1, 0.7)]);
    let session = state.session.unwrap();
    assert_eq!((session.duration_ms, session.turns), (Some(14_601), Some(8)));
    assert_eq!((session.duration_api_ms, session.cost_usd), (Some(9_500), Some(0.7)));
    assert_eq!((session.usage.input_tokens, session.usage.output_tokens), (30, 15));
}

#[test]
fn an_absurd_cost_is_not_known() {
    let ended = |cost: &str| {
        let usage = format!(r#"{{"opus":{{"inputTokens":1,"outputTokens":1,"costUSD":{cost}}}}}"#);
        let line = format!(
            r#"{{"type":"result","subtype":"success","total_cost_usd":{cost},"modelUsage":{usage}}}"#
        );
        let session = after_text(&format!("{line}\n")).session.unwrap();
        (session.cost_usd, session.models[0].cost())
    };
    for absurd in ["1e300", "-1", "-0.5", "1e999", "\"NaN\"", "\"1\"", "null", "[1]"] {
        assert_eq!(ended(absurd), (None, "-".to_owned()), "{absurd}");
    }
    assert_eq!(ended("1.5"), (Some(1.5), "$1.50".to_owned()));
    assert_eq!(ended("0").0, Some(0.0));
}
