//! Teams: creating, reading, changing, watching and removing them.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use pitcrew_protocol::{ApiError, InboxFile, TeamConfig, TeamDir};

use super::{ArchiveName, LeaseName, LogName};
use crate::StoreError;

/// A change to a team's config. It may be applied several times, each time to a newer config, and
/// so must be idempotent and pure.
pub type TeamEdit = Arc<dyn Fn(&mut TeamConfig) -> Result<(), ApiError> + Send + Sync>;

/// A stream of the changes in a team.
pub type Watch = BoxStream<'static, Change>;

/// Teams and their configs.
#[async_trait]
pub trait TeamStore: Send + Sync {
    /// Returns the folders of all teams, sorted. The list can also contain an entry that is not the
    /// folder of a team. [`TeamStore::team`] then returns an error that describes the fault.
    async fn teams(&self) -> Result<Vec<TeamDir>, StoreError>;

    /// Creates a team. If the names of several callers lead to the same folder, one caller succeeds
    /// and the others get [`StoreError::TeamTaken`]. A crash leaves either the whole team or no
    /// team.
    ///
    /// With `logs`, the new team has copies of these logs of an archived team from the beginning.
    /// Logs that the archive does not contain are left out. Returns [`StoreError::NoTeam`] if there
    /// is no such archive.
    async fn create_team(
        &self,
        config: &TeamConfig,
        logs: Option<&ArchivedLogs>,
    ) -> Result<(), StoreError>;

    /// Returns the team's config. It is shared, because every step of every agent reads it.
    async fn team(&self, team: &TeamDir) -> Result<Arc<TeamConfig>, StoreError>;

    /// Reads, changes and writes the config, and keeps unknown fields. If a writer without a lock
    /// overwrites the update, the store notices it and applies the update again.
    async fn edit_team(&self, team: &TeamDir, edit: TeamEdit) -> Result<TeamConfig, StoreError>;

    /// Moves the journal, the transcripts and the unread mail of the team to the archive and
    /// removes the team. Returns the name of the archive. A crash in the middle leaves the team or
    /// a part of it, which a second call removes.
    async fn archive_team(&self, team: &TeamDir) -> Result<ArchiveName, StoreError>;

    /// Removes a team in which nothing happened, as if it had never been created.
    async fn discard_team(&self, team: &TeamDir) -> Result<(), StoreError>;

    /// Reports all changes in a team from now on, from every program. Several changes of one file
    /// may be reported once.
    async fn watch(&self, team: &TeamDir) -> Result<Watch, StoreError>;
}

/// Logs of an archived team that a new team starts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedLogs {
    /// The archive that contains the logs.
    pub archive: ArchiveName,
    /// The names of the logs.
    pub logs: Vec<LogName>,
}

/// A change in a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The config changed.
    Config,
    /// This inbox changed.
    Inbox(InboxFile),
    /// At least one task changed.
    Tasks,
    /// The journal became longer.
    Journal,
    /// A lease was taken or has ended.
    Lease(LeaseName),
    /// The team no longer exists. This is the last change of the stream.
    Gone,
    /// Some changes may be lost. The receiver must read everything again.
    Unsure,
    /// The kernel reports no changes here. From now on the team is polled every second, and each
    /// poll is reported as [`Change::Unsure`].
    Unwatched {
        /// The reason why the kernel reports no changes.
        reason: String,
    },
}
