//! Tests the Messages API against a fake server.

use futures_util::StreamExt;
use pitcrew_model::{
    Block, Endpoints, Message, ModelError, Pace, RetryPolicy, StopReason, StreamEvent, Usage,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::fake::{Fake, Reply, call, finished, message_saying, messages, request};

const MODEL: &str = "anthropic/claude-x";

fn hello() -> Vec<Message> {
    vec![Message::user(vec![Block::text("hello")])]
}

#[tokio::test]
async fn a_call_sends_the_conversation_and_returns_text_thoughts_calls_and_usage() {
    let said = messages(&[
        json!({"type": "message_start", "message": {"id": "msg_1", "model": "claude-x-1", "usage": {"input_tokens": 7, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 3, "output_tokens": 1}}}),
        json!({"type": "ping"}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"command\":"}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "\"ls\"}"}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 20}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 20}}),
        json!({"type": "message_stop"}),
    ]);
    let fake = Fake::start([Reply::Stream(said)]).await;
    let events = call(fake.model(MODEL).as_ref(), hello()).await.unwrap();
    assert_eq!(events[0], StreamEvent::ThinkingDelta("hm".to_owned()));
    assert_eq!(events[1], StreamEvent::ToolStarted { name: "Bash".to_owned() });
    let response = finished(&events);
    assert_eq!(
        response.blocks,
        [Block::thinking("hm", "c2ln"), Block::tool_use("t1", "Bash", json!({"command": "ls"}))]
    );
    assert_eq!(response.stop, StopReason::ToolUse);
    assert_eq!((response.id.as_str(), response.model.as_str()), ("msg_1", "claude-x-1"));
    let usage = Usage {
        input_tokens: 7,
        output_tokens: 20,
        cache_creation_input_tokens: 2,
        cache_read_input_tokens: 3,
    };
    assert_eq!(response.usage, usage);

    let seen = &fake.seen()[0];
    assert_eq!(seen.path, "/v1/messages");
    assert_eq!(seen.headers["x-api-key"], "sk-ant");
    assert_eq!(seen.headers["content-type"], "application/json");
    assert!(
        !seen.headers.contains_key("transfer-encoding"),
        "not every server takes a body in chunks"
    );
    assert_eq!(seen.headers["content-length"], seen.body.to_string().len().to_string().as_str());
    assert_eq!(seen.headers["anthropic-version"], "2023-06-01");
    let cached = json!({"type": "ephemeral"});
    let expected = json!({
        "model": "claude-x",
        "max_tokens": 1000,
        "stream": true,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello", "cache_control": cached}]}],
        "system": [{"type": "text", "text": "You are bob."}, {"type": "text", "text": "Be brief.", "cache_control": cached}],
        "tools": [{"name": "Bash", "description": "Runs a command.", "input_schema": {"type": "object"}, "cache_control": cached}],
    });
    assert_eq!(seen.body, expected);
}

