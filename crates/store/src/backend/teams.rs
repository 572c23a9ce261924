//! Teams: made, read, changed, watched, and ended.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use pitcrew_protocol::{ApiError, InboxFile, TeamConfig, TeamDir};

use super::{ArchiveName, LeaseName, LogName};
use crate::StoreError;

/// A change to a team's config. It may be applied more than once, to newer states, and so must be idempotent and pure.
pub type TeamEdit = Arc<dyn Fn(&mut TeamConfig) -> Result<(), ApiError> + Send + Sync>;

/// What changed in a team, as its watcher is told.
pub type Watch = BoxStream<'static, Change>;

/// Teams and their configs.
#[async_trait]
pub trait TeamStore: Send + Sync {
    /// The folders of all teams, sorted. Something among them that is no folder of a team is listed too; [`TeamStore::team`]
    /// says what is wrong with it.
    async fn teams(&self) -> Result<Vec<TeamDir>, StoreError>;

    /// Makes a team. Of several callers with names that fall on one folder, one wins; the others get
    /// [`StoreError::TeamTaken`]. A crash leaves either the whole team or none.
    ///
    /// With `logs` the team has logs of an archived one from its first moment on; those that the archive does not have it
    /// begins without. [`StoreError::NoTeam`] when there is no such archive.
    async fn create_team(
        &self,
        config: &TeamConfig,
        logs: Option<&ArchivedLogs>,
    ) -> Result<(), StoreError>;

    /// The team's config; shared, since every step of every agent looks at it.
    async fn team(&self, team: &TeamDir) -> Result<Arc<TeamConfig>, StoreError>;

    /// Reads, changes and writes the config, keeping foreign fields. An update lost to a writer that holds no lock is
    /// noticed and applied again.
    async fn edit_team(&self, team: &TeamDir, edit: TeamEdit) -> Result<TeamConfig, StoreError>;

    /// Moves the team's journal, transcripts and unread mail to the archive and removes the team; names the archive.
    /// A crash in the middle leaves a team, or the rest of one, that a second call removes.
    async fn archive_team(&self, team: &TeamDir) -> Result<ArchiveName, StoreError>;

    /// Removes a team in which nothing happened, as if it had never been made.
    async fn discard_team(&self, team: &TeamDir) -> Result<(), StoreError>;

    /// Tells what changes in a team from now on, by whomever it is changed. Several changes of one thing may be told once.
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
    /// The journal: there is more of it.
    Journal,
    /// A lease was taken, or has ended.
    Lease(LeaseName),
    /// The team is gone; the last change told.
    Gone,
    /// Changes may have been missed: look at everything.
    Unsure,
    /// From now on changes are looked for every second, and told as [`Change::Unsure`]: nothing tells them by itself.
    Unwatched {
        /// Why.
        reason: String,
    },
}
