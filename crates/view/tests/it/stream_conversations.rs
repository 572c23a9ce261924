//! Tests the conversations that are read from the stream of a client.

use std::fmt::Write as _;

use pitcrew_protocol::AgentName;
use pitcrew_view::TeamState;
use pitcrew_view::client_stream::ClientStream;
use pitcrew_view::conversation::{Call, Conversation, Part};
use pitcrew_view::text::first_line;
use serde_json::{Value, json};

use crate::script::*;

const LIFECYCLE: &str =
    include_str!("../../../../fixtures/claude-2.1.39/stream-json/team-lifecycle.ndjson");

fn read(stream: &str) -> ClientStream {
    let (mut reader, mut state) = (ClientStream::with_conversations(), TeamState::default());
    reader.feed(&mut state, stream.as_bytes());
    reader.finish(&mut state);
    reader
}

fn of<'a>(reader: &'a ClientStream, agent: &str) -> &'a Conversation {
    reader.conversation(&name(agent)).unwrap().0
}

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

/// Returns one line for each part.
fn shown(conversation: &Conversation) -> String {
    let mut shown = String::new();
    for part in &conversation.parts {
        let line = match part {
            Part::Prompt { text } => format!("prompt: {text}"),
            Part::Mail { from, text, .. } => format!("{from} writes: {text}"),
            Part::Text { text } => text.clone(),
            Part::Thinking { text } => format!("thinks: {text}"),
            Part::Call(Call { tool, input, result, .. }) => {
                let result = result.as_ref().map_or("no result", |result| &result.text);
                format!("{tool} {input} -> {}", result.replace('\n', " | "))
            }
            Part::Event { text } => format!("- {text}"),
            part => format!("{part:?}"),
        };
        writeln!(shown, "{}", first_line(&line, 100)).unwrap();
    }
    shown
}

fn block(block: &Value, parent: Option<&str>) -> Value {
    let message = json!({"id": "m", "role": "assistant", "content": [block]});
    json!({"type": "assistant", "message": message, "parent_tool_use_id": parent})
}

fn call_of(id: &str, tool: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": tool, "input": input})
}

fn result_of(call: &str, content: &Value, data: &Value) -> Value {
    let content = json!([{"type": "tool_result", "tool_use_id": call, "content": content}]);
    json!({"type": "user", "message": {"role": "user", "content": content}, "tool_use_result": data})
}

