//! The model: a server on the loopback interface that uses the Messages API and keeps a whole team
//! at work.
//!
//! For each message that a teammate receives, the teammate's model sends one message to another
//! teammate, and then ends the turn. The number of messages in transit therefore stays the same for
//! the whole run, and a slow team makes fewer requests per second. Every few requests, the model
//! also runs a command, changes a task or lists all tasks.
//!
//! The server searches each request as bytes and never decodes the whole request, because
//! conversations are long.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::io::{BufRead as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::Response;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::options::{Options, teammate};

/// The goal of the run. It is the first prompt of the lead.
pub(crate) const GOAL: &str = "Spawn the team, and keep it at work.";

/// The names of the models. The server distinguishes the lead from the teammates by these names.
pub(crate) const LEAD_MODEL: &str = "soak-lead";
pub(crate) const TEAMMATE_MODEL: &str = "soak-teammate";

/// The name that this server uses for the lead.
const LEAD: &str = "lead";

/// The text before a teammate's name in the teammate's prompt.
const AGENT_MARK: &str = "soak-agent:";

/// The text before the number of a message, in the text of the message.
const MAIL_MARK: &str = "soak-mail:";

/// The number of teammates that the lead spawns in one answer. The same answer creates one task for
/// each of them.
const CALLS_AT_ONCE: usize = 7;

/// The number of characters of a message, without its mark and its number.
const MESSAGE_CHARS: usize = 400;

const SUMMARY_CHARS: usize = 2_000;

/// A message that has not arrived after this time counts as lost.
const LOST_AFTER: Duration = Duration::from_secs(60);

/// Counts and times that the model server has collected since the last reset.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ModelStats {
    /// The number of teammates that have made a request since the start of the run.
    pub(crate) teammates: usize,
    /// The number of requests, without requests for a summary.
    pub(crate) requests: u64,
    /// The number of requests for a summary.
    pub(crate) summaries: u64,
    /// The number of messages that were sent. The field `arrived` is the number of messages that
    /// arrived in a request.
    pub(crate) sent: u64,
    pub(crate) arrived: u64,
    /// The number of messages that were sent more than [`LOST_AFTER`] ago and have not arrived.
    pub(crate) lost: u64,
    /// The size of all requests, in bytes.
    pub(crate) request_bytes: u64,
    /// For each message, the time from its sending to the request that contains it, in
    /// microseconds. The time for which the receiver's model was thinking is not included.
    pub(crate) mail_us: Vec<u64>,
    /// For each answer with tool calls, the time from the answer to the next request of the same
    /// agent, in microseconds.
    pub(crate) step_us: Vec<u64>,
}

#[derive(Default)]
struct Soak {
    agents: HashMap<String, AgentState>,
    spoken: HashSet<String>,
    on_their_way: HashMap<u64, MailOnItsWay>,
    next_mail: u64,
    stats: ModelStats,
}

#[derive(Default)]
struct AgentState {
    answered: Option<Answered>,
    requests: usize,
    owes: usize,
    spawned: usize,
}

#[derive(Clone, Copy)]
struct Answered {
    at: Instant,
    called_tools: bool,
}

struct MailOnItsWay {
    to: String,
    sent: Instant,
}

#[derive(Clone)]
struct Server {
    soak: Arc<Mutex<Soak>>,
    agents: usize,
    think: Duration,
}

