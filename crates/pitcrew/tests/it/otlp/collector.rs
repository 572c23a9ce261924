//! A collector of OpenTelemetry for tests. It decodes the requests with the types of the protocol.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric, number_data_point};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

/// A request to the collector.
#[derive(Clone, Debug)]
struct Request {
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

/// A collector that listens.
pub(crate) struct Collector {
    pub(crate) url: String,
    inlet: Arc<Inlet>,
    server: tokio::task::JoinHandle<()>,
}

/// The requests that a collector accepted, and how many it still refuses.
#[derive(Default)]
struct Inlet {
    requests: Mutex<Vec<Request>>,
    refusals: AtomicUsize,
}

/// Everything that a collector received.
pub(crate) struct Received {
    requests: Vec<Request>,
    pub(crate) spans: Vec<Span>,
    /// The metrics of the last request. They are the totals of the run.
    pub(crate) metrics: Vec<Metric>,
    pub(crate) resources: Vec<Resource>,
}

impl Collector {
    pub(crate) async fn open() -> Self {
        Self::refusing(0).await
    }

    /// Opens a collector that refuses the first requests with spans, as if it was overloaded.
    pub(crate) async fn refusing(refusals: usize) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let inlet = Arc::new(Inlet { refusals: refusals.into(), ..Inlet::default() });
        let router = Router::new().fallback(take).with_state(Arc::clone(&inlet));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, inlet, server }
    }

    /// Whether the collector has received this text.
    pub(crate) fn has(&self, text: &str) -> bool {
        let requests = self.inlet.requests.lock().unwrap();
        requests.iter().any(|request| request.has(text))
    }

    /// Closes the collector and decodes what it received.
    pub(crate) fn close(self) -> Received {
        self.server.abort();
        assert_eq!(self.inlet.refusals.load(Ordering::SeqCst), 0, "too few requests to refuse");
        let requests = self.inlet.requests.lock().unwrap().clone();
        let mut received =
            Received { requests, spans: Vec::new(), metrics: Vec::new(), resources: Vec::new() };
        for request in &received.requests {
            assert_eq!(request.headers["content-type"], "application/x-protobuf");
            match request.path.as_str() {
                "/v1/traces" => {
                    let decoded = ExportTraceServiceRequest::decode(&request.body[..]).unwrap();
                    for of_resource in decoded.resource_spans {
                        received.resources.extend(of_resource.resource);
                        let scopes = of_resource.scope_spans.into_iter();
                        received.spans.extend(scopes.flat_map(|scope| scope.spans));
                    }
                }
                "/v1/metrics" => {
                    let decoded = ExportMetricsServiceRequest::decode(&request.body[..]).unwrap();
                    received.metrics.clear();
                    for of_resource in decoded.resource_metrics {
                        received.resources.extend(of_resource.resource);
                        let scopes = of_resource.scope_metrics.into_iter();
                        received.metrics.extend(scopes.flat_map(|scope| scope.metrics));
                    }
                }
                path => panic!("a request for {path}"),
            }
        }
        received
    }
}

