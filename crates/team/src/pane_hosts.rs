//! Where the panes of a team are made: recorded before the first is, so that one that a crash kept out of every other record
//! is found all the same.

use pitcrew_protocol::{ApiError, PaneHost};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Team;
use crate::document::Document;

/// The document: where panes were made, the latest last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PaneHosts {
    hosts: Vec<PaneHost>,
}

impl Document for PaneHosts {
    const NAME: &'static str = "panes";

    /// It was the hosts alone.
    fn from_earlier(document: Value) -> Value {
        json!({ "hosts": document })
    }
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

impl Team {
    /// Records that panes of the team are made there from now on.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn note_pane_host(&self, host: PaneHost) -> Result<(), ApiError> {
        self.edit_document(move |all: &mut PaneHosts| {
            all.hosts.retain(|known| *known != host);
            all.hosts.push(host.clone());
            Ok(())
        })
        .await
    }

    /// Everything that panes of the team were made in, the latest last.
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
