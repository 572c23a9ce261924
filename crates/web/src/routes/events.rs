//! The events of a team as a stream that a browser can read (`text/event-stream`).
//!
//! The stream is read from the team's host as fast as the caller takes it. A caller that is too
//! slow gets a snapshot in place of what it missed, and nothing waits for it in memory.
//!
//! A host can be suspended. The stream begins without it, says that the host does not answer, and
//! goes on with a snapshot when the host answers again. A browser never opens a stream again after
//! a 503, so that status is only for a host that this server does not understand.
//!
//! A team that is stopped has no host yet. Its stream waits for one. Only the stream of an archived
//! team ends at once.
//!
//! A team that another client leads has no host. `led` makes its snapshots from the files.

mod led;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{self, Stream, StreamExt as _};
use pitcrew_runtime::control_socket::KnockError;
use pitcrew_team::{Team, TeamRecords};
use pitcrew_view::client::{HostLink, News, Since, follow};
use pitcrew_view::host::HostState;
use pitcrew_view::lead::LeadError;
use pitcrew_view::recorded::of_files;
use pitcrew_view::running::Running;
use serde::Serialize;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::access::{Holder, too_often};
use crate::app::{App, Shared};
use crate::device_streams::{DeviceStream, STREAMS_MOST};
use crate::failure::Failure;
use crate::records::{self, PATIENCE};
use led::FileNews;
pub(crate) use led::Snapshots;

/// How often an idle stream sends a comment, so that a dead connection is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long the answer waits for the host's first news. A host that refuses usually does so within
/// this time, and the refusal is then the answer.
const GRACE: Duration = Duration::from_millis(300);

/// After this time without an event, the host is asked whether it still answers.
const ASK_AFTER: Duration = Duration::from_secs(10);

/// When a device that has too many streams can try again.
const COMES_BACK: Duration = Duration::from_secs(5);

/// The header with which a browser says which event it has got last.
const LAST_EVENT_ID: &str = "last-event-id";

/// The id of the event `end`. A browser that comes back after it gets no stream.
const END: &str = "end";

/// `GET /api/teams/{team}/events`
pub(super) async fn stream(
    State(app): State<Shared>,
    Path(name): Path<String>,
    Extension(holder): Extension<Holder>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let records = app.records(&name).await?;
    let running = records::running(&records).await?;
    let is_of_others = running.as_ref().is_some_and(is_of_others);
    let last_id = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok());
    match records {
        TeamRecords::Live(team) => {
            let of_device = counted(&app, &holder, &team)?;
            let mut follower = match is_of_others {
                false => Follower::new(team, last_id.and_then(after), &app),
                true => Follower::without_host(team, &app),
            };
            follower.wait_for_refusal().await?;
            let open = (app.metrics.requests.open_stream(), of_device);
            Ok(served(follower.events(), open))
        }
        // With any other status, a browser would come back every few seconds.
        _ if last_id == Some(END) => Ok(StatusCode::NO_CONTENT.into_response()),
        records @ TeamRecords::Archived(..) => {
            let state = of_files(&records).await?;
            let all = [event("snapshot", &state), event("end", &name).id(END)];
            Ok(served(stream::iter(all.map(Ok)), app.metrics.requests.open_stream()))
        }
    }
}

/// Counts the stream of a device. Returns `None` for other callers, who have no limit.
fn counted(app: &App, holder: &Holder, team: &Team) -> Result<Option<DeviceStream>, Failure> {
    let Holder::Device(device) = holder else { return Ok(None) };
    match app.device_streams.open(&device.name, team.dir()) {
        Some(stream) => Ok(Some(stream)),
        None => {
            let message = format!("a device can follow a team {STREAMS_MOST} times at once");
            Err(too_often(&message, COMES_BACK).with("limit", STREAMS_MOST))
        }
    }
}

/// Whether another client leads the team, or may lead it.
fn is_of_others(running: &Running) -> bool {
    running.may_run() && !matches!(running, Running::ByPitcrew { .. })
}

fn served(
    events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static,
    open: impl Send + 'static,
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
    team: Team,
    link: HostLink,
    stop: CancellationToken,
    /// The news that was read before the stream began.
    first: Option<News>,
    host: Host,
    /// The number of the next event of the host.
    next_seq: u64,
    files: FileNews,
    /// The event after the one that was sent last, if it is known already.
    queued: Option<Event>,
    is_over: bool,
}

/// What the caller knows of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host {
    /// The host has said nothing yet. At this time it counts as silent.
    Awaited(Instant),
    /// The host answers. It is asked at this time, if it sends no event until then.
    Answers(Instant),
    /// The caller knows that the host does not answer.
    Silent,
    /// Another client leads the team. The caller gets snapshots of the team's files.
    OfOthers,
    /// The caller knows that no process runs the team.
    Gone,
}

impl Follower {
    fn new(team: Team, since: Option<Since>, app: &App) -> Self {
        let next_seq = since.as_ref().map_or(0, |since| since.seq);
        let link = HostLink::new(team.clone()).going_on(since).behind();
        let host = Host::Awaited(Instant::now() + PATIENCE);
        let (files, stop) = (FileNews::new(Arc::clone(&app.snapshots)), app.stop.clone());
        let (first, queued) = (None, None);
        Self { team, link, stop, first, host, next_seq, files, queued, is_over: false }
    }

