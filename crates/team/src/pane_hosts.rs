//! The terminal hosts, such as tmux, in which a team's panes are created. A host is recorded before
//! the first pane is created in it. Otherwise a crash could leave a pane that no record mentions.

use pitcrew_protocol::{ApiError, PaneHost};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Team;
use crate::document::Document;

/// The stored document: all hosts in which panes were created, the latest last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PaneHosts {
    hosts: Vec<PaneHost>,
}

impl Document for PaneHosts {
    const NAME: &'static str = "panes";

    /// Converts a document of an earlier version of pitcrew, which had no format version. Such a
    /// document is only the list of hosts.
    fn from_earlier(document: Value) -> Value {
        json!({ "hosts": document })
    }
}

/// A pane and its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PanePlace {
    /// The host of the pane.
    #[serde(flatten)]
    pub host: PaneHost,
    /// The id of the pane in its host, such as `%3`.
    pub id: String,
}

impl Team {
    /// Records the host in which the team's panes are created from now on.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn note_pane_host(&self, host: PaneHost) -> Result<(), ApiError> {
        self.edit_document(move |all: &mut PaneHosts| {
            // Move a known host to the end of the list, because the list ends with the latest host.
            all.hosts.retain(|known| *known != host);
            all.hosts.push(host.clone());
            Ok(())
        })
        .await
    }

    /// Returns all hosts in which panes of the team were created. The latest host is last.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn pane_hosts(&self) -> Result<Vec<PaneHost>, ApiError> {
        Ok(self.read_document::<PaneHosts>().await?.hosts)
    }
}

impl std::fmt::Display for PanePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host.backend, self.id)
    }
}
