//! The HTTP client, its timeouts, and the classification of errors that vendors send.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Once;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use reqwest::{Body, RequestBuilder, Url};
use serde::Serialize;
use serde_json::Value;

use crate::bounds::{BODY_BYTES, EVENT_BYTES, STREAM_BYTES, within};
use crate::emit::Emitter;
use crate::sse::{Decoder, Event};
use crate::{ModelError, Response, StreamEvent};

/// Time limit for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// The default value of `Endpoints::silence`. If the server sends nothing for this time, a call
/// fails. The time is long, because a model may think for minutes before it sends the first byte.
/// There is no time limit for the whole call.
const SILENCE: Duration = Duration::from_secs(300);

/// Maximum number of bytes to read from the body of an error response.
pub(crate) const ERROR_BYTES: usize = 64 * 1024;

/// Time limit for reading the body of an error response. The status alone is enough for an error.
const ERROR_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of characters of unreadable data that an error message quotes.
const EXCERPT_CHARS: usize = 200;

/// A state machine that assembles the events of one vendor into an answer.
pub(crate) trait Answer {
    /// Processes one event of the vendor, and returns the stream events to emit for it. If the
    /// answer is now complete, [`StreamEvent::Finished`] is among the returned events.
    fn take(&mut self, event: &Event) -> Result<Vec<StreamEvent>, ModelError>;

    /// Returns the answer if it is complete. This method is called when the connection closes.
    fn end(&mut self) -> Option<Response>;
}

