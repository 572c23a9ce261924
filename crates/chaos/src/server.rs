//! The fake model server. It implements the streaming Messages API and records the requests. The
//! module `brain` decides each answer.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::Response;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::brain::{Heard, Say, Wanted, World, call_id, decide, tokens_in};
use crate::chance::Chance;
use crate::error::Error;
use crate::harm::{ModelFault, Whose};
use crate::plan::Plan;
use crate::server_faults::{Failing, bad_answer};

/// A text that contains a unique token. An agent tried to send this text as a message, or to write
/// it with a command.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The unique token in the text.
    pub token: String,
    /// The agent that tried to send or write the text.
    pub from: String,
    /// The receiver of the message. `None` for a command.
    pub to: Option<String>,
    /// The id of the tool call.
    pub call: String,
}

/// What the server has learned from all requests.
#[derive(Clone, Debug, Default)]
pub struct SeenRequests {
    /// The content of each agent's newest request.
    pub latest: BTreeMap<String, Heard>,
    /// How often a token occurs in one request of an agent, by agent and token. If the requests
    /// differ, the largest number counts.
    pub most: BTreeMap<(String, String), usize>,
    /// All tool calls by their ids. The value is the newest result of the call: its text, and true
    /// if it is an error.
    pub results: BTreeMap<String, Option<(String, bool)>>,
    /// The texts with tokens that agents tried to send or to write.
    pub tried: Vec<Tried>,
    /// The errors of steps that agents gave up, because the steps failed too often.
    pub given_up: Vec<String>,
    /// The number of requests of each agent.
    pub counts: BTreeMap<String, u64>,
}

/// A running fake model server.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    plan: Plan,
    may_end: AtomicBool,
    numbers: AtomicU64,
    asked: AtomicU64,
    seen: Mutex<SeenRequests>,
    failing: Mutex<Failing>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Starts a fake model server for one run, on a port of its own.
    ///
    /// # Errors
    /// An error if no port is available.
    pub async fn start(plan: Plan) -> Result<Self, Error> {
        let action = |source| Error::Io { action: "listen on a loopback port".to_owned(), source };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.map_err(action)?;
        let address = listener.local_addr().map_err(action)?;
        let shared = Arc::new(Shared {
            plan,
            may_end: AtomicBool::new(false),
            numbers: AtomicU64::new(1),
            asked: AtomicU64::new(0),
            seen: Mutex::default(),
            failing: Mutex::default(),
        });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move {
            // The server never ends by itself. Its task is aborted at the end of the run.
            let _ended = axum::serve(listener, router).await;
        });
        Ok(Self { shared, address, task })
    }

    /// Returns the URL of this server.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Allows the agents to end the team.
    pub fn let_end(&self) {
        self.shared.may_end.store(true, Ordering::SeqCst);
    }

    /// Makes the next answers bad. `answers` is their maximum number.
    pub fn fail(&self, fault: ModelFault, whose: Whose, answers: u64) {
        self.failing().begin(fault, whose, answers);
    }

    /// Makes all answers good again.
    pub fn mend(&self) {
        self.failing().mend();
    }

    /// Returns the bad answers that were given since the last call of this function: the agent, and
    /// the kind of the answer.
    #[must_use]
    pub fn take_met(&self) -> Vec<(String, ModelFault)> {
        self.failing().take_met()
    }

    fn failing(&self) -> MutexGuard<'_, Failing> {
        self.shared.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of requests so far.
    #[must_use]
    pub fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::SeqCst)
    }

    /// Returns what the server has learned from all requests so far.
    #[must_use]
    pub fn seen(&self) -> SeenRequests {
        self.shared.seen().clone()
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, SeenRequests> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request, lets the module `brain` decide the answer, and records the tool calls in
    /// this answer.
    fn turn(&self, heard: Heard) -> (Vec<Value>, Duration) {
        let may_end = self.may_end.load(Ordering::SeqCst);
        let say = decide(&heard, World { plan: &self.plan, may_end });
        let agent = heard.agent.clone();
        let mut seen = self.seen();
        seen.take(heard);
        let number = self.numbers.fetch_add(1, Ordering::SeqCst);
        let blocks = match say {
            Say::Text(text) => vec![json!({"type": "text", "text": text})],
            Say::GivesUp(why) => {
                if !seen.given_up.contains(&why) {
                    seen.given_up.push(why.clone());
                }
                vec![json!({"type": "text", "text": why})]
            }
            Say::Calls(calls) => {
                calls.into_iter().map(|call| self.block(&mut seen, &agent, call)).collect()
            }
        };
        let mut chance = Chance::of(self.plan.seed, &format!("{agent} {number}"));
        (blocks, Duration::from_millis(chance.between(5, self.plan.turn_ms)))
    }

    fn block(
        &self,
        seen: &mut SeenRequests,
        agent: &str,
        Wanted { step, tool, mut input }: Wanted,
    ) -> Value {
        let number = self.numbers.fetch_add(1, Ordering::SeqCst);
        let id = call_id(agent, &step, number);
        let to = input["recipient"].as_str().map(str::to_owned);
        let token = format!("[[{agent}>{}:{step}:{number}]]", to.as_deref().unwrap_or("shell"));
        for field in ["content", "command"] {
            if let Some(Value::String(text)) = input.get_mut(field)
                && text.contains("{token}")
            {
                *text = text.replace("{token}", &token);
                seen.tried.push(Tried {
                    token: token.clone(),
                    from: agent.to_owned(),
                    to: to.clone(),
                    call: id.clone(),
                });
            }
        }
        seen.results.insert(id.clone(), None);
        json!({"type": "tool_use", "id": id, "name": tool, "input": input})
    }
}

