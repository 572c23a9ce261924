//! The program that keeps the panes of a team.

use serde::{Deserialize, Serialize};

/// A program that keeps panes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaneHost {
    /// The kind of host, as in a member's `backendType`.
    pub backend: String,
    /// The socket of the host's server, if it is not the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    /// The program that implements the pane protocol, with its arguments. Empty for every other
    /// kind of host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

impl PaneHost {
    /// Returns the default host of a kind.
    #[must_use]
    pub fn of(backend: &str) -> Self {
        Self { backend: backend.to_owned(), ..Self::default() }
    }
}
