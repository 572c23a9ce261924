//! Teams: operations that create, read, change, watch and remove teams.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use pitcrew_protocol::{ApiError, InboxFile, TeamConfig, TeamDir};
use serde_json::Value;

use super::{ArchiveName, LeaseName, LogName};
use crate::StoreError;

/// An edit of a team's config. The store can apply the edit several times, each time to a newer
/// config. Therefore the edit must be idempotent and must have no side effects.
pub type TeamEdit = Arc<dyn Fn(&mut TeamConfig) -> Result<(), ApiError> + Send + Sync>;

/// A stream of the changes in a team.
pub type Watch = BoxStream<'static, Change>;

/// Teams and their configs.
#[async_trait]
pub trait TeamStore: Send + Sync {
    /// Returns the folders of all teams, sorted. The list can also contain a folder that is not a
    /// valid team. For such a folder, [`TeamStore::team`] returns an error that describes the
    /// fault.
    async fn teams(&self) -> Result<Vec<TeamDir>, StoreError>;

    /// Creates a team. Different team names can lead to the same folder. If several callers create
    /// teams with the same folder, one caller succeeds and the others get
    /// [`StoreError::TeamTaken`]. A crash leaves either the whole team or no team.
    ///
    /// The team also starts with the content of `new`. Returns [`StoreError::NoTeam`] if `new` names
    /// an archive that does not exist.
    async fn create_team(&self, config: &TeamConfig, new: &NewTeam) -> Result<(), StoreError>;

    /// Returns the team's config. The config is shared in an `Arc`, because every step of every
    /// agent reads it.
    async fn team(&self, team: &TeamDir) -> Result<Arc<TeamConfig>, StoreError>;

    /// Reads, edits and writes the config. Unknown fields are preserved. If a program without a
    /// lock overwrites this change, the store detects that later and applies the edit again.
    async fn edit_team(&self, team: &TeamDir, edit: TeamEdit) -> Result<TeamConfig, StoreError>;

    /// Moves the journal, the transcripts and the unread mail of the team to the archive and
    /// removes the team. Returns the name of the archive. After a crash in the middle, the team or
    /// a part of the team still exists, and a second call completes the removal.
    async fn archive_team(&self, team: &TeamDir) -> Result<ArchiveName, StoreError>;

    /// Removes a team in which nothing has happened yet. Afterwards, nothing shows that the team
    /// existed.
    async fn discard_team(&self, team: &TeamDir) -> Result<(), StoreError>;

    /// Reports all changes in a team from now on, whichever program makes them. Several changes of
    /// one file can be reported as one change.
    async fn watch(&self, team: &TeamDir) -> Result<Watch, StoreError>;
}

/// The content that a new team has from its first moment, besides its config.
#[derive(Clone, Debug, Default)]
pub struct NewTeam {
    /// Logs of an archived team. The new team starts with copies of these logs. Logs that the
    /// archive does not contain are left out.
    pub logs: Option<ArchivedLogs>,
    /// Pitcrew's own documents of the team, each with its name.
    pub documents: Vec<(&'static str, Value)>,
}

/// Logs of an archived team that are copied into a new team.
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
    /// Some changes were perhaps not reported. The receiver must read everything again.
    Unsure,
    /// The kernel cannot report changes of this team's folders. From now on the team is polled
    /// every second, and each poll is reported as [`Change::Unsure`].
    Unwatched {
        /// The reason why the kernel reports no changes.
        reason: String,
    },
}
