//! Tests that no answer of a server fills the memory or keeps a call for ever. Each attack goes far
//! beyond its bound; most have no end at all.

use std::time::{Duration, Instant};

use pitcrew_model::bounds::{BLOCK_DEPTH, BLOCKS, TOOL_CALLS};
use pitcrew_model::{Block, Message, ModelError, StreamEvent, ollama_models};
use serde_json::{Value, json};

use crate::fake::{Fake, Reply, call, chunks, finished, messages};

const ANTHROPIC: &str = "anthropic/claude-x";
const OPENAI: &str = "openai/gpt-x";

/// Most memory that a process may have used after all attacks, with the server in it.
const MEMORY_KB: u64 = 600_000;

/// Most time that one attack may take. Ten times what it takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn long() -> String {
    "x".repeat(64 * 1024)
}

fn started(block: Value) -> Value {
    json!({"type": "content_block_start", "index": 0, "content_block": block})
}

fn grown(delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": 0, "delta": delta})
}

fn chosen(delta: Value) -> Value {
    json!({"id": "c", "choices": [{"index": 0, "delta": delta}]})
}

/// Returns a value with this many levels of lists.
fn nested(levels: usize) -> Value {
    (0..levels).fold(json!("x"), |value, _| json!([value]))
}

/// An answer that begins with these events, and then repeats the last one for ever.
fn endless(events: &[Value]) -> Reply {
    let written = match events[0].get("type") {
        Some(_) => messages(events),
        None => chunks(events),
    };
    let again = written.last().unwrap().clone();
    Reply::Endless(written, again)
}

/// An answer of the Messages API with this many blocks that `block` makes from their index.
fn many(count: usize, block: fn(usize) -> Value) -> Reply {
    let start =
        |at| json!({"type": "content_block_start", "index": at, "content_block": block(at)});
    let mut events: Vec<Value> = (0..count).map(start).collect();
    events.push(json!({"type": "message_stop"}));
    Reply::Stream(messages(&events))
}

/// The attacks: a name, the model, the server's answer, and what the error says.
fn attacks() -> Vec<(&'static str, &'static str, Reply, &'static str)> {
    let text = started(json!({"type": "text", "text": ""}));
    let input = started(json!({"type": "tool_use", "id": "t", "name": "Bash", "input": {}}));
    let piece = |kind: &str, key: &str| grown(json!({"type": kind, key: long()}));
    let calls: Vec<Value> = (0..10 * TOOL_CALLS)
        .map(|at| json!({"index": at, "id": at.to_string(), "function": {"name": "Bash", "arguments": "{}"}}))
        .collect();
    let block = "more than 8388608 bytes in one content block";
    vec![
        ("text", ANTHROPIC, endless(&[text, piece("text_delta", "text")]), block),
        ("thoughts", ANTHROPIC, endless(&[piece("thinking_delta", "thinking")]), block),
        ("a signature", ANTHROPIC, endless(&[piece("signature_delta", "signature")]), block),
        (
            "a tool's input",
            ANTHROPIC,
            endless(&[input, piece("input_json_delta", "partial_json")]),
            block,
        ),
        (
            "citations",
            ANTHROPIC,
            endless(&[grown(
                json!({"type": "citations_delta", "citation": {"a": [[], {}, long()]}}),
            )]),
            block,
        ),
        (
            "a block that is made anew",
            ANTHROPIC,
            endless(&[started(json!({"type": "new", "x": long()}))]),
            "in one answer",
        ),
        (
            "blocks",
            ANTHROPIC,
            many(10 * BLOCKS, |_| json!({"type": "text", "text": "x"})),
            "more than 2000 content blocks in one answer",
        ),
        (
            "large blocks",
            ANTHROPIC,
            many(100, |_| json!({"type": "text", "text": "x".repeat(1 << 20)})),
            "more than 16777216 bytes in one answer",
        ),
        (
            "tool calls",
            ANTHROPIC,
            many(
                200_000,
                |at| json!({"type": "tool_use", "id": at.to_string(), "name": "Bash", "input": {}}),
            ),
            "more than 500 tool calls in one answer",
        ),
        (
            "a deep block",
            ANTHROPIC,
            many(1, |_| json!({"type": "new", "x": nested(BLOCK_DEPTH + 50)})),
            "more than 64 levels of objects and arrays in one content block",
        ),
        (
            "a line",
            ANTHROPIC,
            Reply::Endless(vec!["data: ".to_owned()], long()),
            "more than 8388608 bytes in one event",
        ),
        (
            "lines of data",
            ANTHROPIC,
            Reply::Endless(Vec::new(), format!("data: {}\n", long())),
            "more than 8388608 bytes in one event",
        ),
        (
            "comments",
            ANTHROPIC,
            Reply::Endless(Vec::new(), format!(": {}\n", long())),
            "more than 268435456 bytes in the stream of one answer",
        ),
        ("text", OPENAI, endless(&[chosen(json!({"content": long()}))]), block),
        ("thoughts", OPENAI, endless(&[chosen(json!({"reasoning": long()}))]), block),
        (
            "a tool's input",
            OPENAI,
            endless(&[chosen(
                json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "Bash", "arguments": long()}}]}),
            )]),
            block,
        ),
        (
            "tool calls",
            OPENAI,
            Reply::Stream(chunks(&[chosen(json!({"tool_calls": calls}))])),
            "more than 500 tool calls in one answer",
        ),
    ]
}