/// Creates the HTTP client for one base URL. This function opens no connection.
///
/// # Errors
/// An error if the URL is not an http or https URL, or if the client cannot be created.
pub(crate) fn client(
    vendor: &'static str,
    base_url: &str,
    silence: Option<Duration>,
) -> Result<(reqwest::Client, Url), ModelError> {
    let bad_url = || ModelError::BaseUrl { vendor, url: base_url.to_owned() };
    let url = Url::parse(base_url).map_err(|_| bad_url())?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(bad_url());
    }
    install_crypto();
    let builder = reqwest::Client::builder()
        .user_agent(concat!("pitcrew/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(silence.unwrap_or(SILENCE))
        // Do not follow redirects, because that could send the key to another host.
        .redirect(reqwest::redirect::Policy::none());
    // Plain http needs no certificates, so load none. The client then also works on a machine that
    // has no root certificates.
    let builder = if url.scheme() == "http" { builder.tls_certs_only([]) } else { builder };
    // For a loopback address, ignore proxies, because a proxy cannot reach it.
    let builder = if is_loopback(&url) { builder.no_proxy() } else { builder };
    let client = builder.build().map_err(|source| ModelError::Client { vendor, source })?;
    Ok((client, url))
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Appends a path to a base URL. The base URL may end with a slash.
pub(crate) fn join(base: &Url, path: &str) -> String {
    format!("{}/{path}", base.as_str().trim_end_matches('/'))
}

/// Adds a JSON body to a request. The memory of the body is freed as soon as it is sent.
///
/// A conversation is long, and a model may think for minutes. An ordinary body would stay in memory
/// during this time, so that the HTTP client could send it again. Pitcrew does not need that,
/// because it repeats whole calls.
pub(crate) fn send_once(request: RequestBuilder, body: &impl Serialize) -> RequestBuilder {
    let mut length = Length(0);
    let written = serde_json::to_writer(&mut length, body).and_then(|()| {
        // Reserve exactly the needed size. A growing vector could become twice as large.
        let mut bytes = Vec::with_capacity(length.0);
        serde_json::to_writer(&mut bytes, body).map(|()| bytes)
    });
    match written {
        Ok(bytes) => {
            let request = request
                .header(CONTENT_TYPE, "application/json")
                .header(CONTENT_LENGTH, bytes.len());
            request
                .body(Body::wrap_stream(futures_util::stream::iter([Ok::<_, Infallible>(bytes)])))
        }
        // The body cannot be written as JSON. The HTTP client reports the same error when the
        // request is sent.
        Err(_) => request.json(body),
    }
}

/// A writer that counts the bytes and drops them.
struct Length(usize);

impl std::io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Converts an error of the HTTP client. `heard_at` is the time when the last byte was received.
pub(crate) fn broken(
    vendor: &'static str,
    source: reqwest::Error,
    heard_at: Instant,
) -> ModelError {
    // After the connection is open, a timeout means that the server is silent. While connecting, a
    // timeout means that the server cannot be reached.
    if source.is_timeout() && !source.is_connect() {
        return ModelError::Silent { vendor, silent_for: heard_at.elapsed() };
    }
    // The rest of the URL can contain secrets, so the error contains only the scheme, the host and
    // the port.
    let server = source.url().map(|url| url.origin().ascii_serialization());
    ModelError::Transport { vendor, server, source: source.without_url() }
}

/// Sends a request and reads the event stream of the response, until the answer is complete.
pub(crate) async fn exchange(
    vendor: &'static str,
    request: RequestBuilder,
    mut answer: impl Answer,
    out: Emitter,
) -> Result<(), ModelError> {
    let mut heard_at = Instant::now();
    let response = request.send().await.map_err(|source| broken(vendor, source, heard_at))?;
    // Some servers report an error with status 200. The response is then JSON or a web page, not an
    // event stream.
    if !response.status().is_success() || is_no_stream(response.headers()) {
        return Err(refusal(vendor, response).await);
    }
    let mut decoder = Decoder::default();
    let mut bytes = response.bytes_stream();
    let mut received = 0_usize;
    while let Some(piece) = bytes.next().await {
        let piece = piece.map_err(|source| broken(vendor, source, heard_at))?;
        heard_at = Instant::now();
        received = received.saturating_add(piece.len());
        within(vendor, received, STREAM_BYTES, "bytes in the stream of one answer")?;
        let events = decoder.push(&piece).map_err(|_| too_long(vendor))?;
        for event in events {
            for told in answer.take(&event)? {
                let finished = matches!(told, StreamEvent::Finished(_));
                out.emit(told).await;
                // The answer is complete, so the rest of the stream is not read.
                if finished {
                    return Ok(());
                }
            }
        }
    }
    let response = answer.end().ok_or(ModelError::StreamCut { vendor })?;
    out.emit(StreamEvent::Finished(response)).await;
    Ok(())
}

fn too_long(vendor: &'static str) -> ModelError {
    ModelError::TooMuch { vendor, most: EVENT_BYTES, what: "bytes in one event" }
}

/// Reads the whole body of a response that is no stream.
pub(crate) async fn body(
    vendor: &'static str,
    response: reqwest::Response,
    asked_at: Instant,
) -> Result<Vec<u8>, ModelError> {
    let mut body = Vec::new();
    let mut bytes = response.bytes_stream();
    while let Some(piece) = bytes.next().await {
        body.extend_from_slice(&piece.map_err(|source| broken(vendor, source, asked_at))?);
        within(vendor, body.len(), BODY_BYTES, "bytes in one response")?;
    }
    Ok(body)
}

/// Parses the JSON data of an event.
pub(crate) fn parse(vendor: &'static str, data: &str) -> Result<Value, ModelError> {
    serde_json::from_str(data).map_err(|source| ModelError::Decode {
        vendor,
        excerpt: excerpt(data),
        source,
    })
}

/// Returns the beginning of unreadable data, for an error message.
pub(crate) fn excerpt(data: &str) -> String {
    data.chars().take(EXCERPT_CHARS).collect()
}

/// Converts an error response into an error, using its status and its error object. The Messages
/// API and chat completions both send such an object, either as the body or inside a stream.
pub(crate) fn refused(
    vendor: &'static str,
    status: u16,
    body: &Value,
    fallback: &str,
    retry_after: Option<Duration>,
) -> ModelError {
    // If there is no field `error`, the whole body is the error object.
    let error = body.get("error").unwrap_or(body);
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    // OpenAI's `code` is more specific than its `type`. Some servers send a number as `code`, and
    // then `type` is used.
    let kind = if text("code").is_empty() { text("type") } else { text("code") }.to_owned();
    let message = match (text("message"), error.as_str()) {
        ("", Some(plain)) => plain.to_owned(),
        ("", None) => fallback.to_owned(),
        (message, _) => message.to_owned(),
    };
    if is_context_overflow(status, &kind, text("type"), &message) {
        return ModelError::ContextTooLong { vendor, message };
    }
    match (status, kind.as_str()) {
        (_, "insufficient_quota" | "billing_error") | (402, _) => {
            ModelError::Quota { vendor, message }
        }
        (401 | 403, _) => ModelError::Auth { vendor, status, message },
        (429, _) => ModelError::RateLimited { vendor, message, retry_after },
        (529, _) | (_, "overloaded_error") => {
            ModelError::Overloaded { vendor, message, retry_after }
        }
        _ => ModelError::Status { vendor, status, kind, message, retry_after },
    }
}

/// Returns true if an error says, in one of the known forms, that the conversation is too long.
fn is_context_overflow(status: u16, code: &str, kind: &str, message: &str) -> bool {
    let named = ["context_length_exceeded", "exceed_context_size_error", "request_too_large"];
    if status == 413 || named.contains(&code) || named.contains(&kind) {
        return true;
    }
    let message = message.to_ascii_lowercase();
    let said = [
        "prompt is too long",
        "exceed context limit",
        "maximum context length",
        "exceeds the available context size",
        "context window",
    ];
    status == 400 && said.iter().any(|words| message.contains(words))
}

async fn refusal(vendor: &'static str, response: reqwest::Response) -> ModelError {
    let status = response.status();
    let retry_after = retry_after(response.headers());
    let mut body = Vec::new();
    let mut bytes = response.bytes_stream();
    let read = async {
        // If reading fails, or if `ERROR_BYTES` have been read, stop. The part of the body that was
        // read is enough to describe the error.
        while let Some(Ok(piece)) = bytes.next().await {
            body.extend_from_slice(&piece);
            if body.len() >= ERROR_BYTES {
                break;
            }
        }
    };
    // The part that arrived within the time is enough too.
    let _in_time = tokio::time::timeout(ERROR_TIMEOUT, read).await;
    body.truncate(ERROR_BYTES);
    let text = String::from_utf8_lossy(&body);
    let json = serde_json::from_str(&text).unwrap_or(Value::Null);
    let excerpt = excerpt(text.trim());
    let reason = status.canonical_reason().unwrap_or("no reason given");
    let fallback = if excerpt.is_empty() { reason } else { &excerpt };
    refused(vendor, status.as_u16(), &json, fallback, retry_after)
}

/// Returns true if the content type says that the response is a web page or JSON, and not an event
/// stream. Some servers send errors as a web page or as JSON, with status 200.
fn is_no_stream(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type
        .is_some_and(|kind| kind.starts_with("text/html") || kind.starts_with("application/json"))
}

/// Reads how long the vendor asks the caller to wait. The header is `retry-after-ms`, or
/// `retry-after` with a number of seconds or a date.
///
/// From a date, the current time is subtracted. The current time is read from the header `date` of
/// the response. If that header is missing, the clock of this machine is used.
#[expect(
    clippy::disallowed_methods,
    reason = "a server names the time until which it wants no call"
)]
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| text(name)?.parse::<f64>().ok();
    if let Some(millis) = number("retry-after-ms") {
        return seconds(millis / 1000.0);
    }
    if let Some(number) = number("retry-after") {
        return seconds(number);
    }
    let date = |name: &str| Some(jiff::fmt::rfc2822::parse(text(name)?).ok()?.timestamp());
    let now = date("date").unwrap_or_else(jiff::Timestamp::now);
    let wait = date("retry-after")?.duration_since(now);
    Some(Duration::try_from(wait).unwrap_or_default())
}

