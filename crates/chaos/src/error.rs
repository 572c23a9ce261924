//! Errors of the harness itself. A fault of pitcrew is not an [`Error`], but a
//! [`Finding`](crate::oracle::Finding).

use std::io;
use std::path::Path;

/// An error of the harness itself.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused an action of the harness on a file, a folder or a process.
    #[error("cannot {action}")]
    Io {
        /// The action that failed, such as `read /tmp/x`.
        action: String,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A program that the harness runs failed.
    #[error("{program} failed: {output}")]
    Program {
        /// The program and its arguments.
        program: String,
        /// The error output of the program.
        output: String,
    },
    /// The harness was started with SIGHUP ignored, for example by `nohup`. The lead's process
    /// inherits this, and would not notice in its first milliseconds that its terminal was closed.
    #[error(
        "SIGHUP is ignored here, for example because of `nohup`; a run that inherits this does not notice in its first milliseconds that its terminal is closed; start the harness with `setsid` instead"
    )]
    HangUpIgnored,
    /// The user stopped the harness.
    #[error("stopped by Ctrl-C")]
    Stopped,
}

impl Error {
    /// Returns a function that wraps an error of the operating system, together with the action
    /// that failed.
    pub fn io(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let action = format!("{action} {}", path.display());
        move |source| Self::Io { action, source }
    }
}

/// Formats an error and all its causes in one line.
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
