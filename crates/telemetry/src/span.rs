//! A trace and its spans that are not finished.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{
    Event, Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use crate::content::cut;
use crate::conventions::ERROR_TYPE;

/// Maximum number of events in a span. It is the limit that the SDKs of OpenTelemetry have.
const EVENTS_MOST: usize = 128;

/// Maximum number of bytes of a name. Names can come from models and from other programs.
const NAME_BYTES_MOST: usize = 200;

/// A trace: the source of the ids of its spans.
#[derive(Debug)]
pub(crate) struct Trace {
    id: TraceId,
    /// The span of another program in which the run happens.
    parent: Option<SpanContext>,
    spans: u64,
}

/// A span that is not finished.
#[derive(Debug)]
pub(crate) struct OpenSpan {
    context: SpanContext,
    parent: Option<SpanContext>,
    name: String,
    kind: SpanKind,
    began_ms: i64,
    attributes: Vec<KeyValue>,
    events: Vec<Event>,
    events_dropped: u32,
    links: Vec<Link>,
    is_failed: bool,
}

impl Trace {
    /// Begins a trace. With a parent, the trace is the one of the parent.
    pub(crate) fn new(id: TraceId, parent: Option<SpanContext>) -> Self {
        let id = parent.as_ref().map_or(id, SpanContext::trace_id);
        Self { id, parent, spans: 0 }
    }

    /// Opens the outermost span.
    pub(crate) fn root(&mut self, name: String, began_ms: i64) -> OpenSpan {
        let parent = self.parent.clone();
        self.span(name, SpanKind::Internal, parent, began_ms)
    }

    /// Opens a span inside another one.
    pub(crate) fn child(
        &mut self,
        name: String,
        kind: SpanKind,
        parent: &SpanContext,
        began_ms: i64,
    ) -> OpenSpan {
        self.span(name, kind, Some(parent.clone()), began_ms)
    }

    fn span(
        &mut self,
        name: String,
        kind: SpanKind,
        parent: Option<SpanContext>,
        began_ms: i64,
    ) -> OpenSpan {
        self.spans += 1;
        let id = span_id(self.id, self.spans);
        let flags = TraceFlags::SAMPLED;
        OpenSpan {
            context: SpanContext::new(self.id, id, flags, false, TraceState::NONE),
            parent,
            name: short(&name),
            kind,
            began_ms,
            attributes: Vec::new(),
            events: Vec::new(),
            events_dropped: 0,
            links: Vec::new(),
            is_failed: false,
        }
    }
}

impl OpenSpan {
    pub(crate) fn context(&self) -> &SpanContext {
        &self.context
    }

    pub(crate) fn began_ms(&self) -> i64 {
        self.began_ms
    }

    /// Sets an attribute with a name, or with another short text.
    pub(crate) fn name(&mut self, key: &'static str, text: &str) {
        self.attributes.push(KeyValue::new(key, short(text)));
    }

    /// Sets an attribute.
    pub(crate) fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        self.attributes.push(KeyValue::new(key, value));
    }

    pub(crate) fn extend(&mut self, attributes: impl IntoIterator<Item = KeyValue>) {
        self.attributes.extend(attributes);
    }

    /// Adds an event, up to a limit.
    pub(crate) fn event(&mut self, name: &'static str, at_ms: i64, attributes: Vec<KeyValue>) {
        if self.events.len() < EVENTS_MOST {
            self.events.push(Event::new(name, time(at_ms), attributes, 0));
        } else {
            self.events_dropped = self.events_dropped.saturating_add(1);
        }
    }

    pub(crate) fn link(&mut self, to: SpanContext) {
        self.links.push(Link::new(to, Vec::new(), 0));
    }

    /// Marks the span as failed. The type of an error is a word, never a text with content.
    pub(crate) fn fail(&mut self, error_type: &'static str) {
        self.is_failed = true;
        self.set(ERROR_TYPE, error_type);
    }

    /// Finishes the span. It never ends before its beginning, whatever the clock did.
    pub(crate) fn end(self, at_ms: i64) -> SpanData {
        let mut events = SpanEvents::default();
        (events.events, events.dropped_count) = (self.events, self.events_dropped);
        let mut links = SpanLinks::default();
        links.links = self.links;
        let parent = self.parent.as_ref();
        SpanData {
            span_context: self.context,
            parent_span_id: parent.map_or(SpanId::INVALID, SpanContext::span_id),
            parent_span_is_remote: parent.is_some_and(SpanContext::is_remote),
            span_kind: self.kind,
            name: Cow::Owned(self.name),
            start_time: time(self.began_ms),
            end_time: time(at_ms.max(self.began_ms)),
            attributes: self.attributes,
            dropped_attributes_count: 0,
            events,
            links,
            status: if self.is_failed { Status::error("") } else { Status::Unset },
            instrumentation_scope: scope(),
        }
    }
}

/// Returns the scope of our spans and metrics.
pub(crate) fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("pitcrew").with_version(env!("CARGO_PKG_VERSION")).build()
}

/// Returns a name of limited length.
pub(crate) fn short(name: &str) -> String {
    cut(name, NAME_BYTES_MOST)
}

fn time(at_ms: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(at_ms).unwrap_or_default())
}

/// Computes the id of the span with this number in its trace: the finaliser of splitmix64, which
/// maps different numbers to different ids.
fn span_id(trace: TraceId, number: u64) -> SpanId {
    let [.., a, b, c, d, e, f, g, h] = trace.to_bytes();
    let mut bits = u64::from_be_bytes([a, b, c, d, e, f, g, h])
        .wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    // An id of only zeros is not valid.
    SpanId::from_bytes((bits ^ (bits >> 31)).max(1).to_be_bytes())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_span_of_a_trace_has_another_id() {
        let mut trace = Trace::new(TraceId::from_bytes([7; 16]), None);
        let ids: BTreeSet<[u8; 8]> = (0..10_000)
            .map(|_| trace.root("x".to_owned(), 0).context().span_id().to_bytes())
            .collect();
        assert_eq!(ids.len(), 10_000);
    }

    #[test]
    fn a_span_does_not_end_before_it_begins_and_keeps_a_limited_number_of_events() {
        let mut span = Trace::new(TraceId::from_bytes([7; 16]), None).root("x".repeat(999), 5);
        (0..EVENTS_MOST + 3).for_each(|_| span.event("e", 6, Vec::new()));
        span.name(ERROR_TYPE, &"y".repeat(999));
        let span = span.end(2);
        assert_eq!(span.start_time, span.end_time);
        assert_eq!((span.events.len(), span.events.dropped_count), (EVENTS_MOST, 3));
        assert!(span.name.len() < 250 && span.attributes[0].value.as_str().len() < 250);
    }
}