async fn take(
    State(inlet): State<Arc<Inlet>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let path = uri.path().to_owned();
    let less = |refusals: usize| refusals.checked_sub(1);
    let (order, refusals) = (Ordering::SeqCst, &inlet.refusals);
    if path == "/v1/traces" && refusals.fetch_update(order, order, less).is_ok() {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    inlet.requests.lock().unwrap().push(Request { path, headers, body });
    // An empty body is a response without a rejected item.
    StatusCode::OK
}

impl Request {
    fn has(&self, text: &str) -> bool {
        self.body.windows(text.len()).any(|part| part == text.as_bytes())
    }
}

impl Received {
    /// The number of requests.
    pub(crate) fn requests(&self) -> usize {
        self.requests.len()
    }

    /// Whether each request has this header.
    pub(crate) fn all_have(&self, header: &str, value: &str) -> bool {
        self.requests.iter().all(|it| it.headers.get(header).is_some_and(|it| it == value))
    }

    /// Whether a request contains the text.
    pub(crate) fn has_bytes(&self, text: &str) -> bool {
        self.requests.iter().any(|request| request.has(text))
    }

    /// Returns the spans of an operation, such as `chat`.
    pub(crate) fn operation(&self, operation: &str) -> Vec<&Span> {
        let is_of = |span: &&Span| {
            let names = ["gen_ai.operation.name", "messaging.operation.name"];
            names.iter().any(|name| text(&span.attributes, name) == Some(operation))
        };
        self.spans.iter().filter(is_of).collect()
    }

    /// Checks that all spans are in one trace, that each was sent once, that only one has no parent,
    /// and that the parents of all others are there.
    pub(crate) fn check_parents(&self) {
        let roots: Vec<&Span> =
            self.spans.iter().filter(|span| span.parent_span_id.is_empty()).collect();
        assert_eq!(roots.len(), 1, "{roots:#?}");
        let ids: BTreeSet<&[u8]> = self.spans.iter().map(|it| it.span_id.as_slice()).collect();
        assert_eq!(ids.len(), self.spans.len(), "two spans have one id");
        for span in &self.spans {
            assert_eq!(span.trace_id, roots[0].trace_id, "{span:#?}");
            assert!(span.end_time_unix_nano >= span.start_time_unix_nano, "{span:#?}");
            let has_parent = ids.contains(span.parent_span_id.as_slice());
            assert!(has_parent || span.parent_span_id.is_empty(), "no parent: {span:#?}");
        }
    }

    /// Returns the value of a counter or gauge with this attribute. Without an attribute, returns
    /// the only value.
    pub(crate) fn number(&self, name: &str, with: Option<(&str, &str)>) -> Option<i64> {
        let metric = self.metrics.iter().find(|metric| metric.name == name)?;
        let points = match metric.data.as_ref()? {
            metric::Data::Sum(sum) => &sum.data_points,
            metric::Data::Gauge(gauge) => &gauge.data_points,
            other => panic!("{name} is no number: {other:?}"),
        };
        let is_it = |attributes: &[KeyValue]| {
            with.is_none_or(|(name, value)| text(attributes, name) == Some(value))
        };
        match points.iter().find(|point| is_it(&point.attributes))?.value? {
            number_data_point::Value::AsInt(number) => Some(number),
            number_data_point::Value::AsDouble(number) => panic!("{name} is {number}"),
        }
    }

    /// Returns the count and the sum of a histogram, over all points with this attribute.
    pub(crate) fn histogram(&self, name: &str, with: Option<(&str, &str)>) -> (u64, f64) {
        let metric = self.metrics.iter().find(|metric| metric.name == name).unwrap();
        let Some(metric::Data::Histogram(histogram)) = &metric.data else {
            panic!("{name} is no histogram")
        };
        let is_it = |attributes: &[KeyValue]| {
            with.is_none_or(|(name, value)| text(attributes, name) == Some(value))
        };
        let points = histogram.data_points.iter().filter(|point| is_it(&point.attributes));
        points.fold((0, 0.0), |(count, sum), point| {
            assert_eq!(point.explicit_bounds.len(), 14, "{point:?}");
            (count + point.count, sum + point.sum.unwrap())
        })
    }
}

/// Returns the value of an attribute that is a text.
pub(crate) fn text<'a>(attributes: &'a [KeyValue], name: &str) -> Option<&'a str> {
    match value(attributes, name)? {
        any_value::Value::StringValue(text) => Some(text),
        _ => None,
    }
}

/// Returns the value of an attribute that is a whole number.
pub(crate) fn whole(attributes: &[KeyValue], name: &str) -> Option<i64> {
    match value(attributes, name)? {
        any_value::Value::IntValue(number) => Some(*number),
        _ => None,
    }
}

fn value<'a>(attributes: &'a [KeyValue], name: &str) -> Option<&'a any_value::Value> {
    attributes.iter().find(|it| it.key == name)?.value.as_ref()?.value.as_ref()
}
