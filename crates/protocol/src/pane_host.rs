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
    /// The command, with its arguments, that starts a program for the pane protocol. Empty if the
    /// panes belong to a program that pitcrew knows, such as tmux.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

impl PaneHost {
    /// Returns the program whose kind is `backend`, with the default socket.
    #[must_use]
    pub fn of(backend: &str) -> Self {
        Self { backend: backend.to_owned(), ..Self::default() }
    }
}
