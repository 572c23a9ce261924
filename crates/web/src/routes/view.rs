//! The one view of a server that was started for it: its replay, and what comes after it.

use std::convert::Infallible;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use serde::Serialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::app::Shared;
use crate::etag::tagged_json;
use crate::failure::Failure;
use crate::viewing::{Known, View};

/// How often an idle stream sends a comment, so that a dead connection is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The header with which a browser says where its stream was interrupted.
const LAST_EVENT_ID: &str = "last-event-id";

/// `GET /api/view/replay`
pub(super) async fn whole(
    Extension(view): Extension<View>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    Ok(tagged_json(&headers, view.whole().await.ok_or_else(over)?))
}

/// `GET /api/view/events?from=N`: the events from the number N on, as they come.
pub(super) async fn events(
    State(app): State<Shared>,
    Extension(view): Extension<View>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let given = match headers.get(LAST_EVENT_ID) {
        Some(id) => id.to_str().ok(),
        None => uri.query().and_then(|query| query.strip_prefix("from=")),
    };
    let next = given.unwrap_or("0").parse();
    let next = next.map_err(|_| Failure::invalid("the parameter 'from' must be a whole number"))?;
    let follower =
        Follower { known: view.known(), view, next, stop: app.stop.clone(), is_over: false };
    let events = stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((Ok::<_, Infallible>(event), follower))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

fn over() -> Failure {
    Failure::internal(&std::io::Error::other("the server ends"))
}

/// A caller that follows the view.
struct Follower {
    view: View,
    known: watch::Receiver<Known>,
    /// The number of the next event to send.
    next: u64,
    stop: CancellationToken,
    is_over: bool,
}

impl Follower {
    /// Waits for the next event to send. Returns `None` at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        while !self.is_over {
            let known = self.known.borrow_and_update().clone();
            if known.next_seq > self.next {
                return self.missed().await;
            }
            if let Some(end) = known.end {
                self.is_over = true;
                return event("end", &end);
            }
            tokio::select! {
                () = self.stop.cancelled() => return None,
                changed = self.known.changed() => changed.ok()?,
            }
        }
        None
    }

    /// Returns the next events that the caller does not have yet.
    async fn missed(&mut self) -> Option<Event> {
        let events = self.view.since(self.next).await?;
        let next = events.first().filter(|first| first.seq == self.next).and(events.last());
        let Some(last) = next else {
            // The caller was slow and the oldest events have left, or the file was begun again. The
            // caller reads the replay again.
            self.is_over = true;
            let known = self.known.borrow().next_seq;
            return event("again", &events.first().map_or(known, |first| first.seq));
        };
        self.next = last.seq + 1;
        Some(event("events", &events)?.id(self.next.to_string()))
    }
}

fn event(name: &str, data: &impl Serialize) -> Option<Event> {
    Some(Event::default().event(name).data(serde_json::to_string(data).ok()?))
}
