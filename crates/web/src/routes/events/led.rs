//! The snapshots of a team that another client leads. That client sends no events, so the server
//! reads the team's files when they change.

use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::Event;
use pitcrew_team::{Team, TeamRecords};
use pitcrew_view::host::HostState;
use pitcrew_view::recorded::of_files;
use pitcrew_view::running::Running;
use serde::Serialize;
use tokio::time::{Instant, sleep_until};

use crate::failure::Failure;
use crate::recent::{Recent, TeamId};
use crate::records;

/// The shortest time between two snapshots of a team. Mail that comes and goes in between is not
/// seen. Today's client takes its mail out of an inbox about half a second after it came.
const PAUSE: Duration = Duration::from_millis(250);

/// How much longer than a snapshot the pause after it is. So a large team takes little of a
/// processor.
const PAUSE_PER_SNAPSHOT: u32 = 4;

/// The longest time between two looks at a team. The end of a client changes no file.
const LOOK_AFTER: Duration = Duration::from_secs(10);

/// The maximum number of teams whose latest snapshot is kept.
const TEAMS_MOST: usize = 16;

/// The latest snapshots of teams. All followers of a team share them, so that many of them take hardly
/// more time and memory than one.
#[derive(Debug)]
pub(crate) struct Snapshots(Recent<Shared>);

impl Default for Snapshots {
    fn default() -> Self {
        Self(Recent::new(TEAMS_MOST))
    }
}

/// The latest snapshot of a team. A reader holds the lock while it reads the files.
type Shared = tokio::sync::Mutex<Option<Latest>>;

#[derive(Clone, Debug)]
struct Latest {
    /// When the files began to be read.
    began: Instant,
    /// When they can be read again.
    next: Instant,
    text: Arc<str>,
}

/// What the caller has of the files of a team.
#[derive(Debug, Default)]
pub(super) struct FileNews {
    snapshots: Arc<Snapshots>,
    /// When the files are to be read. `None` before the first change.
    due: Option<Instant>,
    /// When the files can be read again.
    next: Option<Instant>,
    /// The latest snapshot.
    sent: Option<Arc<str>>,
    /// The time of the latest change.
    changed: Option<Instant>,
}

/// The state of a team with the client that leads it.
#[derive(Serialize)]
struct Snapshot<'a> {
    #[serde(flatten)]
    state: &'a HostState,
    running: &'a Running,
    running_in_words: String,
}

impl Snapshots {
    /// Returns a snapshot of the files as they were at a time, or later.
    async fn since(&self, team: &Team, time: Instant) -> Result<Option<Latest>, Failure> {
        let config = team.config().await?;
        let shared = self.0.of(TeamId::of(team, &config), |_| true);
        let mut latest = shared.lock().await;
        if let Some(latest) = latest.as_ref().filter(|latest| latest.began >= time) {
            return Ok(Some(latest.clone()));
        }
        let began = Instant::now();
        let Some(text) = snapshot(team).await? else { return Ok(None) };
        let now = Instant::now();
        let next = now + PAUSE.max((now - began) * PAUSE_PER_SNAPSHOT);
        Ok(latest.insert(Latest { began, next, text: text.into() }).clone().into())
    }
}

impl FileNews {
    pub(super) fn new(snapshots: Arc<Snapshots>) -> Self {
        Self { snapshots, ..Self::default() }
    }

    /// Forgets what the caller has.
    pub(super) fn begin_again(&mut self) {
        *self = Self::new(Arc::clone(&self.snapshots));
    }

    /// Handles a change of the team's files.
    pub(super) fn changed(&mut self) {
        let now = Instant::now();
        let soon = self.next.map_or(now, |next| next.max(now));
        self.changed = Some(now);
        self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
    }

    /// Waits until the files are to be read. It is cancel-safe.
    pub(super) async fn due(&self) {
        match self.due {
            Some(due) => sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    /// Reads the files, unless another caller has just read them. Returns `None` if the caller has this
    /// state, or if a file cannot be read.
    pub(super) async fn snapshot(&mut self, team: &Team) -> Option<Event> {
        // Without a change, nobody else has a reason to read them just now.
        let since = self.changed.take().unwrap_or_else(Instant::now);
        let read = self.snapshots.since(team, since).await;
        let now = Instant::now();
        let next = read.as_ref().ok().and_then(|it| Some(it.as_ref()?.next)).unwrap_or(now + PAUSE);
        (self.due, self.next) = (Some(next.max(now + LOOK_AFTER)), Some(next));
        let text = match read {
            Ok(latest) => latest?.text,
            Err(error) => {
                tracing::debug!(error = error.message(), "the files of a team cannot be read");
                return None;
            }
        };
        if self.sent.as_ref() == Some(&text) {
            return None;
        }
        self.sent = Some(Arc::clone(&text));
        Some(Event::default().event("snapshot").data(text))
    }
}

/// Returns the snapshot of a team as JSON. Returns `None` if it cannot be written.
async fn snapshot(team: &Team) -> Result<Option<String>, Failure> {
    let records = TeamRecords::Live(team.clone());
    let state = of_files(&records).await?;
    let Some(running) = records::running(&records).await? else { return Ok(None) };
    let running_in_words = running.text();
    let snapshot = Snapshot { state: &state, running: &running, running_in_words };
    Ok(serde_json::to_string(&snapshot).ok())
}
