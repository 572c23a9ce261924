//! Reads the numbers of all teams, within fixed limits.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt as _};
use pitcrew_protocol::ErrorCode;
use pitcrew_team::{Team, TeamRecords};
use tokio::sync::Semaphore;

use super::journal_counts::JournalCounts;
use super::team_reading::{self, TeamReading};
use crate::app::App;
use crate::failure::Failure;
use crate::records::{self, TeamStatus};

/// The maximum number of teams that have their own series. Running teams come first.
const TEAMS_MOST: usize = 100;

/// The maximum number of teams of which the server looks up whether they run.
const FOLDERS_MOST: usize = 1_000;

/// The number of teams that are read at a time.
const AT_A_TIME: usize = 8;

/// How long a reading serves further scrapes. Several collectors then cost as much as one.
const FRESH: Duration = Duration::from_secs(1);

/// The numbers of all teams at one moment.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) at_ms: i64,
    pub(super) running: u64,
    pub(super) stopped: u64,
    /// The teams that another client leads, of which it is not known whether they run.
    pub(super) unknown: u64,
    pub(super) archived: u64,
    /// The teams of which a file cannot be read.
    pub(super) unreadable: u64,
    /// The teams that are over one of the limits.
    pub(super) left_out: u64,
    /// The teams in their place that were read, sorted by folder.
    pub(super) teams: Vec<TeamReading>,
}

/// Reads all teams, one scrape at a time.
#[derive(Debug)]
pub(crate) struct AllTeams {
    turn: Semaphore,
    latest: Mutex<Option<(Instant, Arc<Reading>)>>,
    journals: JournalCounts,
}

impl Default for AllTeams {
    fn default() -> Self {
        let turn = Semaphore::new(1);
        Self { turn, latest: Mutex::default(), journals: JournalCounts::default() }
    }
}

impl AllTeams {
    /// Returns the numbers of all teams. They are at most [`FRESH`] old.
    ///
    /// # Errors
    /// If the teams cannot be listed.
    pub(super) async fn reading(&self, app: &App) -> Result<Arc<Reading>, Failure> {
        // The semaphore is never closed.
        let _turn = self.turn.acquire().await.map_err(|error| Failure::internal(&error))?;
        if let Some(fresh) = self.fresh() {
            return Ok(fresh);
        }
        let read = Arc::new(self.read(app).await?);
        let latest = Some((Instant::now(), Arc::clone(&read)));
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = latest;
        Ok(read)
    }

    fn fresh(&self) -> Option<Arc<Reading>> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.as_ref().filter(|(at, _)| at.elapsed() < FRESH).map(|(_, read)| Arc::clone(read))
    }

    async fn read(&self, app: &App) -> Result<Reading, Failure> {
        let archives =
            app.reads.archive_names().await.map_err(|error| Failure::internal(&error))?;
        let mut reading = Reading {
            at_ms: app.reads.now_ms(),
            archived: count(archives.len()),
            ..Reading::default()
        };
        let mut teams = in_place(app, &mut reading).await?;
        // The order of the folders stays among running teams and among stopped ones.
        teams.sort_by_key(|(_, is_running)| !is_running);
        reading.left_out += count(teams.len().saturating_sub(TEAMS_MOST));
        teams.truncate(TEAMS_MOST);
        self.journals.keep_only(&teams.iter().map(|(team, _)| team.dir()).collect());
        let read = |team| async move { team_reading::read(&self.journals, &team).await };
        let mut results = stream::iter(teams).map(read).buffer_unordered(AT_A_TIME);
        while let Some(result) = results.next().await {
            match result {
                Ok(team) => reading.teams.push(team),
                Err(_unreadable) => reading.unreadable += 1,
            }
        }
        reading.teams.sort_by(|one, other| one.folder.cmp(&other.folder));
        Ok(reading)
    }
}

/// Opens the teams that are in their place, and looks up which of them run.
async fn in_place(app: &App, reading: &mut Reading) -> Result<Vec<(Team, bool)>, Failure> {
    let mut folders = app.reads.folders().await.map_err(|error| Failure::internal(&error))?;
    reading.left_out += count(folders.len().saturating_sub(FOLDERS_MOST));
    folders.truncate(FOLDERS_MOST);
    let mut teams = Vec::new();
    for folder in folders {
        match opened(app, folder.as_str()).await {
            Ok(Some((team, status))) => {
                *reading.of(status) += 1;
                teams.push((team, status == TeamStatus::Running));
            }
            Ok(None) => {}
            Err(_unreadable) => reading.unreadable += 1,
        }
    }
    Ok(teams)
}

impl Reading {
    /// The number of teams in this state.
    fn of(&mut self, status: TeamStatus) -> &mut u64 {
        match status {
            TeamStatus::Running => &mut self.running,
            TeamStatus::Stopped => &mut self.stopped,
            TeamStatus::Unknown => &mut self.unknown,
            TeamStatus::Archived => &mut self.archived,
        }
    }
}

/// Opens a team and looks up whether it runs. Returns `None` if it was deleted meanwhile.
async fn opened(app: &App, folder: &str) -> Result<Option<(Team, TeamStatus)>, Failure> {
    let team = match app.reads.open(folder).await {
        Ok(team) => team,
        Err(error) if error.code == ErrorCode::TeamNotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let running = records::running(&TeamRecords::Live(team.clone())).await?;
    Ok(Some((team, records::status(running.as_ref()))))
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