#[tokio::test]
async fn text_is_told_while_the_server_still_writes() {
    let (server, pieces) = mpsc::unbounded_channel();
    let fake = Fake::start([Reply::Live(pieces)]).await;
    let mut events = fake.model(MODEL).respond(request(hello()));
    let whole = message_saying("héllo").concat();
    let inside_letter = whole.find("\"héllo").unwrap() + 3;
    let bytes = whole.as_bytes();
    let delta_length =
        bytes[inside_letter..].windows(2).position(|two| two == b"\n\n").unwrap() + 2;
    let after_delta = inside_letter + delta_length;
    server.send(bytes[..inside_letter].to_vec()).unwrap();
    server.send(bytes[inside_letter..after_delta].to_vec()).unwrap();
    let told = events.next().await.unwrap().unwrap();
    assert_eq!(told, StreamEvent::TextDelta("héllo".to_owned()));
    server.send(bytes[after_delta..].to_vec()).unwrap();
    assert!(matches!(events.next().await, Some(Ok(StreamEvent::Finished(_)))));
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn a_bearer_token_serves_where_there_is_no_key() {
    let fake = Fake::start([Reply::Stream(message_saying("hi"))]).await;
    let endpoints = Endpoints {
        anthropic_auth_token: Some(pitcrew_model::Secret::new("tok")),
        anthropic_base_url: fake.endpoints().anthropic_base_url,
        ..Endpoints::default()
    };
    let spec = MODEL.parse().unwrap();
    let model =
        pitcrew_model::open(&spec, &endpoints, &Pace::new(), &RetryPolicy::default()).unwrap();
    call(model.as_ref(), hello()).await.unwrap();
    let seen = &fake.seen()[0];
    assert_eq!(seen.headers["authorization"], "Bearer tok");
    assert!(!seen.headers.contains_key("x-api-key"));
}

#[tokio::test]
async fn a_missing_key_is_told_before_anything_is_called() {
    let spec = MODEL.parse().unwrap();
    let opened =
        pitcrew_model::open(&spec, &Endpoints::default(), &Pace::new(), &RetryPolicy::default());
    insta::assert_snapshot!(opened.err().unwrap(), @"anthropic needs a key: set ANTHROPIC_API_KEY");
}

/// Checks that the request is sent again if the stream ends too early. The answer must then be the
/// complete second answer.
async fn check_cut(reply: Reply) {
    let fake = Fake::start([reply, Reply::Stream(message_saying("whole"))]).await;
    let events = call(fake.model(MODEL).as_ref(), hello()).await.unwrap();
    assert!(events.iter().any(|event| matches!(event, StreamEvent::Waiting { .. })));
    assert_eq!(finished(&events).blocks, [Block::text("whole")]);
    let seen = fake.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].body, seen[1].body);
}

#[tokio::test]
async fn a_stream_cut_in_the_middle_is_asked_for_again_as_a_whole() {
    let half = || message_saying("half").into_iter().take(3).collect::<Vec<_>>();
    check_cut(Reply::Cut(half())).await;
    // The server closes the connection normally, but in the middle of the message.
    check_cut(Reply::Stream(half())).await;
    check_cut(Reply::Stream(vec!["data: {\"type\": \"mess".to_owned()])).await;
    check_cut(Reply::Stream(vec!["data: {\"type\": \"mess\n\n".to_owned()])).await;
}

#[tokio::test]
async fn an_overloaded_service_is_called_again_whether_it_says_so_by_status_or_in_the_stream() {
    let body =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    check_cut(Reply::Status(529, vec![], body.clone())).await;
    check_cut(Reply::Stream(messages(&[body]))).await;
    check_cut(Reply::Status(503, vec![], json!("bad gateway"))).await;
}

#[tokio::test]
async fn a_rate_limit_of_one_model_makes_the_others_of_its_team_wait() {
    let body =
        json!({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}});
    let limited = Reply::Status(429, vec![("retry-after", "60")], body);
    let fake = Fake::start([limited, Reply::Stream(message_saying("hi"))]).await;
    let pace = Pace::new();
    let mut first = fake.model_at_pace(MODEL, &pace).respond(request(hello()));
    let Some(Ok(StreamEvent::Waiting { reason, delay })) = first.next().await else {
        panic!("the first call is told to wait");
    };
    assert_eq!(delay.as_secs(), 60);
    insta::assert_snapshot!(reason, @"anthropic limits the rate of requests: slow down");

    let mut second = fake.model_at_pace("openai/y", &pace).respond(request(hello()));
    let told = second.next().await;
    assert!(matches!(told, Some(Ok(StreamEvent::Waiting { .. }))), "{told:?}");
    let stranger = call(fake.model(MODEL).as_ref(), hello()).await.unwrap();
    assert_eq!(finished(&stranger).blocks, [Block::text("hi")]);
    assert_eq!(fake.seen().len(), 2, "the second model of the team has not called");
}

/// Makes the server answer with an error. Returns the error of the call, and checks that the
/// request was sent only once.
async fn check_final(status: u16, body: Value) -> ModelError {
    let fake = Fake::start([Reply::Status(status, vec![], body)]).await;
    let error = call(fake.model(MODEL).as_ref(), hello()).await.unwrap_err();
    assert_eq!(fake.seen().len(), 1);
    error
}

