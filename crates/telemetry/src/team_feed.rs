//! Reads the new entries of the journal of the run's team, and its tasks.

use pitcrew_protocol::{Task, TeamDir};
use pitcrew_runtime::events::RunStarted;
use pitcrew_team::store::{Event as Noted, JournalEntry, StoreError};
use pitcrew_team::{Team, TeamRecords};

use crate::content::Content;

/// The position that skips all entries of a journal.
const END: u64 = u64::MAX;

/// The journal of a team, as far as it was read.
#[derive(Debug)]
pub(crate) struct TeamFeed {
    team: Team,
    position: u64,
    /// When the run began.
    began_ms: i64,
    /// The latest entries that were read. All of them have the same time.
    latest: Vec<JournalEntry>,
}

/// What is new in a team.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub(crate) entries: Vec<JournalEntry>,
    /// All tasks, if one of them changed.
    pub(crate) tasks: Option<Vec<Task>>,
}

impl TeamFeed {
    pub(crate) fn new(team: Team) -> Self {
        Self { team, position: END, began_ms: 0, latest: Vec::new() }
    }

    /// Begins with a run. The entries of earlier runs are skipped. A lead can delete its team and
    /// make another one, whose journal is then read.
    pub(crate) async fn begin(&mut self, started: &RunStarted, at_ms: i64) {
        let dir = TeamDir::of(&started.team);
        if dir != *self.team.dir()
            && let Ok(team) = self.team.teams().at(&dir)
        {
            self.team = team;
        }
        self.began_ms = at_ms;
        self.latest.clear();
        self.position = 0;
        if started.resumed
            && let Ok((_none, end)) = self.team.journal_since(END).await
        {
            self.position = end;
        }
    }

    /// Returns what may be sent of the texts. The secret values of the team's runs are masked. If
    /// their record cannot be read, no text is sent.
    pub(crate) async fn content(&self, wanted: &Content) -> Content {
        if matches!(wanted, Content::LeftOut) {
            return Content::LeftOut;
        }
        match TeamRecords::Live(self.team.clone()).secret_digests().await {
            Ok(digests) => wanted.knowing(digests),
            Err(error) => {
                tracing::warn!(%error, "no texts are sent, because the secrets are not known");
                Content::LeftOut
            }
        }
    }

    /// Reads what is new. A team that is gone is read from the archive.
    pub(crate) async fn read(&mut self) -> News {
        let (records, entries) = match self.team.journal_since(self.position).await {
            Ok((entries, position)) => {
                self.position = position;
                (TeamRecords::Live(self.team.clone()), entries)
            }
            Err(StoreError::NoTeam { .. }) => match self.archived().await {
                Some(archived) => archived,
                None => return News::default(),
            },
            Err(error) => {
                tracing::warn!(%error, "the journal cannot be read for telemetry");
                return News::default();
            }
        };
        self.remember(&entries);
        let has_task = entries.iter().any(|it| matches!(it.event, Noted::TaskChanged { .. }));
        let tasks = if has_task { records.tasks().await.ok() } else { None };
        News { entries, tasks }
    }

    /// Returns the archived team, with the entries that were not read before.
    async fn archived(&self) -> Option<(TeamRecords, Vec<JournalEntry>)> {
        let teams = self.team.teams();
        let found = teams.find_archived(self.team.dir().as_str()).await.ok()??;
        let records = TeamRecords::Archived(teams.clone(), Box::new(found));
        let (mut entries, _) = records.journal().await.ok()?;
        let since_ms = self.latest.first().map_or(self.began_ms, |entry| entry.at_ms);
        entries.retain(|entry| entry.at_ms >= since_ms && !self.latest.contains(entry));
        Some((records, entries))
    }

    fn remember(&mut self, entries: &[JournalEntry]) {
        let Some(at_ms) = entries.iter().map(|entry| entry.at_ms).max() else { return };
        let is_later = self.latest.first().is_none_or(|latest| at_ms > latest.at_ms);
        if is_later {
            self.latest.clear();
        }
        self.latest.extend(entries.iter().filter(|entry| entry.at_ms == at_ms).cloned());
    }
}
