//! Tests chat completions against a fake server.

use pitcrew_model::{Block, Message, ModelError, StopReason, StreamEvent, Usage};
use serde_json::{Value, json};

use crate::fake::{Fake, Reply, call, chunks, finished};

const MODEL: &str = "openai/gpt-x";

fn hello() -> Vec<Message> {
    vec![Message::user(vec![Block::text("hello")])]
}

fn delta(delta: Value) -> Value {
    json!({"id": "chatcmpl-1", "model": "gpt-x-1", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn stop(reason: &str) -> Value {
    json!({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn done() -> String {
    "data: [DONE]\n\n".to_owned()
}

/// Makes a call to which the fake server sends these pieces. Returns the events of the call.
async fn play(pieces: Vec<String>) -> Vec<StreamEvent> {
    let fake = Fake::start([Reply::Stream(pieces)]).await;
    call(fake.model(MODEL).as_ref(), hello()).await.unwrap()
}

#[tokio::test]
async fn a_call_returns_text_and_parallel_tool_calls_and_usage() {
    let mut pieces = chunks(&[
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"content": "I will "})),
        delta(json!({"content": "look."})),
        delta(
            json!({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "Bash", "arguments": ""}}]}),
        ),
        delta(
            json!({"tool_calls": [{"index": 1, "id": "b", "type": "function", "function": {"name": "Read", "arguments": ""}}]}),
        ),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"command\":"}}]})),
        delta(
            json!({"tool_calls": [{"index": 1, "function": {"arguments": "{\"oops"}}, {"index": 0, "function": {"arguments": "\"ls\"}"}}]}),
        ),
        stop("tool_calls"),
        json!({"id": "chatcmpl-1", "choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 60}}}),
    ]);
    pieces.push(done());
    let fake = Fake::start([Reply::Stream(pieces)]).await;
    let events = call(fake.model(MODEL).as_ref(), hello()).await.unwrap();
    let response = finished(&events);
    assert_eq!(
        response.blocks,
        [
            Block::text("I will look."),
            Block::tool_use("a", "Bash", json!({"command": "ls"})),
            Block::tool_use("b", "Read", json!("{\"oops")),
        ]
    );
    assert_eq!(response.blocks[2].invalid_input(), Some("{\"oops"));
    assert_eq!(response.stop, StopReason::ToolUse);
    let usage = Usage {
        input_tokens: 40,
        output_tokens: 9,
        cache_read_input_tokens: 60,
        ..Usage::default()
    };
    assert_eq!(response.usage, usage);
    let told: Vec<_> =
        events.iter().filter(|event| matches!(event, StreamEvent::ToolStarted { .. })).collect();
    assert_eq!(told.len(), 2);

    let seen = &fake.seen()[0];
    assert_eq!(seen.path, "/v1/chat/completions");
    assert_eq!(seen.headers["authorization"], "Bearer sk-oai");
    assert_eq!(seen.body["max_tokens"], 1000);
    assert_eq!(seen.body["messages"][0]["role"], "system");
}

