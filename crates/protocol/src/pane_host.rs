//! The program that runs the terminal panes of a team, such as tmux.

use serde::{Deserialize, Serialize};

/// A program that runs terminal panes, such as tmux.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaneHost {
    /// The kind of the program, as in the field `backendType` of a member.
    pub backend: String,
    /// The socket of the program's server, if it is not the default socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    /// The command that implements the pane protocol, with its arguments. It is empty for every
    /// other kind of program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

impl PaneHost {
    /// Returns the program of this kind, with the default socket.
    #[must_use]
    pub fn of(backend: &str) -> Self {
        Self { backend: backend.to_owned(), ..Self::default() }
    }
}
