//! The archive: teams that were deleted or came to their end.

use async_trait::async_trait;
use pitcrew_protocol::{Task, TeamConfig, TeamDir};

use crate::StoreError;

/// Teams of the archive: read, moved back, and removed for good.
///
/// [`TeamStore::archive_team`](super::TeamStore::archive_team) puts them there.
#[async_trait]
pub trait ArchiveStore: Send + Sync {
    /// The archives of teams that were deleted or came to their end, sorted.
    async fn archives(&self) -> Result<Vec<ArchiveName>, StoreError>;

    /// A team of the archive; `None` when there is no such archive.
    async fn archived_team(
        &self,
        archive: &ArchiveName,
    ) -> Result<Option<ArchivedTeam>, StoreError>;

    /// Moves a team of the archive back to its place, with everything it had. Its name must be free: else
    /// [`StoreError::TeamTaken`]; [`StoreError::NoTeam`] when there is no such archive. A crash in the middle leaves the team
    /// in the archive, and a second call moves it back.
    async fn restore_team(&self, archive: &ArchiveName) -> Result<TeamDir, StoreError>;

    /// Removes an archive for good; says whether it was there. A crash leaves it whole, or out of every list.
    async fn remove_archive(&self, archive: &ArchiveName) -> Result<bool, StoreError>;
}

/// A team in the archive, as it was at its end.
#[derive(Clone, Debug, PartialEq)]
pub struct ArchivedTeam {
    /// The archive.
    pub name: ArchiveName,
    /// The team's config.
    pub config: TeamConfig,
    /// Its tasks, by id. What cannot be read of them is passed over.
    pub tasks: Vec<Task>,
    /// When it came into the archive, in milliseconds since 1970, as far as that is known.
    pub archived_at_ms: Option<i64>,
}

/// The archive of a team that was deleted or came to its end, as a backend names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArchiveName(pub(crate) String);

impl std::fmt::Display for ArchiveName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
