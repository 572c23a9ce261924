//! A fake model server. It sends prepared answers, and records the requests.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Response, Uri};
use futures_util::{Stream, StreamExt, stream};
use pitcrew_model::{
    AgentTag, Endpoints, Message, Model, ModelError, ModelSpec, Pace, Request, RetryPolicy,
    StreamEvent, ToolSpec,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// One prepared answer of the fake server.
pub(crate) enum Reply {
    /// An error response with this status, these headers and this body.
    Status(u16, Vec<(&'static str, &'static str)>, Value),
    /// A stream that consists of these pieces.
    Stream(Vec<String>),
    /// A stream that consists of these pieces. After them, the connection breaks.
    Cut(Vec<String>),
    /// A stream that consists of these pieces. After them, the last argument is sent for ever.
    Endless(Vec<String>, String),
    /// A response without a stream, with this status. Its body is the text, for ever.
    EndlessBody(u16, String),
    /// A stream of bytes that the test sends through this channel.
    Live(mpsc::UnboundedReceiver<Vec<u8>>),
}

/// A request that the server received.
#[derive(Debug, Clone)]
pub(crate) struct SeenRequests {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

pub(crate) struct Fake {
    url: String,
    shared: Arc<Shared>,
    server: tokio::task::JoinHandle<()>,
}

struct Shared {
    replies: Mutex<VecDeque<Reply>>,
    seen: Mutex<Vec<SeenRequests>>,
}

impl Fake {
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let shared = Arc::new(Shared {
            replies: Mutex::new(replies.into_iter().collect()),
            seen: Mutex::new(Vec::new()),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move {
            axum::serve(listener, router).await.unwrap();
        });
        Self { url, shared, server }
    }

    pub(crate) fn seen(&self) -> Vec<SeenRequests> {
        self.shared.seen.lock().unwrap().clone()
    }

    pub(crate) fn endpoints(&self) -> Endpoints {
        let variables = [
            ("ANTHROPIC_BASE_URL", self.url.clone()),
            ("ANTHROPIC_API_KEY", "sk-ant".to_owned()),
            ("OPENAI_BASE_URL", format!("{}/v1", self.url)),
            ("OPENAI_API_KEY", "sk-oai".to_owned()),
            ("OLLAMA_HOST", self.url.clone()),
        ];
        Endpoints::from_lookup(|name| {
            variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| value.clone())
        })
    }

    pub(crate) fn model(&self, spec: &str) -> Arc<dyn Model> {
        self.model_at_pace(spec, &Pace::new())
    }

    pub(crate) fn model_at_pace(&self, spec: &str, pace: &Pace) -> Arc<dyn Model> {
        let spec: ModelSpec = spec.parse().unwrap();
        let quick = RetryPolicy {
            first_delay: std::time::Duration::from_millis(1),
            ..RetryPolicy::default()
        };
        pitcrew_model::open(&spec, &self.endpoints(), pace, &quick).unwrap()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let body = serde_json::from_slice(&body).unwrap_or_default();
    shared.seen.lock().unwrap().push(SeenRequests { path: uri.path().to_owned(), headers, body });
    let reply = shared.replies.lock().unwrap().pop_front().expect("a reply for every request");
    match reply {
        Reply::Status(status, headers, body) => {
            let response = headers
                .into_iter()
                .fold(Response::builder().status(status), |response, (name, value)| {
                    response.header(name, value)
                });
            response.body(Body::from(body.to_string())).unwrap()
        }
        Reply::Stream(pieces) => {
            streaming(stream::iter(pieces.into_iter().map(Ok::<_, Infallible>)))
        }
        Reply::Cut(pieces) => {
            let pieces = pieces.into_iter().map(Ok);
            streaming(stream::iter(pieces.chain([Err(io::Error::other("cut"))])))
        }
        Reply::Endless(pieces, again) => {
            let pieces = stream::iter(pieces.into_iter().map(Bytes::from));
            let again = stream::repeat(Bytes::from(again));
            streaming(pieces.chain(again).map(Ok::<_, Infallible>))
        }
        Reply::EndlessBody(status, again) => {
            let again = stream::repeat(Bytes::from(again)).map(Ok::<_, Infallible>);
            Response::builder().status(status).body(Body::from_stream(again)).unwrap()
        }
        Reply::Live(pieces) => streaming(stream::unfold(pieces, |mut pieces| async {
            let piece = pieces.recv().await?;
            Some((Ok::<_, Infallible>(piece), pieces))
        })),
    }
}

fn streaming<P, E>(pieces: impl Stream<Item = Result<P, E>> + Send + 'static) -> Response<Body>
where
    P: Into<Bytes> + 'static,
    E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
{
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(Body::from_stream(pieces))
        .unwrap()
}

/// Formats events of the Messages API for a stream. Each event becomes one piece.
pub(crate) fn messages(events: &[Value]) -> Vec<String> {
    let write = |event: &Value| {
        let name = event["type"].as_str().unwrap_or_default();
        format!("event: {name}\ndata: {event}\n\n")
    };
    events.iter().map(write).collect()
}

/// Formats chunks of a chat completion for a stream. Each chunk becomes one piece.
pub(crate) fn chunks(chunks: &[Value]) -> Vec<String> {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

/// Returns the pieces of a stream with a complete message, which contains one text.
pub(crate) fn message_saying(text: &str) -> Vec<String> {
    messages(&[
        json!({"type": "message_start", "message": {"id": "msg_1", "model": "claude-x", "usage": {"input_tokens": 3}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}),
        json!({"type": "message_stop"}),
    ])
}

pub(crate) fn request(messages: Vec<Message>) -> Request {
    Request {
        agent: AgentTag { name: "bob".to_owned(), team: Some("crew".to_owned()) },
        system: vec!["You are bob.".into(), "Be brief.".into()],
        messages: messages.into(),
        tools: Arc::new([ToolSpec {
            name: "Bash".to_owned(),
            description: "Runs a command.".to_owned(),
            input_schema: json!({"type": "object"}),
        }]),
        max_output_tokens: 1000,
    }
}

/// Makes a model call and returns all its events.
pub(crate) async fn call(
    model: &dyn Model,
    messages: Vec<Message>,
) -> Result<Vec<StreamEvent>, ModelError> {
    let events: Vec<_> = model.respond(request(messages)).collect().await;
    events.into_iter().collect()
}

/// Returns the answer in the last event, and checks that only one event contains an answer.
pub(crate) fn finished(events: &[StreamEvent]) -> pitcrew_model::Response {
    let is_finished = |event: &&StreamEvent| matches!(event, StreamEvent::Finished(_));
    assert_eq!(events.iter().filter(is_finished).count(), 1);
    match events.last() {
        Some(StreamEvent::Finished(response)) => response.clone(),
        other => panic!("the last event is {other:?}"),
    }
}