fn memory_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.map_or(0, |peak| peak.trim().trim_end_matches(" kB").parse().unwrap())
}

#[tokio::test]
async fn an_answer_beyond_a_bound_ends_its_call_and_the_error_names_the_bound() {
    for (attack, model, reply, words) in attacks() {
        let attack = format!("{model}: {attack}");
        let fake = Fake::start([reply]).await;
        let (model, hello) = (fake.model(model), vec![Message::user(vec![Block::text("hello")])]);
        let started = Instant::now();
        let answered = tokio::time::timeout(PATIENCE, call(model.as_ref(), hello)).await;
        let error = answered.unwrap_or_else(|_| panic!("{attack} has no end")).unwrap_err();
        let ModelError::TooMuch { vendor, .. } = &error else { panic!("{attack}: {error:?}") };
        assert!(attack.starts_with(vendor), "{attack}: {error}");
        assert!(error.to_string().contains(words), "{attack}: {error}");
        assert!(!error.is_retryable(), "{attack}");
        assert_eq!(fake.seen().len(), 1, "{attack} is not asked for again");
        let used = memory_kb();
        assert!(used < MEMORY_KB, "{attack}: {used} kB in {:?}", started.elapsed());
    }
}

#[tokio::test]
async fn bodies_without_an_end_are_read_in_part() {
    for model in [ANTHROPIC, OPENAI] {
        let fake = Fake::start([Reply::EndlessBody(400, long())]).await;
        let hello = vec![Message::user(vec![Block::text("hello")])];
        let error = call(fake.model(model).as_ref(), hello).await.unwrap_err();
        let ModelError::Status { status: 400, message, .. } = &error else { panic!("{error:?}") };
        assert!(message.len() < 1000, "{model}: {} bytes", message.len());
    }
    let fake = Fake::start([Reply::EndlessBody(200, long())]).await;
    let error = ollama_models(&fake.endpoints()).await.unwrap_err();
    assert!(error.to_string().contains("more than 1048576 bytes in one response"), "{error}");
    assert!(memory_kb() < MEMORY_KB);
}

#[tokio::test]
async fn an_input_of_a_tool_that_is_nested_too_deeply_is_kept_as_text_and_not_run() {
    let deep = json!({"command": nested(BLOCK_DEPTH + 50)}).to_string();
    let events = messages(&[
        json!({"type": "message_start", "message": {"id": "m", "model": "claude-x", "usage": {}}}),
        started(json!({"type": "tool_use", "id": "t", "name": "Bash", "input": {}})),
        grown(json!({"type": "input_json_delta", "partial_json": deep})),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}}),
        json!({"type": "message_stop"}),
    ]);
    let whole = chunks(&[
        chosen(
            json!({"tool_calls": [{"index": 0, "id": "t", "function": {"name": "Bash", "arguments": deep}}]}),
        ),
        json!({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
    ]);
    for (model, pieces) in [(ANTHROPIC, events), (OPENAI, whole)] {
        let fake = Fake::start([Reply::Stream(pieces)]).await;
        let hello = vec![Message::user(vec![Block::text("hello")])];
        let events: Vec<StreamEvent> = call(fake.model(model).as_ref(), hello).await.unwrap();
        let response = finished(&events);
        assert_eq!(response.blocks[0].invalid_input(), Some(deep.as_str()), "{model}");
    }
}
