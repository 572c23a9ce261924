//! Tests of `pitcrew run` with models over HTTP. A fake server streams the answers of the models.
//! No other part of the run is simulated.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Response, Uri};
use futures_util::stream;
use regex::Regex;
use serde_json::{Value, json};

use crate::test_env::{Ran, TestEnv};

/// A part of a model's answer: a text or a tool call.
pub(crate) enum Say {
    Text(&'static str),
    Call(&'static str, Value),
}

/// The content of the conversation in a request to the model. The fields are the same for requests
/// of the Messages API and of the chat completions API.
pub(crate) struct Heard {
    /// The user's first text.
    pub(crate) first: String,
    /// All texts in the conversation that the model did not write.
    pub(crate) told: String,
    /// The number of answers that the model gave.
    pub(crate) answers: usize,
    /// The tool calls of the model with their inputs, as one text.
    pub(crate) called: String,
}

/// The answers of a lead's model and of its teammates' models. The lead makes each of two teammates
/// write a file, and commits both files.
fn answer(heard: &Heard) -> Vec<Say> {
    let Heard { first, told, answers, called } = heard;
    for (name, file) in [("ann", "ann.txt"), ("bob", "bob.txt")] {
        if first.contains(&format!("ROLE:{name}")) {
            return mate(name, file, heard);
        }
    }
    let spawn = |name: &str| {
        let prompt = format!("ROLE:{name} write your file and tell me");
        Say::Call(
            "Task",
            json!({"name": name, "subagent_type": "general-purpose", "description": "write a file", "prompt": prompt}),
        )
    };
    if *answers == 0 {
        return vec![Say::Text("Two files, two teammates."), spawn("ann"), spawn("bob")];
    }
    if !(told.contains("ann is done") && told.contains("bob is done")) {
        return vec![Say::Text("I wait.")];
    }
    if !called.contains("git commit") {
        return vec![Say::Call(
            "Bash",
            json!({"command": "git add -A && git commit -q -m 'Two files'"}),
        )];
    }
    vec![Say::Text("Both files are written and committed.")]
}

/// The tool call with which a teammate agrees to its shutdown. If the teammate has got no shutdown
/// request, the result is `None`.
pub(crate) fn approval(heard: &Heard) -> Option<Vec<Say>> {
    static REQUEST: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"shutdown-[0-9]+[^@\\&\x22]*@[a-z]+").unwrap());
    let request =
        REQUEST.find(&heard.told).filter(|_| !heard.called.contains("shutdown_response"))?;
    let answer =
        json!({"type": "shutdown_response", "request_id": request.as_str(), "approve": true});
    Some(vec![Say::Call("SendMessage", answer)])
}

fn mate(name: &str, file: &str, heard: &Heard) -> Vec<Say> {
    if let Some(approval) = approval(heard) {
        return approval;
    }
    match heard.answers {
        0 => {
            vec![Say::Call("Write", json!({"file_path": file, "content": format!("by {name}\n")}))]
        }
        1 => {
            let content = format!("{name} is done");
            let message = json!({"type": "message", "recipient": "team-lead", "content": content, "summary": "done"});
            vec![Say::Call("SendMessage", message)]
        }
        _ => vec![Say::Text("I am done.")],
    }
}

/// Returns all texts in a JSON value. If a text is JSON itself, the texts inside it are included.
fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text}\n"),
        Value::Array(items) => items.iter().map(texts).collect(),
        Value::Object(fields) => fields.values().map(texts).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

pub(crate) fn heard(body: &Value) -> Heard {
    let messages: Vec<Value> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|m| m["role"] != "system")
        .cloned()
        .collect();
    let (own, others): (Vec<&Value>, Vec<&Value>) =
        messages.iter().partition(|message| message["role"] == "assistant");
    Heard {
        first: texts(&messages[0]),
        told: others.iter().map(|message| texts(message)).collect(),
        answers: own.len(),
        called: own.iter().map(|message| texts(message)).collect(),
    }
}

/// Returns the answer as events of the Messages API.
pub(crate) fn as_messages(says: &[Say], nth: usize) -> Vec<String> {
    let usage = json!({"input_tokens": 1000, "output_tokens": 1});
    let message = json!({"id": format!("msg_{nth}"), "type": "message", "role": "assistant", "model": "claude-opus-5-5", "content": [], "usage": usage});
    let mut events = vec![json!({"type": "message_start", "message": message})];
    for (index, say) in says.iter().enumerate() {
        let (block, deltas) = match say {
            Say::Text(text) => {
                let deltas = halves(text)
                    .map(|half| json!({"type": "text_delta", "text": half}))
                    .collect::<Vec<_>>();
                (json!({"type": "text", "text": ""}), deltas)
            }
            Say::Call(name, input) => {
                let input = input.to_string();
                let deltas = halves(&input)
                    .map(|half| json!({"type": "input_json_delta", "partial_json": half}))
                    .collect();
                (
                    json!({"type": "tool_use", "id": format!("toolu_{nth}_{index}"), "name": name, "input": {}}),
                    deltas,
                )
            }
        };
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.extend(
            deltas.into_iter().map(
                |delta| json!({"type": "content_block_delta", "index": index, "delta": delta}),
            ),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let reason = if calls(says) { "tool_use" } else { "end_turn" };
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 50}}));
    events.push(json!({"type": "message_stop"}));
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect()
}

