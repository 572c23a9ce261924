//! The snapshots of a team that another client leads. That client sends no events, so the server
//! reads the team's files when they change.

use std::time::Duration;

use axum::response::sse::Event;
use pitcrew_team::{Team, TeamRecords};
use pitcrew_view::host::HostState;
use pitcrew_view::recorded::of_files;
use pitcrew_view::running::Running;
use serde::Serialize;
use tokio::time::{Instant, sleep_until};

use crate::failure::Failure;
use crate::records;

/// The shortest time between two snapshots of a team. Mail that comes and goes in between is not
/// seen. Today's client takes its mail out of an inbox about half a second after it came.
const PAUSE: Duration = Duration::from_millis(250);

/// How much longer than a snapshot the pause after it is. So a large team takes little of a
/// processor.
const PAUSE_PER_SNAPSHOT: u32 = 4;

/// The longest time between two looks at a team. The end of a client changes no file.
const LOOK_AFTER: Duration = Duration::from_secs(10);

/// What the caller has of the files of a team.
#[derive(Debug, Default)]
pub(super) struct FileNews {
    /// When the files are to be read. `None` before the first change.
    due: Option<Instant>,
    /// When the files can be read again.
    next: Option<Instant>,
    /// The latest snapshot.
    sent: String,
}

/// The state of a team with the client that leads it.
#[derive(Serialize)]
struct Snapshot<'a> {
    #[serde(flatten)]
    state: &'a HostState,
    running: &'a Running,
    running_in_words: String,
}

impl FileNews {
    /// Handles a change of the team's files.
    pub(super) fn changed(&mut self) {
        let now = Instant::now();
        let soon = self.next.map_or(now, |next| next.max(now));
        self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
    }

    /// Waits until the files are to be read. It is cancel-safe.
    pub(super) async fn due(&self) {
        match self.due {
            Some(due) => sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    /// Reads the files. Returns `None` if the caller has this state, or if a file cannot be read.
    pub(super) async fn snapshot(&mut self, team: &Team) -> Option<Event> {
        let began = Instant::now();
        let read = snapshot(team).await;
        let now = Instant::now();
        let pause = PAUSE.max((now - began) * PAUSE_PER_SNAPSHOT);
        (self.due, self.next) = (Some(now + LOOK_AFTER.max(pause)), Some(now + pause));
        let text = match read {
            Ok(text) => text?,
            Err(error) => {
                tracing::debug!(error = error.message(), "the files of a team cannot be read");
                return None;
            }
        };
        if text == self.sent {
            return None;
        }
        self.sent.clone_from(&text);
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
