//! The events of a team as a stream that a browser can read (`text/event-stream`).
//!
//! The stream is read from the team's host as fast as the caller takes it. A caller that is too
//! slow gets a snapshot in place of what it missed, and nothing waits for it in memory.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{self, Stream, StreamExt as _};
use pitcrew_team::{Team, TeamRecords};
use pitcrew_view::client::{HostLink, News, Since};
use pitcrew_view::host::HostState;
use pitcrew_view::running::Running;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::app::Shared;
use crate::failure::Failure;
use crate::metrics::OpenStream;
use crate::records;

/// How often an idle stream sends a comment, so that a dead connection is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The header with which a browser says which event it has got last.
const LAST_EVENT_ID: &str = "last-event-id";

/// `GET /api/teams/{team}/events`
pub(super) async fn stream(
    State(app): State<Shared>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let records = app.records(&name).await?;
    let is_hosted = matches!(records::running(&records).await?, Some(Running::ByPitcrew { .. }));
    match records {
        TeamRecords::Live(team) if is_hosted => {
            let since = headers.get(LAST_EVENT_ID).and_then(|id| after(id.to_str().ok()?));
            let follower = Follower::new(team, since, app.stop.clone()).await?;
            Ok(served(follower.events(), app.metrics.requests.open_stream()))
        }
        records @ (TeamRecords::Live(_) | TeamRecords::Archived(..)) => {
            let state = records::of_files(&app, &records).await?;
            let all = [event("snapshot", &state), event("end", &name)];
            Ok(served(stream::iter(all.map(Ok)), app.metrics.requests.open_stream()))
        }
    }
}

fn served(
    events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static,
    open: OpenStream,
) -> Response {
    // The body of the answer owns the stream. So the stream is counted until the caller is gone.
    let events = events.inspect(move |_| {
        let _counted = &open;
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

/// Reads the id of an event, and returns the place after it. An id of another form is ignored, and
/// the stream then begins with a snapshot.
fn after(id: &str) -> Option<Since> {
    let (run, seq) = id.rsplit_once(':')?;
    let seq: i64 = seq.parse().ok()?;
    let next = u64::try_from(seq.checked_add(1)?).ok()?;
    (!run.is_empty()).then(|| Since { run: run.to_owned(), seq: next })
}

/// Returns the id of a snapshot or event after which the event `next` comes. It is -1 if no event
/// happened yet.
fn id_before(run: &str, next: u64) -> String {
    match next.checked_sub(1) {
        Some(last) => format!("{run}:{last}"),
        None => format!("{run}:-1"),
    }
}

fn event(name: &str, data: &impl Serialize) -> Event {
    let event = Event::default().event(name);
    match serde_json::to_string(data) {
        Ok(text) => event.data(text),
        Err(error) => {
            tracing::warn!(%error, "an event cannot be written");
            event.data("null")
        }
    }
}

/// Follows the host of a team, also over the ends of its runs.
struct Follower {
    link: HostLink,
    stop: CancellationToken,
    /// The news that was read before the stream began.
    first: Option<News>,
    is_over: bool,
}

impl Follower {
    /// Connects to the host. The first news is awaited, so that a refusal is the answer of the
    /// request.
    async fn new(
        team: Team,
        since: Option<Since>,
        stop: CancellationToken,
    ) -> Result<Self, Failure> {
        let mut link = HostLink::new(team).going_on(since);
        let first = Some(link.next().await?);
        Ok(Self { link, stop, first, is_over: false })
    }

    fn events(self) -> impl Stream<Item = Result<Event, Infallible>> + Send + 'static {
        stream::unfold(self, |mut follower| async move {
            let event = follower.next().await?;
            Some((Ok(event), follower))
        })
    }

    /// Waits for the next event to send. Returns `None` at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        while !self.is_over {
            let news = match self.first.take() {
                Some(news) => Ok(news),
                None => tokio::select! {
                    () = self.stop.cancelled() => return None,
                    news = self.link.next() => news,
                },
            };
            match news {
                Ok(News::Open(_)) => {}
                Ok(News::Snapshot(state)) => return Some(self.snapshot(&state)),
                Ok(News::Event(it)) => {
                    let id = id_before(self.run(), it.seq.saturating_add(1));
                    return Some(event("event", &it).id(id));
                }
                Ok(News::Nobody) => return Some(event("gone", &self.run())),
                Ok(News::TeamGone) => {
                    self.is_over = true;
                    return Some(event("end", &self.run()));
                }
                // Without news of changes there is nothing to wait for. The caller comes back.
                Ok(News::Unwatched(_)) => return None,
                Err(error) => {
                    tracing::debug!(%error, "the host cannot be followed any more");
                    return None;
                }
            }
        }
        None
    }

    fn snapshot(&self, state: &HostState) -> Event {
        event("snapshot", state).id(id_before(self.run(), state.next_seq))
    }

    fn run(&self) -> &str {
        self.link.run().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_leads_to_the_event_after_it() {
        let since = |run: &str, seq| Some(Since { run: run.to_owned(), seq });
        assert_eq!(after("a-run:41"), since("a-run", 42));
        assert_eq!(after(&id_before("a-run", 42)), since("a-run", 42));
        assert_eq!(after(&id_before("a-run", 0)), since("a-run", 0));
        for other in ["", ":1", "41", "a-run:", "a-run:-2", "a-run:9223372036854775807", "a-run:x"]
        {
            assert_eq!(after(other), None, "{other}");
        }
    }
}
