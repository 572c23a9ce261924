//! The spans of messages, from the entries of the team's journal. A message has a span from its
//! sending to its delivery, and another one until its receiver has handled it.

use std::collections::BTreeMap;

use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanContext, SpanKind};
use opentelemetry_sdk::trace::SpanData;
use pitcrew_protocol::{AgentName, MessageId};

use crate::conventions::{
    FRAME, MESSAGING_CLIENT, MESSAGING_CONVERSATION, MESSAGING_DESTINATION, MESSAGING_MESSAGE_ID,
    MESSAGING_OPERATION_NAME, MESSAGING_OPERATION_TYPE, MESSAGING_SYSTEM, PROCESS, SEND,
};
use crate::span::{OpenSpan, Trace};

/// Maximum number of messages that are on their way. Others have no span.
const MESSAGES_MOST: usize = 10_000;

/// The messages that are on their way.
#[derive(Debug, Default)]
pub(crate) struct MessageFold {
    open: BTreeMap<MessageId, OpenMessage>,
}

/// A message that is on its way.
#[derive(Debug, Default)]
struct OpenMessage {
    /// The span from the sending to the delivery.
    sending: Option<OpenSpan>,
    /// The span from the delivery on.
    processing: Option<OpenSpan>,
}

/// The spans that a message belongs to.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    /// The span of the sender or receiver, or of the run.
    pub(crate) parent: &'a SpanContext,
    /// The id of the run's session.
    pub(crate) session: &'a str,
}

/// A message that was written to an inbox.
#[derive(Debug)]
pub(crate) struct Persisted<'a> {
    pub(crate) id: &'a MessageId,
    pub(crate) from: &'a str,
    pub(crate) to: &'a AgentName,
    pub(crate) frame: Option<&'a str>,
}

impl MessageFold {
    /// Opens the span of a message. Returns false if the message is known, or if too many messages
    /// are on their way.
    pub(crate) fn persisted(
        &mut self,
        trace: &mut Trace,
        place: &Place<'_>,
        message: &Persisted<'_>,
        at_ms: i64,
    ) -> bool {
        let Some(open) = self.entry(message.id) else { return false };
        if open.sending.is_some() {
            return false;
        }
        // The receiver can write its entry before the sender does. The message was there before.
        let delivered_ms = open.processing.as_ref().map_or(i64::MAX, OpenSpan::began_ms);
        let at_ms = at_ms.min(delivered_ms);
        let name = format!("{SEND} {}", message.to);
        let mut span = trace.child(name, SpanKind::Producer, place.parent, at_ms);
        span.extend(attributes(SEND, place.session));
        span.name(MESSAGING_DESTINATION, message.to.as_str());
        span.name(MESSAGING_MESSAGE_ID, &message.id.0);
        span.name(MESSAGING_CLIENT, message.from);
        if let Some(frame) = message.frame {
            span.name(FRAME, frame);
        }
        span.event("persisted", at_ms, Vec::new());
        if let Some(processing) = &mut open.processing {
            processing.link(span.context().clone());
            span.event("delivered", delivered_ms, Vec::new());
        }
        open.sending = Some(span);
        true
    }

    /// Marks a message as delivered: it is in the conversation of its receiver. Returns false if
    /// that is known, or if too many messages are on their way.
    pub(crate) fn delivered(
        &mut self,
        trace: &mut Trace,
        place: &Place<'_>,
        (id, to): (&MessageId, &AgentName),
        at_ms: i64,
    ) -> bool {
        let Some(open) = self.entry(id) else { return false };
        if open.processing.is_some() {
            return false;
        }
        let name = format!("{PROCESS} {to}");
        let mut span = trace.child(name, SpanKind::Consumer, place.parent, at_ms);
        span.extend(attributes(PROCESS, place.session));
        span.name(MESSAGING_DESTINATION, to.as_str());
        span.name(MESSAGING_MESSAGE_ID, &id.0);
        span.name(MESSAGING_CLIENT, to.as_str());
        if let Some(sending) = &mut open.sending {
            sending.event("delivered", at_ms, Vec::new());
            span.link(sending.context().clone());
        }
        open.processing = Some(span);
        true
    }

    /// Finishes the spans of a message that its receiver has handled.
    pub(crate) fn acknowledged(&mut self, id: &MessageId, at_ms: i64) -> Vec<SpanData> {
        self.open.remove(id).map(|open| open.end(at_ms)).unwrap_or_default()
    }

    /// Finishes the spans of a message that never arrives.
    pub(crate) fn failed(
        &mut self,
        id: &MessageId,
        error_type: &'static str,
        at_ms: i64,
    ) -> Vec<SpanData> {
        let Some(mut open) = self.open.remove(id) else { return Vec::new() };
        if let Some(sending) = &mut open.sending {
            sending.fail(error_type);
        }
        open.end(at_ms)
    }

    /// Finishes all spans at the end of the run. The span of a message that was not delivered has
    /// no event `delivered`.
    pub(crate) fn close(&mut self, at_ms: i64) -> Vec<SpanData> {
        let open = std::mem::take(&mut self.open).into_values();
        open.flat_map(|open| open.end(at_ms)).collect()
    }

    fn entry(&mut self, id: &MessageId) -> Option<&mut OpenMessage> {
        let has_room = self.open.len() < MESSAGES_MOST || self.open.contains_key(id);
        has_room.then(|| self.open.entry(id.clone()).or_default())
    }
}

impl OpenMessage {
    fn end(self, at_ms: i64) -> Vec<SpanData> {
        let delivered_ms = self.processing.as_ref().map(OpenSpan::began_ms);
        let sending = self.sending.map(|span| span.end(delivered_ms.unwrap_or(at_ms)));
        let processing = self.processing.map(|span| span.end(at_ms));
        sending.into_iter().chain(processing).collect()
    }
}

fn attributes(operation: &'static str, session: &str) -> [KeyValue; 4] {
    [
        KeyValue::new(MESSAGING_SYSTEM, "pitcrew"),
        KeyValue::new(MESSAGING_OPERATION_NAME, operation),
        KeyValue::new(MESSAGING_OPERATION_TYPE, operation),
        KeyValue::new(MESSAGING_CONVERSATION, session.to_owned()),
    ]
}
