//! Counts the requests to the server, their durations, and the open event streams.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;

use super::exposition::{Exposition, Kind};
use crate::app::Shared;

/// The upper bounds of the buckets of durations, in seconds, as number and as label.
const BUCKETS: [(f64, &str); 12] = [
    (0.001, "0.001"),
    (0.005, "0.005"),
    (0.01, "0.01"),
    (0.025, "0.025"),
    (0.05, "0.05"),
    (0.1, "0.1"),
    (0.25, "0.25"),
    (0.5, "0.5"),
    (1.0, "1"),
    (2.5, "2.5"),
    (5.0, "5"),
    (10.0, "10"),
];

/// The path of requests that fit no route. The path that the caller sent is no label, because
/// callers could make any number of series with it.
const NO_ROUTE: &str = "none";

/// The requests since the server was started.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    counted: Mutex<BTreeMap<Endpoint, Counted>>,
    streams: Arc<AtomicU64>,
}

/// A route with a method. The number of endpoints is bounded, because both are known names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Endpoint {
    path: String,
    method: &'static str,
}

/// The requests to one endpoint.
#[derive(Clone, Debug, Default)]
struct Counted {
    by_status: BTreeMap<u16, u64>,
    /// The number of requests for each bucket. A longer request is in no bucket.
    in_bucket: [u64; BUCKETS.len()],
    lasted: Duration,
}

/// An event stream that is open until this value is dropped.
#[derive(Debug)]
pub(crate) struct OpenStream(Arc<AtomicU64>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counted {
    fn add(&mut self, status: u16, lasted: Duration) {
        let count = self.by_status.entry(status).or_default();
        *count = count.saturating_add(1);
        self.lasted = self.lasted.saturating_add(lasted);
        let seconds = lasted.as_secs_f64();
        let mut buckets = self.in_bucket.iter_mut().zip(BUCKETS);
        if let Some((bucket, _)) = buckets.find(|(_, (most, _))| seconds <= *most) {
            *bucket = bucket.saturating_add(1);
        }
    }

    fn all(&self) -> u64 {
        self.by_status.values().sum()
    }
}

impl Requests {
    /// Counts an event stream as open until the result is dropped.
    pub(crate) fn open_stream(&self) -> OpenStream {
        self.streams.fetch_add(1, Ordering::Relaxed);
        OpenStream(Arc::clone(&self.streams))
    }

    fn add(&self, endpoint: Endpoint, status: u16, lasted: Duration) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.entry(endpoint).or_default().add(status, lasted);
    }

    /// Writes the metrics of the requests.
    pub(super) fn write(&self, to: &mut Exposition) {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let help = "Requests by route, method and status.";
        let mut requests = to.metric("pitcrew_http_requests_total", Kind::Counter, help);
        for (endpoint, counted) in &counted {
            for (status, count) in &counted.by_status {
                let status = status.to_string();
                requests.sample(&[endpoint.path(), endpoint.method(), ("status", &status)], *count);
            }
        }
        write_durations(&counted, to);
        let help = "Event streams that are open now.";
        to.metric("pitcrew_open_event_streams", Kind::Gauge, help)
            .sample(&[], self.streams.load(Ordering::Relaxed));
    }
}

impl Endpoint {
    fn path(&self) -> (&str, &str) {
        ("path", &self.path)
    }

    fn method(&self) -> (&str, &str) {
        ("method", self.method)
    }
}

fn write_durations(counted: &BTreeMap<Endpoint, Counted>, to: &mut Exposition) {
    let name = "pitcrew_http_request_duration_seconds";
    let help = "Time until the head of the answer. An event stream has its head at once.";
    let mut durations = to.metric(name, Kind::Histogram, help);
    for (endpoint, counted) in counted {
        let (path, method) = (endpoint.path(), endpoint.method());
        let mut below = 0;
        for (count, (_, most)) in counted.in_bucket.iter().zip(BUCKETS) {
            // A bucket of the format also counts the requests of the smaller buckets.
            below += count;
            durations.part("_bucket", &[path, method, ("le", most)], below);
        }
        durations.part("_bucket", &[path, method, ("le", "+Inf")], counted.all());
        durations.part("_sum", &[path, method], counted.lasted.as_secs_f64());
        durations.part("_count", &[path, method], counted.all());
    }
}

/// Counts each request, also those that are refused.
pub(crate) async fn count(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let path = path.unwrap_or(NO_ROUTE).to_owned();
    let endpoint = Endpoint { path, method: name_of(request.method()) };
    let began = Instant::now();
    let response = next.run(request).await;
    app.metrics.requests.add(endpoint, response.status().as_u16(), began.elapsed());
    response
}

/// Returns the name of a method. A caller can send any word as a method.
fn name_of(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PATCH" => "PATCH",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_in_its_bucket_and_in_all_greater_ones() {
        let requests = Requests::default();
        let endpoint = Endpoint { path: "/api/teams".to_owned(), method: "GET" };
        for (status, lasted_ms) in [(200, 1), (200, 30), (404, 60_469)] {
            requests.add(endpoint.clone(), status, Duration::from_millis(lasted_ms));
        }
        let mut text = Exposition::default();
        requests.write(&mut text);
        let text = text.into_text();
        for (most, count) in [("0.001", 1), ("0.025", 1), ("0.05", 2), ("10", 2), ("+Inf", 3)] {
            let line =
                format!("_bucket{{path=\"/api/teams\",method=\"GET\",le=\"{most}\"}} {count}\n");
            assert!(text.contains(&line), "{line}{text}");
        }
        assert!(text.contains("_seconds_sum{path=\"/api/teams\",method=\"GET\"} 60.5\n"), "{text}");
        assert!(text.contains("method=\"GET\",status=\"404\"} 1\n"), "{text}");
    }

    #[test]
    fn a_stream_is_open_until_it_is_dropped() {
        let requests = Requests::default();
        let open = [requests.open_stream(), requests.open_stream()];
        assert_eq!(requests.streams.load(Ordering::Relaxed), 2);
        drop(open);
        assert_eq!(requests.streams.load(Ordering::Relaxed), 0);
    }
}
