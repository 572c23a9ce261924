//! What goes wrong in the harness itself; what goes wrong in pitcrew is a finding, not an error.

use std::io;
use std::path::Path;

/// The harness could not do its own work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file, folder or process of the harness failed.
    #[error("cannot {action}")]
    Io {
        /// The action, such as `read /tmp/x`.
        action: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A program that the harness uses refused.
    #[error("{program} failed: {output}")]
    Program {
        /// The program with its arguments.
        program: String,
        /// Its last words.
        output: String,
    },
    /// The user stopped the harness.
    #[error("stopped by Ctrl-C")]
    Stopped,
}

impl Error {
    /// Wraps an error of the system with the action that failed.
    pub fn io(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let action = format!("{action} {}", path.display());
        move |source| Self::Io { action, source }
    }
}

/// The error with all its causes in one line.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
