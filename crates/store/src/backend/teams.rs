//! Teams: made, read, changed, watched, and ended.

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
    /// The folders of all teams, sorted. Something among them that is no folder of a team is listed
    /// too; [`TeamStore::team`] says what is wrong with it.
    async fn teams(&self) -> Result<Vec<TeamDir>, StoreError>;

    /// Makes a team. Of several callers with names that fall on one folder, one wins; the others
    /// get [`StoreError::TeamTaken`]. A crash leaves either the whole team or none.
    ///
    /// With `logs` the team has logs of an archived one from its first moment on; those that the
    /// archive does not have it begins without. [`StoreError::NoTeam`] when there is no such
    /// archive.
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

    /// Moves the team's journal, transcripts and unread mail to the archive and removes the team;
    /// names the archive. A crash in the middle leaves a team, or the rest of one, that a second
    /// call removes.
    async fn archive_team(&self, team: &TeamDir) -> Result<ArchiveName, StoreError>;

    /// Removes a team in which nothing happened, as if it had never been created.
    async fn discard_team(&self, team: &TeamDir) -> Result<(), StoreError>;

    /// Reports all changes in a team from now on, from every program. Several changes of one file
    /// may be reported once.
    async fn watch(&self, team: &TeamDir) -> Result<Watch, StoreError>;
}

/// Logs of an archived team that a new one goes on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedLogs {
    /// The archive that has them.
    pub archive: ArchiveName,
    /// Which ones.
    pub logs: Vec<LogName>,
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The config.
    Config,
    /// An inbox.
    Inbox(InboxFile),
    /// Some task.
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
        /// Why.
        reason: String,
    },
}