/// Returns the answer as chunks of the chat completions API.
pub(crate) fn as_chunks(says: &[Say], nth: usize) -> Vec<String> {
    let chunk = |delta: Value, reason: Option<&str>| json!({"id": format!("chatcmpl-{nth}"), "model": "some-model", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
    let mut chunks = vec![chunk(json!({"role": "assistant", "content": ""}), None)];
    for (index, say) in says.iter().enumerate() {
        match say {
            Say::Text(text) => {
                chunks.extend(halves(text).map(|half| chunk(json!({"content": half}), None)))
            }
            Say::Call(name, input) => {
                let call = json!({"index": index, "id": format!("call_{nth}_{index}"), "type": "function", "function": {"name": name, "arguments": ""}});
                chunks.push(chunk(json!({"tool_calls": [call]}), None));
                let input = input.to_string();
                let more = |half| json!({"tool_calls": [{"index": index, "function": {"arguments": half}}]});
                chunks.extend(halves(&input).map(|half| chunk(more(half), None)));
            }
        }
    }
    chunks.push(chunk(json!({}), Some(if calls(says) { "tool_calls" } else { "stop" })));
    chunks.push(json!({"id": "x", "choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 50}}));
    let lines = chunks.iter().map(|chunk| format!("data: {chunk}\n\n"));
    lines.chain(["data: [DONE]\n\n".to_owned()]).collect()
}

fn calls(says: &[Say]) -> bool {
    says.iter().any(|say| matches!(say, Say::Call(..)))
}

/// Splits a text into two pieces, so that no text arrives in a single event.
fn halves(text: &str) -> std::array::IntoIter<String, 2> {
    let middle = text.chars().count() / 2;
    [text.chars().take(middle).collect(), text.chars().skip(middle).collect()].into_iter()
}

async fn serve(
    State(served): State<Arc<AtomicUsize>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["stream"], true);
    let nth = served.fetch_add(1, Ordering::SeqCst);
    let says = answer(&heard(&body));
    let pieces = if uri.path().ends_with("/messages") {
        assert_eq!(headers["x-api-key"], "sk-test");
        as_messages(&says, nth)
    } else {
        assert_eq!(headers["authorization"], "Bearer sk-test");
        as_chunks(&says, nth)
    };
    let pieces = stream::iter(pieces.into_iter().map(Ok::<_, Infallible>));
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(Body::from_stream(pieces))
        .unwrap()
}

/// Starts a model server that counts the model calls in `served`. Returns the server's address and
/// the task that runs the server.
pub(crate) async fn model_server(
    served: &Arc<AtomicUsize>,
) -> (String, tokio::task::JoinHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(serve).with_state(Arc::clone(served));
    (url, tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }))
}

fn git(room: &TestEnv, args: &[&str]) -> String {
    let output = room.tool("git", args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the lead with this model, and checks that both files are written and committed. Returns the
/// result event of the run.
async fn check(model: &'static str) -> Value {
    let served = Arc::new(AtomicUsize::new(0));
    let (url, server) = model_server(&served).await;
    let ran = tokio::task::spawn_blocking(move || {
        let room = TestEnv::new();
        git(&room, &["init", "-q"]);
        git(&room, &["config", "user.name", "test"]);
        git(&room, &["config", "user.email", "test@example.invalid"]);
        let mut run =
            room.command(&["run", "ROLE:lead have two files written", "--model", model, "--json"]);
        run.args([
            "--permission-mode",
            "acceptEdits",
            "--allow",
            "Bash(git add:*)",
            "--allow",
            "Bash(git commit:*)",
        ]);
        run.env("ANTHROPIC_BASE_URL", &url).env("ANTHROPIC_API_KEY", "sk-test");
        run.env("OPENAI_BASE_URL", format!("{url}/v1")).env("OPENAI_API_KEY", "sk-test");
        let ran = Ran::of(run.output().unwrap());
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(git(&room, &["ls-files"]), "ann.txt\nbob.txt\n");
        assert_eq!(git(&room, &["status", "--porcelain"]), "");
        ran
    });
    let ran = ran.await.unwrap();
    server.abort();
    assert!(served.load(Ordering::SeqCst) >= 9, "the server was hardly asked");
    serde_json::from_str(&ran.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_teammates_do_a_job_on_the_messages_api() {
    let result = check("anthropic/claude-opus-5-5").await;
    assert_eq!(result["result"], "Both files are written and committed.", "{result:#}");
    assert!(result["total_cost_usd"].as_f64().unwrap() > 0.0, "{result:#}");
    assert!(result["usage"]["input_tokens"].as_u64().unwrap() >= 9_000, "{result:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_teammates_do_a_job_on_chat_completions() {
    let result = check("openai/some-model").await;
    assert_eq!(result["result"], "Both files are written and committed.", "{result:#}");
    assert_eq!(result["total_cost_usd"], 0.0, "a model without a price costs nothing");
    assert!(result["usage"]["output_tokens"].as_u64().unwrap() >= 450, "{result:#}");
}
