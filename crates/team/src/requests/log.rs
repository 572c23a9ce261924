//! The document of all requests. This module creates, answers and closes requests, and removes the
//! oldest requests that need no answer any more.

use std::collections::BTreeMap;

use pitcrew_protocol::{AgentName, ApiError};
use serde::{Deserialize, Serialize};

use super::{Answer, Request, RequestKind};
use crate::document::Document;
use crate::refusal;

/// The number of answered requests to keep. An answer to an older, removed request is refused as an
/// answer to an unknown request.
const ANSWERED_KEPT: usize = 1000;

/// The stored document: every request, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RequestLog {
    pub(super) requests: BTreeMap<String, Request>,
    /// The time in the newest request id, in milliseconds since 1970. Every new id gets a later
    /// time. No id is therefore used twice, even if a request is removed or the clock goes back.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_ms: Option<i64>,
}

impl Document for RequestLog {
    const NAME: &'static str = "requests";
}

/// An answer whose request is not checked yet.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) kind: RequestKind,
    pub(crate) request_id: String,
    pub(crate) by: AgentName,
    /// The agent that must have sent the request, if the caller names an agent.
    pub(crate) asker: Option<AgentName>,
    /// The digest of the tool call for which the answer was given, if the caller knows the digest.
    pub(crate) digest: Option<String>,
    pub(crate) answer: Answer,
}

impl RequestLog {
    /// Finds the request that an earlier attempt of the same call recorded.
    pub(super) fn again(&self, request: &Request) -> Option<(String, Request)> {
        request.call.as_ref()?;
        let same = |r: &Request| {
            (r.kind, &r.from, &r.to, &r.call)
                == (request.kind, &request.from, &request.to, &request.call)
        };
        self.requests.iter().find(|(_, r)| same(r)).map(|(id, r)| (id.clone(), r.clone()))
    }

    /// Records an answer if the request is open and was sent to the agent that answers. Returns
    /// `None` if the request is not recorded.
    pub(super) fn reply(&mut self, reply: &Reply) -> Result<Option<Request>, ApiError> {
        let open = self.open_to(&reply.by, reply.kind);
        let Some(request) = self.requests.get_mut(&reply.request_id) else { return Ok(None) };
        if request.kind != reply.kind || request.to != reply.by {
            let message = format!(
                "{} '{}' was not put to {}",
                request.kind.noun(),
                reply.request_id,
                reply.by
            );
            return Err(refusal::denied(message)
                .with("request_id", reply.request_id.as_str())
                .with("open_requests", open));
        }
        if let Some(asker) = reply.asker.as_ref().filter(|asker| **asker != request.from) {
            let message = format!(
                "{} '{}' is {}'s, not {asker}'s",
                request.kind.noun(),
                reply.request_id,
                request.from
            );
            return Err(refusal::wrong_state(message)
                .with("request_id", reply.request_id.as_str())
                .with("from", request.from.as_str()));
        }
        if request.is_void {
            let message = format!(
                "{} '{}' is void: the run or the process that made it is over, and the team goes on",
                request.kind.noun(),
                reply.request_id
            );
            return Err(refusal::wrong_state(message).with("request_id", reply.request_id.as_str()));
        }
        match &request.answer {
            Some(given) if !given.is_repeated_by(&reply.answer, reply.kind) => {
                let message =
                    format!("{} '{}' is answered already", request.kind.noun(), reply.request_id);
                Err(refusal::wrong_state(message)
                    .with("request_id", reply.request_id.as_str())
                    .with("approved", given.approved)
                    .with("answered_at_ms", given.at_ms))
            }
            Some(_) => Ok(Some(request.clone())),
            None if request.digest.is_some()
                && reply.digest.is_some()
                && request.digest != reply.digest =>
            {
                let message = format!(
                    "{} '{}' is about a different call than the one that was shown; nothing was answered",
                    request.kind.noun(),
                    reply.request_id
                );
                Err(refusal::wrong_state(message).with("request_id", reply.request_id.as_str()))
            }
            None => {
                request.answer = Some(reply.answer.clone());
                Ok(Some(request.clone()))
            }
        }
    }

    /// Records that the asker got its answer in another way than a frame. Returns the request if it
    /// was open, otherwise `None`.
    pub(super) fn settle(
        &mut self,
        asker: &AgentName,
        id: &str,
        answer: &Answer,
    ) -> Option<Request> {
        let request = self
            .requests
            .get_mut(id)
            .filter(|request| request.from == *asker && request.answer.is_none())?;
        request.answer = Some(answer.clone());
        Some(request.clone())
    }

    /// Records a new request with the time `now_ms`. If the request id for this time was already
    /// used, the request gets the time of the next unused id.
    pub(super) fn make(
        &mut self,
        now_ms: i64,
        draft: &impl Fn(i64) -> Result<(String, Request), ApiError>,
    ) -> Result<(String, Request), ApiError> {
        let mut at_ms =
            self.last_ms.map_or(now_ms, |last_ms| now_ms.max(last_ms.saturating_add(1)));
        let (id, request) = loop {
            let (id, request) = draft(at_ms)?;
            if !self.requests.contains_key(&id) {
                break (id, request);
            }
            at_ms = at_ms.saturating_add(1);
        };
        self.forget_oldest();
        self.last_ms = Some(at_ms);
        self.requests.insert(id.clone(), request.clone());
        Ok((id, request))
    }

    fn open_to(&self, to: &AgentName, kind: RequestKind) -> Vec<String> {
        let open =
            self.requests.iter().filter(|(_, r)| r.kind == kind && r.to == *to && r.is_open());
        open.map(|(id, _)| id.clone()).collect()
    }

    fn forget_oldest(&mut self) {
        let settled =
            |r: &Request| r.is_void || r.answer.as_ref().is_some_and(|a| a.frame.unsent.is_none());
        let mut done: Vec<(i64, String)> = self
            .requests
            .iter()
            .filter(|(_, r)| settled(r))
            .map(|(id, r)| (r.at_ms, id.clone()))
            .collect();
        done.sort();
        let surplus = done.len().saturating_sub(ANSWERED_KEPT);
        for (_, id) in done.into_iter().take(surplus) {
            self.requests.remove(&id);
        }
    }
}

pub(super) fn unknown(ledger: &RequestLog, reply: &Reply) -> ApiError {
    let open = ledger.open_to(&reply.by, reply.kind);
    refusal::wrong_state(format!("there is no {} '{}'", reply.kind.noun(), reply.request_id))
        .with("request_id", reply.request_id.as_str())
        .with("open_requests", open)
}
