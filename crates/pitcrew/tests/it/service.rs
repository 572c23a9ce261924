//! A model service on the loopback interface. The test decides how the service answers. The service
//! records the requests that it receives.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::Response;
use futures_util::{StreamExt as _, stream};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::models_over_http::{Heard, Say, as_messages, heard};
use crate::test_env::{Ran, TestEnv};

/// The answer of the service to a request.
pub(crate) enum Reply {
    /// The model answers with these texts and tool calls.
    Say(Vec<Say>),
    /// The model says the text in the first field, and stops for the reason in the second field.
    Stop(&'static str, &'static str),
    /// The service refuses the request. The fields are the HTTP status, an optional header, and the
    /// body.
    Refuse(u16, Option<(&'static str, &'static str)>, Value),
    /// The service sends a stream that begins with the text in the first field. After it, the text
    /// in the second field is sent for ever.
    Endless(String, String),
    /// The service sends exactly these bytes. Then it closes the connection or leaves the
    /// connection open.
    Raw(Raw),
}

/// An HTTP answer whose body is given as raw bytes.
pub(crate) struct Raw {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
    pub(crate) stays_open: bool,
}

type Behaviour = Box<dyn Fn(&Heard, &Value) -> Reply + Send + Sync>;

struct Shared {
    behaviour: Mutex<Behaviour>,
    seen: Mutex<Vec<Value>>,
}

/// A running model service, and the requests that it received.
pub(crate) struct Service {
    url: String,
    shared: Arc<Shared>,
    _runtime: Runtime,
}

impl Service {
    pub(crate) fn start(
        behaviour: impl Fn(&Heard, &Value) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let shared =
            Arc::new(Shared { behaviour: Mutex::new(Box::new(behaviour)), seen: Mutex::default() });
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(serve).with_state(Arc::clone(&shared));
        runtime.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, shared, _runtime: runtime }
    }

    pub(crate) fn behave(
        &self,
        behaviour: impl Fn(&Heard, &Value) -> Reply + Send + Sync + 'static,
    ) {
        *self.shared.behaviour.lock().unwrap() = Box::new(behaviour);
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn seen(&self) -> Vec<Value> {
        self.shared.seen.lock().unwrap().clone()
    }

    pub(crate) fn command(&self, room: &TestEnv, args: &[&str]) -> std::process::Command {
        let mut command = room.command(args);
        command.args(["--model", "anthropic/claude-opus-5-5"]);
        command.env("ANTHROPIC_BASE_URL", &self.url).env("ANTHROPIC_API_KEY", "sk-test");
        command
    }

    pub(crate) fn run(&self, room: &TestEnv, args: &[&str]) -> Ran {
        Ran::of(self.command(room, args).output().unwrap())
    }
}

async fn serve(State(shared): State<Arc<Shared>>, body: Bytes) -> Response<Body> {
    let body: Value = serde_json::from_slice(&body).unwrap();
    let nth = {
        let mut seen = shared.seen.lock().unwrap();
        seen.push(body.clone());
        seen.len()
    };
    let reply = shared.behaviour.lock().unwrap()(&heard(&body), &body);
    match reply {
        Reply::Say(says) => streamed(as_messages(&says, nth)),
        Reply::Stop(text, reason) => {
            let pieces = as_messages(&[Say::Text(text)], nth);
            streamed(pieces.into_iter().map(|piece| piece.replace("end_turn", reason)).collect())
        }
        Reply::Refuse(status, header, body) => {
            let mut response =
                Response::builder().status(status).header("content-type", "application/json");
            if let Some((name, value)) = header {
                response = response.header(name, value);
            }
            response.body(Body::from(body.to_string())).unwrap()
        }
        Reply::Endless(first, again) => {
            let pieces = stream::once(std::future::ready(Bytes::from(first)));
            let pieces = pieces.chain(stream::repeat(Bytes::from(again)));
            Response::builder()
                .header("content-type", "text/event-stream")
                .body(Body::from_stream(pieces.map(Ok::<_, Infallible>)))
                .unwrap()
        }
        Reply::Raw(Raw { status, content_type, body, stays_open }) => {
            let response = Response::builder().status(status).header("content-type", content_type);
            let said = stream::iter([Ok::<_, Infallible>(body)]);
            if !stays_open {
                return response.body(Body::from_stream(said)).unwrap();
            }
            response.body(Body::from_stream(said.chain(stream::pending()))).unwrap()
        }
    }
}

fn streamed(pieces: Vec<String>) -> Response<Body> {
    let pieces = stream::iter(pieces.into_iter().map(Ok::<_, Infallible>));
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(Body::from_stream(pieces))
        .unwrap()
}