#[tokio::test]
async fn what_waiting_does_not_mend_is_not_tried_again() {
    let error = |kind: &str, message: &str| json!({"type": "error", "error": {"type": kind, "message": message}});
    let refused = check_final(401, error("authentication_error", "invalid x-api-key")).await;
    insta::assert_snapshot!(refused, @"anthropic refused the key (401): invalid x-api-key");
    let invalid = check_final(400, error("invalid_request_error", "no such field")).await;
    insta::assert_snapshot!(invalid, @"anthropic answered 400 invalid_request_error: no such field");
    let unknown = check_final(404, json!({})).await;
    insta::assert_snapshot!(unknown, @"anthropic answered 404: {}");
}

#[tokio::test]
async fn an_over_long_conversation_is_an_error_of_its_own() {
    let message = "prompt is too long: 210000 tokens > 200000 maximum";
    let body =
        json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
    let error = check_final(400, body).await;
    assert!(matches!(error, ModelError::ContextTooLong { .. }), "{error:?}");
}

#[tokio::test]
async fn an_answer_with_thoughts_unknown_blocks_and_a_broken_call_goes_back_as_it_came() {
    let said = messages(&[
        json!({"type": "message_start", "message": {"id": "m", "model": "c", "usage": {}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "zzz"}}),
        json!({"type": "content_block_start", "index": 2, "content_block": {"type": "hologram", "beams": 2}}),
        json!({"type": "content_block_start", "index": 3, "content_block": {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}}),
        json!({"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": "{\"command\": \"l"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}}),
        json!({"type": "message_stop"}),
    ]);
    let fake = Fake::start([Reply::Stream(said), Reply::Stream(message_saying("ok"))]).await;
    let model = fake.model(MODEL);
    let first = finished(&call(model.as_ref(), hello()).await.unwrap());
    assert_eq!(first.blocks[3].invalid_input(), Some("{\"command\": \"l"));

    // Write the answer as JSON and read it again, as a transcript does.
    let answer = serde_json::to_string(&Message::assistant(first.blocks)).unwrap();
    let mut conversation = hello();
    conversation.push(serde_json::from_str(&answer).unwrap());
    conversation.push(Message::user(vec![Block::tool_error("t", "the input is no JSON")]));
    call(model.as_ref(), conversation).await.unwrap();
    let expected = json!([
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "zzz"},
        {"type": "hologram", "beams": 2},
        {"type": "tool_use", "id": "t", "name": "Bash", "input": {"invalid_input": "{\"command\": \"l"}},
    ]);
    assert_eq!(fake.seen()[1].body["messages"][1]["content"], expected);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_with_its_cause() {
    let fake = Fake::start([]).await;
    let endpoints =
        Endpoints { anthropic_base_url: Some("http://127.0.0.1:1".to_owned()), ..fake.endpoints() };
    let model = pitcrew_model::open(
        &MODEL.parse().unwrap(),
        &endpoints,
        &Pace::new(),
        &RetryPolicy::default(),
    )
    .unwrap();
    let told = model.respond(request(hello())).next().await;
    let Some(Ok(StreamEvent::Waiting { reason, .. })) = told else {
        panic!("the call waits for the server, but: {told:?}");
    };
    assert!(reason.starts_with("anthropic cannot be reached at http://127.0.0.1:1: "), "{reason}");
    assert!(reason.contains("refused"), "{reason}");
}

#[tokio::test]
async fn a_call_of_a_tool_that_was_not_offered_is_passed_on_for_the_agent_to_answer() {
    let said = messages(&[
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "Teleport", "input": {}}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}}),
        json!({"type": "message_stop"}),
    ]);
    let fake = Fake::start([Reply::Stream(said), Reply::Stream(message_saying("sorry"))]).await;
    let model = fake.model(MODEL);
    let response = finished(&call(model.as_ref(), hello()).await.unwrap());
    assert_eq!(response.blocks, [Block::tool_use("t", "Teleport", json!({}))]);

    let mut conversation = hello();
    conversation.push(Message::assistant(response.blocks));
    conversation.push(Message::user(vec![Block::tool_error("t", "no such tool: Teleport")]));
    let next = finished(&call(model.as_ref(), conversation).await.unwrap());
    assert_eq!(next.blocks, [Block::text("sorry")]);
    let answer = &fake.seen()[1].body["messages"][2]["content"][0];
    assert_eq!((&answer["is_error"], &answer["tool_use_id"]), (&json!(true), &json!("t")));
}