#[tokio::test]
async fn a_server_that_sends_no_ids_no_indexes_no_usage_and_no_end_mark_is_understood() {
    let call = |name: &str, arguments: Value| {
        delta(json!({"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}))
    };
    let events = play(chunks(&[
        call("Bash", json!("{}")),
        call("Read", json!({"file_path": "x"})),
        stop("stop"),
    ]))
    .await;
    let response = finished(&events);
    assert_eq!(response.stop, StopReason::ToolUse);
    assert_eq!(response.usage, Usage::default());
    let calls: Vec<_> = response
        .blocks
        .iter()
        .map(|block| match block {
            Block::ToolUse { id, name, input, .. } => (id.as_str(), name.as_str(), input.clone()),
            other => panic!("{other:?} is no call"),
        })
        .collect();
    assert_eq!((calls[0].1, &calls[0].2), ("Bash", &json!({})));
    assert_eq!((calls[1].1, &calls[1].2), ("Read", &json!({"file_path": "x"})));
    assert_ne!(calls[0].0, calls[1].0);
    assert!(!calls[0].0.is_empty());
}

#[tokio::test]
async fn parallel_calls_that_share_an_index_are_told_apart_by_their_ids() {
    let call = |id: &str| {
        delta(
            json!({"tool_calls": [{"index": 0, "id": id, "function": {"name": "Bash", "arguments": "{}"}}]}),
        )
    };
    let events = play(chunks(&[call("a"), call("b"), stop("tool_calls")])).await;
    let expected =
        [Block::tool_use("a", "Bash", json!({})), Block::tool_use("b", "Bash", json!({}))];
    assert_eq!(finished(&events).blocks, expected);
}

#[tokio::test]
async fn thoughts_are_kept_under_either_name() {
    for name in ["reasoning_content", "reasoning"] {
        let mut thought = serde_json::Map::new();
        thought.insert(name.to_owned(), json!("hm"));
        let events = play(chunks(&[
            delta(Value::Object(thought)),
            delta(json!({"content": "hi"})),
            stop("stop"),
        ]))
        .await;
        assert_eq!(events[0], StreamEvent::ThinkingDelta("hm".to_owned()));
        assert_eq!(finished(&events).blocks, [Block::thinking("hm", ""), Block::text("hi")]);
    }
}

#[tokio::test]
async fn an_answer_at_its_limit_or_filtered_says_so() {
    for (reason, expected) in [
        ("length", StopReason::MaxTokens),
        ("content_filter", StopReason::Refusal),
        ("abort", StopReason::Other("abort".to_owned())),
    ] {
        let events = play(chunks(&[delta(json!({"content": "hi"})), stop(reason)])).await;
        assert_eq!(finished(&events).stop, expected);
    }
}

#[tokio::test]
async fn a_stream_cut_in_the_middle_is_asked_for_again_as_a_whole() {
    let half = || chunks(&[delta(json!({"content": "half"}))]);
    let error = || chunks(&[json!({"error": {"code": 502, "message": "upstream"}})]);
    for broken in [Reply::Cut(half()), Reply::Stream(half()), Reply::Stream(error())] {
        let whole = chunks(&[delta(json!({"content": "whole"})), stop("stop")]);
        let fake = Fake::start([broken, Reply::Stream(whole)]).await;
        let events = call(fake.model(MODEL).as_ref(), hello()).await.unwrap();
        assert_eq!(finished(&events).blocks, [Block::text("whole")]);
        assert_eq!(fake.seen().len(), 2);
    }
}

#[tokio::test]
async fn an_over_long_conversation_and_an_empty_account_are_errors_of_their_own() {
    let body = |code: &str| json!({"error": {"type": "invalid_request_error", "code": code, "message": "m"}});
    let fake = Fake::start([
        Reply::Status(400, vec![], body("context_length_exceeded")),
        Reply::Status(429, vec![("retry-after", "1")], body("insufficient_quota")),
    ])
    .await;
    let model = fake.model(MODEL);
    let long = call(model.as_ref(), hello()).await.unwrap_err();
    assert!(matches!(long, ModelError::ContextTooLong { .. }), "{long:?}");
    let empty = call(model.as_ref(), hello()).await.unwrap_err();
    assert!(matches!(empty, ModelError::Quota { .. }), "{empty:?}");
    assert_eq!(fake.seen().len(), 2);
}

#[tokio::test]
async fn a_local_ollama_lists_its_models_and_answers_without_a_key() {
    let list = json!({"models": [{"name": "qwen3:8b", "size": 1}, {"name": "x"}]});
    let answer = chunks(&[delta(json!({"content": "hi"})), stop("stop")]);
    let fake = Fake::start([Reply::Status(200, vec![], list), Reply::Stream(answer)]).await;
    let models = pitcrew_model::ollama_models(&fake.endpoints()).await.unwrap();
    assert_eq!(models, ["qwen3:8b", "x"]);
    let model = fake.model("ollama/qwen3:8b");
    assert_eq!(model.id(), "ollama/qwen3:8b");
    call(model.as_ref(), hello()).await.unwrap();
    let seen = fake.seen();
    assert_eq!(
        (seen[0].path.as_str(), seen[1].path.as_str()),
        ("/api/tags", "/v1/chat/completions")
    );
    assert!(!seen[1].headers.contains_key("authorization"));
}

#[tokio::test]
async fn a_reply_that_is_no_stream_is_an_error_and_not_tried_again() {
    let json = vec![("content-type", "application/json")];
    let page = vec![("content-type", "text/html; charset=utf-8")];
    let fake = Fake::start([
        Reply::Status(200, json, json!({"error": {"code": 400, "message": "no such model"}})),
        Reply::Status(200, page, json!("a page")),
    ])
    .await;
    let model = fake.model(MODEL);
    let error = call(model.as_ref(), hello()).await.unwrap_err();
    insta::assert_snapshot!(error, @"openai answered 200: no such model");
    let error = call(model.as_ref(), hello()).await.unwrap_err();
    insta::assert_snapshot!(error, @"openai answered 200: a page");
}
