//! Where the panes of a team are made: recorded before the first is, so that one that a crash kept out of every other record
//! is found all the same.

use pitcrew_protocol::ApiError;
use serde::{Deserialize, Serialize};

use crate::Team;

/// The document's name.
const DOCUMENT: &str = "panes";

/// What keeps panes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaneHost {
    /// Its kind, as in a member's `backendType`.
    pub backend: String,
    /// The socket of the server, when it is not the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    /// The program that speaks the pane protocol, with its arguments; empty for every other kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

/// A pane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PanePlace {
    /// What keeps it.
    #[serde(flatten)]
    pub host: PaneHost,
    /// Its id there, such as `%3`.
    pub id: String,
}

impl PaneHost {
    /// The default host of a kind.
    #[must_use]
    pub fn of(backend: &str) -> Self {
        Self { backend: backend.to_owned(), ..Self::default() }
    }
}

impl Team {
    /// Records that panes of the team are made there from now on.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn note_pane_host(&self, host: PaneHost) -> Result<(), ApiError> {
        self.edit_document(DOCUMENT, move |all: &mut Vec<PaneHost>| {
            all.retain(|known| *known != host);
            all.push(host.clone());
            Ok(())
        })
        .await
    }

    /// Everything that panes of the team were made in, the latest last.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn pane_hosts(&self) -> Result<Vec<PaneHost>, ApiError> {
        self.edit_document(DOCUMENT, |all: &mut Vec<PaneHost>| Ok(all.clone())).await
    }
}

impl std::fmt::Display for PanePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host.backend, self.id)
    }
}
