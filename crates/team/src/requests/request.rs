//! A recorded request with its answer, and the two frames that carry them.

use pitcrew_protocol::{AgentName, MessageId};
use serde::{Deserialize, Serialize};

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// A request to shut down.
    Shutdown,
    /// A request to approve a plan.
    Plan,
    /// A request to allow a tool call.
    Permission,
}

impl RequestKind {
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Shutdown => "shutdown request",
            Self::Plan => "plan approval request",
            Self::Permission => "permission request",
        }
    }
}

/// A request and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The kind of the request.
    pub kind: RequestKind,
    /// The agent that asks.
    pub from: AgentName,
    /// The agent that is asked.
    pub to: AgentName,
    /// The time of the request, in milliseconds since 1970.
    pub at_ms: i64,
    /// The tool that needs permission, in a permission request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The digest of the tool and of the input that need permission. A request of another client
    /// has no digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The id of the tool call that sent the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The frame that carries the request. It is `None` for a request of another client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ask: Option<Outgoing>,
    /// The answer to the request. It is `None` while the request is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Whether a run sent the request because the run was ending. When the run is over, the request
    /// becomes void.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_parting: bool,
    /// Whether the request is void. A void request cannot be answered any more, and an answer to it
    /// has no effect.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_void: bool,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether the answer approves the request.
    pub approved: bool,
    /// The time of the answer, in milliseconds since 1970.
    pub at_ms: i64,
    /// The id of the tool call that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    pub(crate) frame: Outgoing,
}

impl Answer {
    /// Whether `again` is this answer once more. The agent then gets the recorded answer, and its
    /// frame is sent if it is not sent yet.
    pub(super) fn is_repeated_by(&self, again: &Self, kind: RequestKind) -> bool {
        let is_same_call = self.call.is_some() && self.call == again.call;
        // If a full disk refused the frame, the call of the agent failed, and its next attempt is
        // another call. The frame of an approved shutdown may have been sent since, by a later start
        // of the team. But an agent whose approval succeeded has ended, so this agent only knows that
        // its call failed.
        let may_have_failed =
            self.frame.unsent.is_some() || (kind == RequestKind::Shutdown && self.approved);
        is_same_call || (may_have_failed && self.approved == again.approved)
    }
}

/// A recorded frame, whether it is already sent or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outgoing {
    /// The id of the message that carries the frame.
    pub(crate) message: MessageId,
    /// The name of the author, if the author is not the sender of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) author: Option<String>,
    /// The text of the frame. It is removed when the frame is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unsent: Option<String>,
}

/// Selects one of the two frames of a request: the question or the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    Ask,
    Answer,
}

impl Request {
    /// Whether the request still waits for an answer.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.answer.is_none() && !self.is_void
    }

    pub(super) fn outgoing(&mut self, half: Half) -> Option<&mut Outgoing> {
        match half {
            Half::Ask => self.ask.as_mut(),
            Half::Answer => self.answer.as_mut().map(|answer| &mut answer.frame),
        }
    }

    pub(super) fn make_void(&mut self) {
        self.is_void = true;
        let frames =
            self.ask.iter_mut().chain(self.answer.iter_mut().map(|answer| &mut answer.frame));
        // Crash recovery sends every unsent frame. A void request must therefore have no unsent
        // frame.
        frames.for_each(|frame| frame.unsent = None);
    }

    pub(super) fn way(&self, half: Half) -> (&AgentName, &AgentName) {
        match half {
            Half::Ask => (&self.from, &self.to),
            Half::Answer => (&self.to, &self.from),
        }
    }
}
