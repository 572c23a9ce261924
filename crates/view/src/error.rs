//! The reasons why data about a team cannot be read for display.

use pitcrew_protocol::{ApiError, TeamDir};
use pitcrew_team::store::StoreError;

/// The reason why data about a team cannot be read for display.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// An operation on the team failed.
    #[error(transparent)]
    Team(#[from] ApiError),
    /// The team's files cannot be read.
    #[error("cannot look at team {team}")]
    Store {
        /// The team's folder.
        team: TeamDir,
        /// The underlying error.
        #[source]
        source: StoreError,
    },
}
