//! The archive of deleted and finished teams.

use async_trait::async_trait;
use pitcrew_protocol::{Task, TeamConfig, TeamDir};

use crate::StoreError;

/// Reads archived teams, moves them back, and removes them permanently.
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