/// Converts a number of seconds to a duration. If the number is too large, returns the longest
/// possible duration. If the number is negative or not finite, returns `None`.
fn seconds(number: f64) -> Option<Duration> {
    let too_long = number.is_finite() && number > 0.0;
    Duration::try_from_secs_f64(number).ok().or(too_long.then_some(Duration::MAX))
}

fn install_crypto() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        if rustls::crypto::ring::default_provider().install_default().is_err() {
            tracing::debug!("a TLS provider is installed already");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn retry_after_is_read_in_every_form() {
        let wait = |pairs: &[_]| retry_after(&headers(pairs));
        assert_eq!(wait(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(
            wait(&[("retry-after-ms", "1500"), ("retry-after", "2")]),
            Some(Duration::from_millis(1500))
        );
        let dates = [
            ("date", "Fri, 20 Nov 2026 13:00:00 GMT"),
            ("retry-after", "Fri, 20 Nov 2026 13:00:30 GMT"),
        ];
        assert_eq!(wait(&dates), Some(Duration::from_secs(30)));
        assert_eq!(wait(&[("retry-after", "99999999999999999999999")]), Some(Duration::MAX));
        assert_eq!(
            wait(&[("retry-after", "Fri, 20 Nov 2020 13:00:30 GMT")]),
            Some(Duration::ZERO),
            "by our own clock"
        );
        assert!(
            wait(&[("retry-after", "Fri, 20 Nov 2099 13:00:30 GMT")])
                > Some(Duration::from_secs(3600))
        );
        for nonsense in ["-1", "soon", "inf", ""] {
            assert_eq!(wait(&[("retry-after", nonsense)]), None);
        }
    }

    #[test]
    fn refusals_are_sorted_by_what_can_be_done_about_them() {
        let sort = |status, body: Value| refused("openai", status, &body, "fallback", None);
        assert!(matches!(
            sort(429, json!({"error": {"code": "insufficient_quota"}})),
            ModelError::Quota { .. }
        ));
        assert!(matches!(sort(429, json!({})), ModelError::RateLimited { .. }));
        assert!(matches!(sort(529, json!({})), ModelError::Overloaded { .. }));
        assert!(matches!(
            sort(200, json!({"type": "error", "error": {"type": "overloaded_error"}})),
            ModelError::Overloaded { .. }
        ));
        assert!(matches!(sort(403, json!("no")), ModelError::Auth { .. }));
        assert!(!sort(400, json!({"error": {"type": "invalid_request_error"}})).is_retryable());
        assert!(sort(503, json!({})).is_retryable());
    }

    #[test]
    fn an_over_long_context_is_known_in_every_vendors_words() {
        let bodies = [
            (
                400,
                json!({"error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
            ),
            (
                413,
                json!({"error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}),
            ),
            (400, json!({"error": {"code": "context_length_exceeded", "message": "too many"}})),
            (
                400,
                json!({"error": {"code": 400, "type": "exceed_context_size_error", "message": "the request exceeds the available context size"}}),
            ),
            (
                400,
                json!({"error": {"message": "This model's maximum context length is 8192 tokens."}}),
            ),
        ];
        for (status, body) in bodies {
            let error = refused("openai", status, &body, "", None);
            assert!(matches!(error, ModelError::ContextTooLong { .. }), "{body}");
        }
    }

    #[test]
    fn a_base_url_must_be_http() {
        for url in ["", "api.example.com", "ftp://x", "file:///x"] {
            assert!(
                matches!(client("openai", url, None), Err(ModelError::BaseUrl { .. })),
                "{url}"
            );
        }
        let (_, url) = client("openai", "http://x/v1/", None).unwrap();
        assert_eq!(join(&url, "chat/completions"), "http://x/v1/chat/completions");
    }
}