impl SeenRequests {
    fn take(&mut self, heard: Heard) {
        *self.counts.entry(heard.agent.clone()).or_default() += 1;
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for token in tokens_in(&heard.told) {
            *places.entry(token).or_default() += 1;
        }
        for (token, count) in places {
            let most = self.most.entry((heard.agent.clone(), token.to_owned())).or_default();
            *most = count.max(*most);
        }
        for call in &heard.calls {
            if call.result.is_some() {
                self.results.insert(call.id.clone(), call.result.clone());
            }
        }
        self.latest.insert(heard.agent.clone(), heard);
    }
}

async fn answer(State(shared): State<Arc<Shared>>, body: Bytes) -> Response<Body> {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    shared.asked.fetch_add(1, Ordering::SeqCst);
    let heard = Heard::of(&body);
    let fault = shared.failing.lock().unwrap_or_else(PoisonError::into_inner).of(&heard.agent);
    if let Some(fault) = fault {
        shared.seen().take(heard);
        return bad_answer(fault);
    }
    let (blocks, delay) = shared.turn(heard);
    let tokens = body.to_string().len() / 4;
    let mut pieces = events(&blocks, tokens, shared.numbers.fetch_add(1, Ordering::SeqCst));
    let last = pieces.split_off(1);
    // The first part of the answer is sent immediately, and the last part after a delay. During the
    // delay, a crash can interrupt the answer.
    let rest = async move {
        tokio::time::sleep(delay).await;
        Ok::<_, Infallible>(last.concat())
    };
    let first = stream::iter([Ok(pieces.concat())]);
    let body = Body::from_stream(futures_util::StreamExt::chain(first, stream::once(rest)));
    let mut response = Response::new(body);
    response
        .headers_mut()
        .insert("content-type", axum::http::HeaderValue::from_static("text/event-stream"));
    response
}

/// Formats an answer as stream events of the Messages API.
fn events(blocks: &[Value], tokens: usize, number: u64) -> Vec<String> {
    let usage = json!({"input_tokens": tokens, "output_tokens": 1});
    let message = json!({
        "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "claude-opus-5-5",
        "content": [], "usage": usage,
    });
    let mut events = vec![json!({"type": "message_start", "message": message})];
    let mut reason = "end_turn";
    for (index, block) in blocks.iter().enumerate() {
        let (start, delta) = match block["text"].as_str() {
            Some(text) => {
                (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": text}))
            }
            None => {
                reason = "tool_use";
                let start = json!({"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}});
                let json = block["input"].to_string();
                (start, json!({"type": "input_json_delta", "partial_json": json}))
            }
        };
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 50}}));
    events.push(json!({"type": "message_stop"}));
    let line = |event: &Value| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
    };
    events.iter().map(line).collect()
}
