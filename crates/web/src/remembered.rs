//! Watches the teams of other clients for which somebody asked lately. Their mail can be gone from the
//! files half a second after it came, and a caller that polls would not see it. What is seen is kept by
//! [`Team::remember`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use pitcrew_protocol::TeamConfig;
use pitcrew_team::store::Change;
use pitcrew_team::{Team, TeamRecords};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::recent::TeamId;

/// The maximum number of teams that are watched at once.
const TEAMS_MOST: usize = 16;

/// How long a team is watched after somebody has asked for it.
const WATCHED_FOR: Duration = Duration::from_secs(600);

/// How much longer than a read the pause after it is. So a large inbox takes little of a processor.
const PAUSE_PER_READ: u32 = 4;

/// The teams that are watched. Dropping it ends the watches.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    /// When somebody asked for each team.
    asked: Arc<Mutex<HashMap<TeamId, Instant>>>,
    stop: CancellationToken,
}

impl Remembered {
    /// Remembers from now on what can be seen of a team.
    pub(crate) fn ask(&self, team: &Team, config: &TeamConfig) {
        let id = TeamId::of(team, config);
        let mut asked = locked(&self.asked);
        let is_watched = asked.contains_key(&id);
        if !is_watched && asked.len() >= TEAMS_MOST {
            return;
        }
        asked.insert(id.clone(), Instant::now());
        if !is_watched {
            let (team, asked, stop) = (team.clone(), Arc::clone(&self.asked), self.stop.clone());
            team.remember();
            tokio::spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = watch(&team, &id, &asked) => {}
                }
                locked(&asked).remove(&id);
            });
        }
    }
}

impl Drop for Remembered {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn locked(asked: &Mutex<HashMap<TeamId, Instant>>) -> MutexGuard<'_, HashMap<TeamId, Instant>> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads what changes, until the team is gone or nobody asks for it.
async fn watch(team: &Team, id: &TeamId, asked: &Mutex<HashMap<TeamId, Instant>>) {
    let mut changes = match team.watch().await {
        Ok(changes) => changes,
        Err(error) => {
            tracing::debug!(%error, "a team of another client cannot be watched");
            return;
        }
    };
    loop {
        let Some(end) = locked(asked).get(id).map(|asked| *asked + WATCHED_FOR) else { return };
        let change = tokio::select! {
            change = changes.next() => change,
            () = sleep_until(end) => match locked(asked).get(id) {
                Some(asked) if *asked + WATCHED_FOR > Instant::now() => continue,
                _ => return,
            },
        };
        let began = Instant::now();
        // What cannot be read now is read with the next change.
        let read = match change {
            Some(Change::Gone) | None => return,
            Some(Change::Inbox(inbox)) => team.see_inbox(&inbox).await,
            Some(Change::Config | Change::Unsure) => {
                let records = TeamRecords::Live(team.clone());
                records.config_with_former().await.map(drop)
            }
            Some(Change::Tasks | Change::Journal | Change::Lease(_) | Change::Unwatched { .. }) => {
                continue;
            }
        };
        if let Err(error) = read {
            tracing::debug!(%error, "a change of a team of another client cannot be read");
        }
        sleep(began.elapsed() * PAUSE_PER_READ).await;
    }
}
