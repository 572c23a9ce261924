//! Bad answers, which the fake model server gives on purpose.

use std::convert::Infallible;
use std::io;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, StatusCode};
use futures_util::stream::{self, Stream};
use serde_json::{Value, json};

use crate::harm::{ModelFault, Whose};

/// Models fail for at most this time. A resume can make them work again earlier.
const FAILS_FOR: Duration = Duration::from_secs(8);

/// A silent stream sends nothing for this time. Pitcrew stops waiting earlier in every run.
const SILENT_FOR: Duration = Duration::from_secs(60);

/// Whose answers are bad now, and which bad answers were given.
#[derive(Debug, Default)]
pub struct Failing {
    now: Option<Now>,
    met: Vec<(String, ModelFault)>,
}

#[derive(Debug)]
struct Now {
    fault: ModelFault,
    whose: Whose,
    /// The name of the teammate that gets the bad answers, if only one teammate gets them. It is
    /// the first teammate that sends a request.
    teammate: Option<String>,
    left: u64,
    until: Instant,
}

impl Failing {
    /// Makes the next answers bad. `answers` is their maximum number.
    pub fn begin(&mut self, fault: ModelFault, whose: Whose, answers: u64) {
        self.now = Some(Now {
            fault,
            whose,
            teammate: None,
            left: answers,
            until: Instant::now() + FAILS_FOR,
        });
    }

    /// Makes all answers good again.
    pub fn mend(&mut self) {
        self.now = None;
    }

    /// Returns the bad answers that were given since the last call of this function: the agent, and
    /// the kind of the answer.
    pub fn take_met(&mut self) -> Vec<(String, ModelFault)> {
        std::mem::take(&mut self.met)
    }

    /// Decides whether the next answer to an agent is bad. Returns the kind of the bad answer, or
    /// `None` for a good answer.
    pub fn of(&mut self, agent: &str) -> Option<ModelFault> {
        let now = self.now.as_mut().filter(|now| now.left > 0 && now.until > Instant::now())?;
        let is_lead = agent == "team-lead";
        let is_hit = match now.whose {
            Whose::Lead => is_lead,
            Whose::Teammate => !is_lead && now.teammate.as_deref().is_none_or(|name| name == agent),
            Whose::Everybody => true,
        };
        if !is_hit {
            return None;
        }
        now.left -= 1;
        now.teammate = Some(agent.to_owned());
        self.met.push((agent.to_owned(), now.fault));
        Some(now.fault)
    }
}

/// Builds a bad answer of the given kind.
#[must_use]
pub fn bad_answer(fault: ModelFault) -> Response<Body> {
    let refused = |status, kind: &str, message: &str| {
        let body = json!({"type": "error", "error": {"type": kind, "message": message}});
        answer(status, "application/json", Body::from(body.to_string()))
    };
    let limited = |seconds: &'static str| {
        let mut response = refused(429, "rate_limit_error", "slow down");
        response.headers_mut().insert("retry-after", HeaderValue::from_static(seconds));
        response
    };
    match fault {
        ModelFault::Unauthorized => refused(401, "authentication_error", "invalid x-api-key"),
        ModelFault::Forbidden => refused(403, "permission_error", "this key may not use the model"),
        ModelFault::NotFound => refused(404, "not_found_error", "model: claude-opus-5-5"),
        ModelFault::ShortLimit => limited("1"),
        ModelFault::LongLimit => limited("3600"),
        ModelFault::ServerError => refused(500, "api_error", "internal server error"),
        ModelFault::BadGateway => answer(
            502,
            "text/html",
            Body::from("<html><head><title>502</title></head><body>Bad Gateway</body></html>"),
        ),
        ModelFault::Overloaded => refused(529, "overloaded_error", "overloaded"),
        ModelFault::CutStream => {
            let cut = io::Error::from(io::ErrorKind::ConnectionReset);
            streamed(stream::iter([Ok(Bytes::from(begun("It is d"))), Err(cut)]))
        }
        ModelFault::SilentStream => {
            let silence = async {
                tokio::time::sleep(SILENT_FOR).await;
                Ok::<_, Infallible>(Bytes::new())
            };
            let first = stream::iter([Ok(Bytes::from(begun("It is d")))]);
            streamed(futures_util::StreamExt::chain(first, stream::once(silence)))
        }
        ModelFault::BadJson => {
            let text = format!(
                "{}event: content_block_delta\ndata: {{\"type\": \"content_bl\n\n",
                begun("It is d")
            );
            streamed(whole(text))
        }
        ModelFault::Truncated => streamed(whole(begun("It is d") + &stopped("max_tokens", true))),
        ModelFault::Refused => streamed(whole(begun("No.") + &stopped("refusal", true))),
        ModelFault::Empty => streamed(whole(event(&started()) + &stopped("end_turn", false))),
    }
}

fn whole(text: String) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
    stream::iter([Ok(Bytes::from(text))])
}

fn streamed<E>(events: impl Stream<Item = Result<Bytes, E>> + Send + 'static) -> Response<Body>
where
    E: std::error::Error + Send + Sync + 'static,
{
    answer(200, "text/event-stream", Body::from_stream(events))
}

fn answer(status: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert("content-type", HeaderValue::from_static(content_type));
    response
}

/// Returns the first events of a streamed answer, which contains `text`.
fn begun(text: &str) -> String {
    let delta = json!({"type": "text_delta", "text": text});
    let events = [
        started(),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
    ];
    events.iter().map(event).collect()
}

fn started() -> Value {
    let usage = json!({"input_tokens": 10, "output_tokens": 1});
    json!({"type": "message_start", "message": {
        "id": "msg_bad", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "content": [], "usage": usage,
    }})
}

/// Returns the last events of a streamed answer, with the stop reason `reason`.
fn stopped(reason: &str, has_text: bool) -> String {
    let block = has_text.then(|| json!({"type": "content_block_stop", "index": 0}));
    let delta = json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}});
    let events = block.into_iter().chain([delta, json!({"type": "message_stop"})]);
    events.map(|value| event(&value)).collect()
}

fn event(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
}
