//! The archive of deleted and finished teams.

use async_trait::async_trait;
use pitcrew_protocol::{InboxFile, Task, TeamConfig, TeamDir};
use serde_json::Value;

use super::{LogName, StoredMessage};
use crate::{JournalEntry, JournalSummary, StoreError};

/// Reads archived teams, adds the end of a run to them, moves them back, and removes them
/// permanently.
///
/// [`TeamStore::archive_team`](super::TeamStore::archive_team) moves teams into the archive.
#[async_trait]
pub trait ArchiveStore: Send + Sync {
    /// Returns the archives of deleted and finished teams, sorted.
    async fn archives(&self) -> Result<Vec<ArchiveName>, StoreError>;

    /// Returns an archived team, or `None` if there is no such archive.
    async fn archived_team(
        &self,
        archive: &ArchiveName,
    ) -> Result<Option<ArchivedTeam>, StoreError>;

    /// Returns all entries of an archived team's journal. Returns an empty list if the archive does
    /// not exist or contains no journal.
    async fn archived_journal(
        &self,
        archive: &ArchiveName,
    ) -> Result<Vec<JournalEntry>, StoreError>;

    /// Returns the summary of an archived team's journal. This changes nothing in the archive.
    async fn archived_summary(&self, archive: &ArchiveName) -> Result<JournalSummary, StoreError>;

    /// Returns all known messages of an inbox of an archived team: first the messages that have left
    /// the inbox, then the messages in it. A message can be in both parts. Returns an empty list if
    /// the archive does not exist or does not contain the inbox.
    async fn archived_mail(
        &self,
        archive: &ArchiveName,
        inbox: &InboxFile,
    ) -> Result<Vec<StoredMessage>, StoreError>;

    /// Returns one of pitcrew's own documents of an archived team, or `None` if it does not exist.
    async fn archived_document(
        &self,
        archive: &ArchiveName,
        name: &'static str,
    ) -> Result<Option<Value>, StoreError>;

    /// Returns the complete lines of a log of an archived team. Returns an empty list if the archive
    /// does not exist or does not contain the log.
    async fn archived_log(
        &self,
        archive: &ArchiveName,
        log: &LogName,
    ) -> Result<Vec<String>, StoreError>;

    /// Appends entries to the journal of an archived team. A lead can delete its team before its run
    /// ends. The end of that run is recorded in this way.
    ///
    /// # Errors
    /// [`StoreError::NoTeam`] if there is no such archive.
    async fn record_archived(
        &self,
        archive: &ArchiveName,
        entries: &[JournalEntry],
    ) -> Result<(), StoreError>;

    /// Appends either all lines or none to a log of an archived team. A transcript is on disk when
    /// the call returns.
    ///
    /// # Errors
    /// [`StoreError::NoTeam`] if there is no such archive.
    async fn append_archived_log(
        &self,
        archive: &ArchiveName,
        log: &LogName,
        lines: &[String],
    ) -> Result<(), StoreError>;

    /// Moves an archived team back to its place, with everything it had. After a crash in the
    /// middle, the team is still in the archive, and a second call moves it back.
    ///
    /// # Errors
    /// [`StoreError::TeamTaken`] if another team uses the name, and [`StoreError::NoTeam`] if there
    /// is no such archive.
    async fn restore_team(&self, archive: &ArchiveName) -> Result<TeamDir, StoreError>;

    /// Removes an archive permanently. Returns whether the archive existed. After a crash during
    /// this call, either the archive is complete, or [`archives`](Self::archives) no longer returns
    /// its name.
    async fn remove_archive(&self, archive: &ArchiveName) -> Result<bool, StoreError>;
}

/// An archived team, in the state in which it was archived.
#[derive(Clone, Debug, PartialEq)]
pub struct ArchivedTeam {
    /// The name of the archive.
    pub name: ArchiveName,
    /// The team's config.
    pub config: TeamConfig,
    /// The tasks of the team, sorted by id. Unreadable task files are skipped.
    pub tasks: Vec<Task>,
    /// Time at which the team was archived, in milliseconds since 1970. `None` if the time is
    /// unknown.
    pub archived_at_ms: Option<i64>,
}

/// The name under which a backend stores the archive of a deleted or finished team.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArchiveName(pub(crate) String);

impl std::fmt::Display for ArchiveName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
