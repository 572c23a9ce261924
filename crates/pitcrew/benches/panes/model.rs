//! A model server on the loopback interface that uses the Messages API. The server streams the
//! answers that the benchmark chooses, and reports the arrival time of each request.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::Response;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

/// The capacity of the queue of requests that the benchmark has not read yet. The capacity is
/// enough, because the benchmark has fewer agents than this.
const REQUESTS: usize = 64;

/// The maximum wait for a request. After this time, the benchmark fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request to the model, and the channel through which the benchmark answers it.
pub(crate) struct Asked {
    /// The time at which the request arrived.
    pub(crate) at: Instant,
    /// The name of the requested model. The lead and the teammates use different models.
    pub(crate) model: String,
    answer: oneshot::Sender<Say>,
}

/// An answer of the model.
pub(crate) enum Say {
    /// The model says a text, which ends the turn.
    Text(&'static str),
    /// The model calls a tool. The fields are the name of the tool and its input.
    Call(&'static str, Value),
}

/// The model server, and the queue of requests that it received.
pub(crate) struct Model {
    pub(crate) url: String,
    runtime: Runtime,
    asked: mpsc::Receiver<Asked>,
}

impl Model {
    pub(crate) fn start() -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let (sender, asked) = mpsc::channel(REQUESTS);
        let listener =
            runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let router = Router::new().fallback(serve).with_state(sender);
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { url, runtime, asked }
    }

    /// Waits for the next request to the model `model`, and returns this request. Requests to other
    /// models get a short answer.
    pub(crate) fn asked(&mut self, model: &str) -> Asked {
        let next = async {
            while let Some(asked) = self.asked.recv().await {
                if asked.model == model {
                    return asked;
                }
                asked.say(Say::Text("Done."));
            }
            panic!("the model has ended");
        };
        let within = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, next).await });
        within.unwrap_or_else(|_| panic!("nothing was asked of {model}"))
    }
}

impl Asked {
    pub(crate) fn say(self, say: Say) {
        // The agent that sent the request may have ended, so the result is ignored.
        let _ = self.answer.send(say);
    }
}

async fn serve(State(requests): State<mpsc::Sender<Asked>>, body: Bytes) -> Response<Body> {
    let at = Instant::now();
    let body: Value = serde_json::from_slice(&body).expect("a request");
    let model = body.get("model").and_then(Value::as_str).expect("a model").to_owned();
    let (answer, said) = oneshot::channel();
    let asked = Asked { at, model, answer };
    requests.send(asked).await.expect("the benchmark goes on");
    let said = said.await.unwrap_or(Say::Text("Done."));
    let pieces = stream::iter(events(said).into_iter().map(Ok::<_, Infallible>));
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(Body::from_stream(pieces))
        .expect("an answer")
}

fn events(say: Say) -> Vec<String> {
    let usage = json!({"input_tokens": 1000, "output_tokens": 1});
    let id = uuid::Uuid::new_v4();
    let message = json!({"id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage});
    let (block, delta, reason) = match say {
        Say::Text(text) => (
            json!({"type": "text", "text": ""}),
            json!({"type": "text_delta", "text": text}),
            "end_turn",
        ),
        Say::Call(name, input) => (
            json!({"type": "tool_use", "id": format!("toolu_{id}"), "name": name, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": input.to_string()}),
            "tool_use",
        ),
    };
    let events = [
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 50}}),
        json!({"type": "message_stop"}),
    ];
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}