    /// Follows a team that another client leads.
    fn without_host(team: Team, app: &App) -> Self {
        let link = HostLink::new(team.clone());
        Self { link, host: Host::OfOthers, ..Self::new(team, None, app) }
    }

    /// Waits a moment for the first news, so that a refusal is the answer of the request.
    async fn wait_for_refusal(&mut self) -> Result<(), Failure> {
        if let Ok(news) = timeout(GRACE, self.link.next()).await {
            self.first = Some(news?);
        }
        Ok(())
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
            if let Some(event) = self.queued.take() {
                return Some(event);
            }
            let place = self.place();
            let news = match self.first.take() {
                Some(news) => Ok(news),
                None => tokio::select! {
                    () = self.stop.cancelled() => return None,
                    news = self.link.next() => news,
                    answers = answers(&self.team, self.host, place) => {
                        if answers {
                            self.answered();
                            continue;
                        }
                        return Some(self.silent());
                    }
                    () = self.files.due() => {
                        if let Some(event) = self.files.snapshot(&self.team).await {
                            return Some(event);
                        }
                        continue;
                    }
                },
            };
            match news {
                Ok(News::Nobody) => {
                    if let Some(event) = self.nobody().await {
                        return Some(event);
                    }
                }
                Ok(news) => {
                    if let Some(event) = self.told(news) {
                        return Some(event);
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "the host cannot be followed any more");
                    return None;
                }
            }
        }
        None
    }

    /// Returns the event for this news. Returns `None` if the caller knows it already.
    fn told(&mut self, news: News) -> Option<Event> {
        match news {
            News::Open(_) => {
                self.answered();
                None
            }
            News::Snapshot(state) => {
                self.answered();
                self.next_seq = state.next_seq;
                Some(self.snapshot(&state))
            }
            News::Event(it) => {
                self.answered();
                self.next_seq = it.seq.saturating_add(1);
                Some(event("event", &it).id(id_before(self.run(), self.next_seq)))
            }
            // No event follows it, so it has no id.
            News::Recorded(state) => Some(event("snapshot", &state)),
            News::Nobody => self.gone(),
            News::TeamGone => {
                self.is_over = true;
                Some(event("end", &self.run()).id(END))
            }
            // Without news of changes there is nothing to wait for. The caller comes back.
            News::Unwatched(_) => {
                self.is_over = true;
                None
            }
        }
    }

    /// Handles that the team has no host. The link looks for the host after each change of the team's
    /// files, and says each time that there is none.
    async fn nobody(&mut self) -> Option<Event> {
        let records = TeamRecords::Live(self.team.clone());
        let running = records::running(&records).await.ok().flatten();
        if running.as_ref().is_some_and(is_of_others) {
            self.host = Host::OfOthers;
            self.files.changed();
            return None;
        }
        let last = match self.host {
            Host::OfOthers => self.files.snapshot(&self.team).await,
            Host::Awaited(_) | Host::Answers(_) | Host::Silent | Host::Gone => None,
        };
        self.queued = self.gone();
        last.or_else(|| self.queued.take())
    }

    fn gone(&mut self) -> Option<Event> {
        let is_known = self.host == Host::Gone;
        self.host = Host::Gone;
        (!is_known).then(|| event("gone", &self.run()))
    }

    fn answered(&mut self) {
        self.files.begin_again();
        self.host = Host::Answers(Instant::now() + ASK_AFTER);
    }

    /// Opens the link anew and returns the event that says why. The host then begins with a
    /// snapshot, so the caller learns that it answers again even if nothing has happened.
    fn silent(&mut self) -> Event {
        self.link = HostLink::new(self.team.clone()).behind();
        self.host = Host::Silent;
        event("silent", &Failure::silent(self.team.name().as_str()).envelope())
    }

    /// Returns the place in the host's events that the caller has reached.
    fn place(&self) -> Option<Since> {
        self.link.run().map(|run| Since { run: run.to_owned(), seq: self.next_seq })
    }

    fn snapshot(&self, state: &HostState) -> Event {
        event("snapshot", state).id(id_before(self.run(), state.next_seq))
    }

    fn run(&self) -> &str {
        self.link.run().unwrap_or_default()
    }
}

/// Waits until it is time to ask the host, and returns whether it answers. `place` spares the host
/// a snapshot.
async fn answers(team: &Team, host: Host, place: Option<Since>) -> bool {
    match host {
        Host::Awaited(late) => {
            sleep_until(late).await;
            false
        }
        Host::Answers(ask_at) => {
            sleep_until(ask_at).await;
            let asked = timeout(PATIENCE, follow(team, place)).await;
            // A host that is gone, or that refuses, is no silent one. The link learns of it.
            !matches!(
                asked,
                Err(_) | Ok(Err(LeadError::Unreachable { error: KnockError::Silent { .. }, .. }))
            )
        }
        Host::Silent | Host::OfOthers | Host::Gone => std::future::pending().await,
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