/// The content of an answer.
enum Say {
    Text(String),
    Calls(Vec<(&'static str, Value)>),
}

/// Runs the server until the benchmark closes the server's standard input. First prints the address
/// of the server. Then prints one answer for each line of input.
pub(crate) fn serve(options: &Options) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let server = Server { soak: Arc::default(), agents: options.agents, think: options.think };
    let soak = Arc::clone(&server.soak);
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
    println!("http://{}", listener.local_addr().expect("an address"));
    let limit = axum::extract::DefaultBodyLimit::disable();
    let router = Router::new().fallback(answer).layer(limit).with_state(server);
    runtime.spawn(async move { axum::serve(listener, router).await });
    for question in std::io::stdin().lock().lines() {
        let question = question.expect("a question");
        let mut soak = soak.lock().unwrap_or_else(PoisonError::into_inner);
        soak.stats.teammates = soak.spoken.len();
        soak.stats.lost =
            soak.on_their_way.values().filter(|mail| mail.sent.elapsed() > LOST_AFTER).count()
                as u64;
        let stats =
            if question == "take" { std::mem::take(&mut soak.stats) } else { soak.stats.clone() };
        drop(soak);
        println!("{}", serde_json::to_string(&stats).expect("plain numbers"));
        std::io::stdout().flush().expect("the benchmark listens");
    }
}

async fn answer(State(server): State<Server>, body: Bytes) -> Response<Body> {
    let at = Instant::now();
    let agent = agent_of(&body);
    let wants_summary = !has_tools(&body);
    let drawn = server.soak().arrived(&agent, &body, at, wants_summary);
    // A message to a teammate that does not exist yet would be lost. The teammates therefore wait
    // here until each of them has made a request.
    while agent != LEAD && server.soak().spoken.len() + 1 < server.agents {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(server.think.mul_f64(0.75 + 0.5 * drawn)).await;
    let say = if wants_summary {
        Say::Text(words(SUMMARY_CHARS))
    } else {
        server.soak().say(&agent, server.agents)
    };
    let events = events(&say, body.len());
    server.soak().answered(&agent, &say);
    let pieces = stream::iter(events.into_iter().map(Ok::<_, Infallible>));
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(Body::from_stream(pieces))
        .expect("an answer")
}

impl Server {
    fn soak(&self) -> std::sync::MutexGuard<'_, Soak> {
        self.soak.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Soak {
    /// Counts a request. Returns a number between 0 and 1 that differs from request to request. The
    /// caller uses the number to vary the time for which the model thinks.
    fn arrived(&mut self, agent: &str, body: &[u8], at: Instant, wants_summary: bool) -> f64 {
        self.stats.request_bytes += body.len() as u64;
        let state = self.agents.entry(agent.to_owned()).or_default();
        let drawn = (state.requests * 37 + agent.bytes().map(usize::from).sum::<usize>()) % 100;
        state.requests += 1;
        if wants_summary {
            self.stats.summaries += 1;
            return drawn as f64 / 100.0;
        }
        self.stats.requests += 1;
        if agent != LEAD && self.spoken.insert(agent.to_owned()) {
            state.owes = 1;
        }
        if let Some(answered) = state.answered.filter(|answered| answered.called_tools) {
            self.stats.step_us.push(micros(at.duration_since(answered.at)));
        }
        for mail in mails_in(last_user_message(body)) {
            let Some(found) = self.on_their_way.get(&mail).filter(|found| found.to == agent) else {
                continue;
            };
            let since = state.answered.map_or(found.sent, |answered| answered.at.max(found.sent));
            self.stats.mail_us.push(micros(at.saturating_duration_since(since)));
            self.stats.arrived += 1;
            self.on_their_way.remove(&mail);
            state.owes += 1;
        }
        drawn as f64 / 100.0
    }

    fn say(&mut self, agent: &str, agents: usize) -> Say {
        let state = self.agents.entry(agent.to_owned()).or_default();
        if agent == LEAD {
            return state.lead_says(agents);
        }
        let me: usize = agent.trim_start_matches('w').parse().expect("a teammate's name");
        let (round, owes) = (state.requests, std::mem::take(&mut state.owes));
        if owes == 0 {
            return Say::Text(format!("I passed on what I was sent. {}", words(80)));
        }
        let mut calls = Vec::new();
        for nth in 0..owes {
            let to = teammate(
                (me - 1 + 1 + (round * 7 + nth * 13 + me) % (agents - 2)) % (agents - 1) + 1,
            );
            calls.push(("SendMessage", self.message(&to)));
        }
        let task = json!({"taskId": me.to_string(), "description": format!("Round {round}. {}", words(100))});
        let extras = [
            (5, "TaskUpdate", task),
            (7, "Bash", json!({"command": "seq 1 200", "description": "Count"})),
            (11, "TaskList", json!({})),
        ];
        calls.extend(
            extras
                .into_iter()
                .filter(|(each, ..)| round % each == 0)
                .map(|(_, tool, input)| (tool, input)),
        );
        Say::Calls(calls)
    }

    fn message(&mut self, to: &str) -> Value {
        self.next_mail += 1;
        let content = format!("{MAIL_MARK}{}; {}", self.next_mail, words(MESSAGE_CHARS));
        self.on_their_way
            .insert(self.next_mail, MailOnItsWay { to: to.to_owned(), sent: Instant::now() });
        self.stats.sent += 1;
        json!({"type": "message", "recipient": to, "content": content, "summary": "Passing it on"})
    }

    fn answered(&mut self, agent: &str, say: &Say) {
        let called_tools = matches!(say, Say::Calls(_));
        let state = self.agents.entry(agent.to_owned()).or_default();
        state.answered = Some(Answered { at: Instant::now(), called_tools });
    }
}

impl AgentState {
    /// Returns the next answer of the lead. For each place in the team, the lead creates a task and
    /// spawns a teammate. After that, the lead only reads messages.
    fn lead_says(&mut self, agents: usize) -> Say {
        let next: Vec<usize> = (self.spawned + 1..agents).take(CALLS_AT_ONCE).collect();
        self.spawned += next.len();
        if next.is_empty() {
            return Say::Text("Noted.".to_owned());
        }
        let task = |nth: usize| {
            let name = teammate(nth);
            ("TaskCreate", json!({"subject": format!("Work of {name}"), "description": words(100)}))
        };
        let spawn = |nth: usize| {
            let name = teammate(nth);
            let prompt =
                format!("{AGENT_MARK}{name}; Answer whoever writes to you. {}", words(200));
            let input = json!({"name": name, "subagent_type": "general-purpose", "description": "Work", "prompt": prompt});
            ("Task", input)
        };
        let tasks: Vec<_> = next.iter().map(|nth| task(*nth)).collect();
        Say::Calls(tasks.into_iter().chain(next.iter().map(|nth| spawn(*nth))).collect())
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the name of the agent that made the request. In a teammate's conversation, the first
/// [`AGENT_MARK`] is always in the teammate's prompt, even after a compaction.
fn agent_of(body: &[u8]) -> String {
    if !body.starts_with(format!("{{\"model\":\"{TEAMMATE_MODEL}\"").as_bytes()) {
        return LEAD.to_owned();
    }
    let after = after(body, AGENT_MARK).expect("an agent of the soak asks");
    let name = after.split(|byte| *byte == b';').next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// Whether the request offers tools. The tools are at the end of a request. A request for a summary
/// offers no tools.
fn has_tools(body: &[u8]) -> bool {
    rfind(body, b"],\"tools\":[{").is_some() || rfind(body, b"\"tools\":[{\"name\"").is_some()
}

fn last_user_message(body: &[u8]) -> &[u8] {
    // In the text of a message, quotes are escaped. The text of a message therefore never contains
    // this pattern.
    let at = rfind(body, b"{\"role\":\"user\"").unwrap_or(0);
    body.get(at..).unwrap_or_default()
}

fn mails_in(mut text: &[u8]) -> Vec<u64> {
    let mut mails = Vec::new();
    while let Some(rest) = after(text, MAIL_MARK) {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
        mails.push(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')));
        text = rest;
    }
    mails
}

fn after<'a>(text: &'a [u8], mark: &str) -> Option<&'a [u8]> {
    let mark = mark.as_bytes();
    let first = mark.first()?;
    let mut from = 0;
    // Search for the first byte only, because this is fast without a search library.
    while let Some(at) = text.get(from..)?.iter().position(|byte| byte == first) {
        let rest = text.get(from + at..)?;
        if let Some(rest) = rest.strip_prefix(mark) {
            return Some(rest);
        }
        from += at + 1;
    }
    None
}

fn rfind(text: &[u8], mark: &[u8]) -> Option<usize> {
    let first = mark.first()?;
    let mut end = text.len();
    while let Some(at) = text.get(..end)?.iter().rposition(|byte| byte == first) {
        if text.get(at..)?.starts_with(mark) {
            return Some(at);
        }
        end = at;
    }
    None
}

/// A text with the given number of characters.
fn words(chars: usize) -> String {
    "the build is green and the next part is on its way to review "
        .chars()
        .cycle()
        .take(chars)
        .collect()
}

fn events(say: &Say, request_bytes: usize) -> Vec<String> {
    // One token has about four characters.
    let usage = json!({"input_tokens": request_bytes / 4, "output_tokens": 1});
    let id = uuid::Uuid::new_v4();
    let message = json!({"id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": "soak", "content": [], "usage": usage});
    let mut events = vec![json!({"type": "message_start", "message": message})];
    let (blocks, reason) = match say {
        Say::Text(text) => {
            let delta = json!({"type": "text_delta", "text": text});
            (vec![(json!({"type": "text", "text": ""}), delta)], "end_turn")
        }
        Say::Calls(calls) => {
            let block = |(nth, (name, input)): (usize, &(&'static str, Value))| {
                let start = json!({"type": "tool_use", "id": format!("toolu_{id}_{nth}"), "name": name, "input": {}});
                (start, json!({"type": "input_json_delta", "partial_json": input.to_string()}))
            };
            (calls.iter().enumerate().map(block).collect(), "tool_use")
        }
    };
    for (index, (start, delta)) in blocks.into_iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 50}}));
    events.push(json!({"type": "message_stop"}));
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}