#[test]
fn the_conversation_of_a_recorded_lead_has_its_calls_with_their_results() {
    insta::assert_snapshot!(shown(of(&read(LIFECYCLE), "team-lead")), @r#"
    TeamCreate {"team_name":"probe","description":"probe team","agent_type":"architect"} -> { |   "team…
    TaskCreate {"subject":"Do A","description":"desc A","activeForm":"Doing A","metadata":{"p":1}} -> T…
    TaskCreate {"subject":"Do B","description":"desc B"} -> Task #2 created successfully: Do B
    TaskUpdate {"taskId":"2","addBlockedBy":["1"]} -> Updated task #2 blockedBy
    Task {"description":"worker one","prompt":"ROLE:worker please do it","subagent_type":"general-purpo…
    TaskUpdate {"taskId":"1","owner":"worker"} -> Updated task #1 
    TaskList {} -> #1 [in_progress] Do A (worker) | #2 [pending] Do B [blocked by #1]
    TaskGet {"taskId":"2"} -> Task #2: Do B | Status: pending | Description: desc B | Blocked by: #1
    SendMessage {"type":"message","recipient":"worker","content":"hello worker","summary":"greeting the…
    SendMessage {"type":"broadcast","content":"hello all","summary":"greeting everyone"} -> { |   "succ…
    Bash {"command":"find $CLAUDE_CONFIG_DIR/teams $CLAUDE_CONFIG_DIR/tasks -type f; for f in $(find $C…
    TeamDelete {} -> { |   "success": false, |   "message": "Cannot cleanup team with 1 active member(s…
    SendMessage {"type":"shutdown_request","recipient":"worker","content":"please stop"} -> { |   "succ…
    waiting for shutdown
    - the session ended: success
    "#);
}

#[test]
fn a_teammate_has_its_prompt_and_its_mail() {
    insta::assert_snapshot!(shown(of(&read(LIFECYCLE), "worker")), @r"
    team-lead writes: ROLE:worker please do it
    team-lead writes: hello worker
    team-lead writes: hello all
    - team-lead to @worker, shutdown request: please stop
    ");
}

#[test]
fn a_subagent_has_a_conversation_of_its_own() {
    let spawn = json!({"description": "d", "prompt": "Look around.", "subagent_type": "Explore"});
    let text = |text: &str| json!({"type": "text", "text": text});
    let thought = json!({"type": "thinking", "thinking": "Where?"});
    let blocks = json!([{"type": "text", "text": "one"}, {"type": "image", "source": {}}]);
    let script = [
        block(&call_of("c1", "Task", &spawn), None),
        block(&thought, Some("c1")),
        block(&call_of("c2", "Read", &json!({"file_path": "a"})), Some("c1")),
        result_of("c2", &blocks, &json!(null)),
        block(&text("found"), Some("c1")),
        result_of("c1", &json!("It is there."), &json!({"status": "completed"})),
    ];
    let reader = read(&lines(&script));
    insta::assert_snapshot!(shown(of(&reader, "Explore")), @r#"
    team-lead writes: Look around.
    thinks: Where?
    Read {"file_path":"a"} -> one | [image]
    found
    "#);
    insta::assert_snapshot!(shown(of(&reader, "team-lead")), @r#"
    Task {"description":"d","prompt":"Look around.","subagent_type":"Explore"} -> It is there.
    "#);
}

#[test]
fn mail_to_the_lead_is_in_both_conversations() {
    let text =
        "<teammate-message teammate_id=\"bob\" summary=\"done\">\nI found it.\n</teammate-message>";
    let spawned = json!({"status": "teammate_spawned", "teammate_id": "bob@t", "team_name": "t"});
    let script = [
        result_of("c1", &json!("ok"), &spawned),
        json!({"type": "user", "message": {"role": "user", "content": text}}),
    ];
    let reader = read(&lines(&script));
    for agent in ["team-lead", "bob"] {
        assert_eq!(shown(of(&reader, agent)), "bob writes: I found it.\n", "{agent}");
    }
}

#[test]
fn the_calls_of_a_teammate_are_known_from_the_events_of_pitcrew() {
    let event = |event: &str, data: Value| json!({"type": "system", "subtype": "pitcrew_team_event", "event": event, "team_name": "t", "teammate_id": "bob@t", "data": data});
    let script = [
        event("agent_started", json!({"model": "m"})),
        event(
            "tool_started",
            json!({"tool_use_id": "c1", "tool_name": "Bash", "tool_input": {"command": "ls"}}),
        ),
        event("tool_ended", json!({"tool_use_id": "c1", "tool_name": "Bash", "is_error": true})),
    ];
    let read = read(&lines(&script));
    assert_eq!(shown(of(&read, "bob")), "Bash {\"command\":\"ls\"} -> the call failed\n");
}

#[test]
fn a_stream_that_nobody_reads_keeps_no_conversations() {
    let (mut reader, mut state) = (ClientStream::new(), TeamState::default());
    reader.feed(&mut state, LIFECYCLE.as_bytes());
    assert!(reader.conversation(&AgentName::lead()).is_none());
    let mut other = TeamState::default();
    ClientStream::with_conversations().feed(&mut other, LIFECYCLE.as_bytes());
    assert!(state == other, "the state is the same with conversations");
}

#[test]
fn long_inputs_and_results_are_shortened() {
    let long = "ä".repeat(200_000);
    let fields: Vec<(String, Value)> =
        (0..100).map(|n| (format!("field{n}"), json!([long[..2_000], n]))).collect();
    let input: Value = fields.into_iter().collect::<serde_json::Map<_, _>>().into();
    let script = [
        block(&call_of("c1", "Write", &json!({"content": long})), None),
        result_of("c1", &json!(long), &json!(null)),
        block(&call_of("c2", "Odd", &input), None),
    ];
    let reader = read(&lines(&script));
    let [Part::Call(write), Part::Call(odd)] = of(&reader, "team-lead").parts.as_slice() else {
        panic!("two calls")
    };
    assert_eq!(write.input["content"].as_str().unwrap().len(), 16 * 1024 - 1);
    assert_eq!(write.result.as_ref().unwrap().text.len(), 64 * 1024 - 1);
    assert_eq!(odd.input.as_object().unwrap().len(), 20);
}

#[test]
fn all_conversations_together_are_bounded() {
    let text = json!({"type": "text", "text": "x".repeat(60_000)});
    let (mut reader, mut state) = (ClientStream::with_conversations(), TeamState::default());
    for agent in 0..40 {
        let call = format!("c{agent}");
        let spawn = call_of(&call, "Task", &json!({"subagent_type": format!("agent{agent}")}));
        reader.feed(&mut state, lines(&[block(&spawn, None)]).as_bytes());
        for _ in 0..18 {
            reader.feed(&mut state, lines(&[block(&text, Some(&call))]).as_bytes());
        }
    }
    let parts = |agent: u32| of(&reader, &format!("agent{agent}")).parts.len();
    let all: usize = (0..40).map(parts).sum();
    // 32 MB have room for 558 of these 720 texts.
    assert!((200..=558).contains(&all), "{all}");
    assert!((0..40).all(|agent| parts(agent) >= 5), "the latest texts of each agent are there");
}

#[test]
fn a_line_is_read_before_its_break_comes_and_only_once() {
    let text = |text: &str| lines(&[block(&json!({"type": "text", "text": text}), None)]);
    let (mut reader, mut state) = (ClientStream::with_conversations(), TeamState::default());
    reader.feed(&mut state, text("one").trim_end().as_bytes());
    reader.pause(&mut state);
    reader.pause(&mut state);
    assert!(!reader.has_begun_line());
    reader.feed(&mut state, b"\r\n{\"type\": \"assistant\"");
    reader.pause(&mut state);
    assert!(reader.has_begun_line(), "half a line is no line");
    reader.feed(&mut state, b"}\n");
    reader.feed(&mut state, text("two").as_bytes());
    reader.finish(&mut state);
    assert_eq!(shown(of(&reader, "team-lead")), "one\ntwo\n");
    let numbers: Vec<u64> = state.timeline.entries().map(|entry| entry.line).collect();
    assert_eq!((numbers, reader.lines_read().unknown), (vec![1, 3], 1));
}
