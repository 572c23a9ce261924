//! The trait that every terminal backend implements, and its types.
//!
//! Each backend creates panes in its own way. But all backends share the check of a request, which
//! is in this module.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use pitcrew_process::PaneTag;
use pitcrew_protocol::PaneHost;
use serde::{Deserialize, Serialize};

/// A terminal that can show programs side by side.
///
/// All methods may be called at any time, also from several tasks at once. Except in iTerm2, no
/// text is typed into a shell. A pane without a pitcrew tag is never changed.
#[async_trait]
pub trait Panes: Send + Sync + fmt::Debug {
    /// Returns the value of `backendType` for a member whose pane belongs to this backend.
    fn backend_type(&self) -> &'static str;

    /// Returns the data that another process needs to find the panes of this terminal.
    fn host(&self) -> PaneHost {
        PaneHost::of(self.backend_type())
    }

    /// Starts a program in a new pane.
    ///
    /// The program receives the argv unchanged, and runs in the requested folder with the requested
    /// variables. The pane has its tag before the program's first instruction. The pane stays open
    /// after the program ends, until [`Panes::stop`] is called. The focus does not move. If this
    /// call fails, no pane is left behind.
    ///
    /// # Errors
    /// [`PaneError`] if the terminal is missing or refuses the request, or if the request is
    /// invalid.
    async fn start(&self, pane: &NewPane) -> Result<StartedPane, PaneError>;

    /// Returns the state of the program in a pane. If the pane never existed, was closed, or its
    /// terminal is gone, the state is [`PaneState::Gone`] and not an error.
    ///
    /// # Errors
    /// [`PaneError`] if the terminal does not answer.
    async fn state(&self, pane: &PaneId) -> Result<PaneState, PaneError>;

    /// Returns the text on the pane's screen. If the program has ended, returns the last text that
    /// was shown. Returns `None` if the pane is gone.
    ///
    /// # Errors
    /// [`PaneError`] if the terminal does not answer or cannot read screens.
    async fn screen(&self, pane: &PaneId) -> Result<Option<String>, PaneError>;

    /// Makes a hidden pane visible again. Idempotent.
    ///
    /// # Errors
    /// [`PaneError::Gone`] if there is no such pane, [`PaneError::Foreign`] if it is not a pitcrew
    /// pane.
    async fn show(&self, pane: &PaneId) -> Result<(), PaneError>;

    /// Returns the place where a person can see a pane: a session of the terminal, and the command
    /// that switches to this session. Returns `None` if the terminal has no such places, or if the
    /// pane is hidden or gone.
    ///
    /// # Errors
    /// [`PaneError`] if the terminal does not answer.
    async fn in_view_at(&self, _pane: &PaneId) -> Result<Option<PaneView>, PaneError> {
        Ok(None)
    }

    /// Hides a pane. The pane's program continues to run. Idempotent.
    ///
    /// # Errors
    /// The errors of [`Panes::show`].
    async fn hide(&self, pane: &PaneId) -> Result<(), PaneError>;

    /// Closes a pane if the pane has the tag. Idempotent: succeeds if the pane is already gone.
    ///
    /// The program receives a hangup signal, as from any terminal that closes. If the program
    /// ignores the signal, the owner of the process must stop it.
    ///
    /// # Errors
    /// [`PaneError::Foreign`] if the pane has another tag or none. Such a pane is not changed.
    async fn stop(&self, pane: &PaneId, tag: &PaneTag) -> Result<(), PaneError>;

    /// Finds all panes that have the tag. Includes hidden panes, panes of ended programs, and panes
    /// left over from a crash.
    ///
    /// # Errors
    /// [`PaneError`] if the terminal does not answer.
    async fn tagged(&self, tag: &PaneTag) -> Result<Vec<(PaneId, PaneTag)>, PaneError>;
}

/// The place of a visible pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaneView {
    /// The name of the place, such as `the tmux session work`.
    pub place: String,
    /// The command that switches to this place, as a list of words.
    pub command: Vec<String>,
    /// Whether a terminal currently shows this place.
    pub is_shown: bool,
}

/// A program to start in a pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPane {
    /// The program and its arguments. It is executed directly, without a shell.
    pub argv: Vec<String>,
    /// The folder in which the program starts, as an absolute path.
    pub cwd: PathBuf,
    /// Variables to set, in addition to those that the terminal itself sets in its panes.
    pub env: Vec<(String, String)>,
    /// The title of the pane.
    pub title: String,
    /// The color of the pane's border, one of the protocol's colors (`blue`, `pink`, ...). Other
    /// values are ignored.
    pub color: Option<String>,
    /// The tag of the pane's owner.
    pub tag: PaneTag,
}

impl NewPane {
    /// Checks that a terminal can start this program.
    ///
    /// # Errors
    /// [`PaneError::Unfit`] if the argv is empty, a text contains NUL, a variable is invalid, or
    /// the folder does not exist.
    pub fn check(&self) -> Result<(), PaneError> {
        let unfit = |what: String| Err(PaneError::Unfit { what });
        if self.argv.first().is_none_or(String::is_empty) {
            return unfit("there is no program to start".to_owned());
        }
        if self.argv.iter().any(|argument| argument.contains('\0')) {
            return unfit("an argument holds a NUL".to_owned());
        }
        if let Some((name, _)) = self.env.iter().find(|(name, value)| !is_variable(name, value)) {
            return unfit(format!("no environment can hold the variable {name:?}"));
        }
        if !self.cwd.is_absolute() || !self.cwd.is_dir() {
            return unfit(format!("{} is no folder to start in", self.cwd.display()));
        }
        Ok(())
    }
}

fn is_variable(name: &str, value: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
}

/// The terminal's own id of a pane, such as `%3`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PaneId(pub String);

impl fmt::Display for PaneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A pane that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedPane {
    /// The id of the pane.
    pub id: PaneId,
    /// The process id of the program, if the terminal can report it.
    pub pid: Option<u32>,
    /// The session that contains the pane, if the terminal has sessions.
    pub session: Option<String>,
    /// The name of the window that contains the pane, if the terminal has windows.
    pub window: Option<String>,
    /// Whether the pane was split from an existing pane. False if it has its own window. `None` if
    /// this is not known.
    pub is_split: Option<bool>,
}

/// The state of the program in a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaneState {
    /// The program runs.
    Running {
        /// The process id of the program, if the terminal can report it.
        pid: Option<u32>,
    },
    /// The program has ended. The pane still shows the last screen.
    Ended {
        /// The exit status of the program as in a shell: 128 plus the signal number for a signal.
        /// `None` if the terminal cannot report the exit status.
        exit: Option<i32>,
    },
    /// There is no such pane.
    Gone,
}

/// The reason why a terminal could not carry out a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PaneError {
    /// The requested program cannot be started.
    #[error("a pane cannot be started: {what}")]
    Unfit {
        /// The reason why the program cannot be started.
        what: String,
    },
    /// The terminal's program is not installed.
    #[error("{program} is not installed; {needed} is needed")]
    Missing {
        /// The program that was not found.
        program: String,
        /// The required program with its version.
        needed: &'static str,
    },
    /// The terminal's program is too old.
    #[error("{found} is too old; {needed} is needed")]
    TooOld {
        /// The version that was found.
        found: String,
        /// The required program with its version.
        needed: &'static str,
    },
    /// A command of the terminal failed.
    #[error("`{command}` failed: {stderr}")]
    Command {
        /// The command, without the program that the command should start.
        command: String,
        /// The error message.
        stderr: String,
    },
    /// A terminal command or a pane program did not answer in time.
    #[error("`{command}` did not answer within {} s", .after.as_secs())]
    Slow {
        /// The command.
        command: String,
        /// The time limit.
        after: Duration,
    },
    /// The operating system refused an action.
    #[error("cannot {action} {what}")]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The object of the action, such as a path.
        what: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// There is no such pane.
    #[error("there is no pane {pane}")]
    Gone {
        /// The id of the pane.
        pane: PaneId,
    },
    /// The pane does not have the requested tag. It may belong to someone else, so it is not
    /// changed.
    #[error("pane {pane} does not carry the tag {tag}")]
    Foreign {
        /// The id of the pane.
        pane: PaneId,
        /// The tag that was requested.
        tag: String,
    },
    /// This terminal does not support the operation.
    #[error("{terminal} cannot {what}")]
    Unsupported {
        /// The terminal.
        terminal: String,
        /// The operation that is not supported.
        what: &'static str,
    },
    /// A pane program answered with an error.
    #[error("{program}: {message} ({code})")]
    Answered {
        /// The pane program.
        program: String,
        /// The error code.
        code: String,
        /// The error message.
        message: String,
    },
    /// A pane program violated the protocol or ended.
    #[error("{program}: {what}{}", stderr_tail(.stderr))]
    Broken {
        /// The pane program.
        program: String,
        /// What the pane program did wrong.
        what: String,
        /// The last part of the program's standard error output.
        stderr: String,
    },
}

/// Returns the error text of a failed terminal command. If the command printed no error text,
/// describes how the command ended.
pub(super) fn complaint(output: &std::process::Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if said.is_empty() { output.status.to_string() } else { said }
}

fn stderr_tail(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!("; its last words: {stderr}") }
}

#[cfg(test)]
mod tests {
    use pitcrew_protocol::TeamDir;

    use super::*;

    fn pane() -> NewPane {
        NewPane {
            argv: vec!["sleep".to_owned(), "1".to_owned()],
            cwd: PathBuf::from("/"),
            env: vec![("A".to_owned(), "=\n".to_owned())],
            title: "bob".to_owned(),
            color: None,
            tag: PaneTag { root: "0af3".to_owned(), team: TeamDir::of("crew"), agent: None },
        }
    }

    #[test]
    fn what_no_system_can_start_is_refused_before_a_terminal_is_asked() {
        assert!(pane().check().is_ok());
        let unfit = [
            NewPane { argv: Vec::new(), ..pane() },
            NewPane { argv: vec![String::new()], ..pane() },
            NewPane { argv: vec!["a\0b".to_owned()], ..pane() },
            NewPane { cwd: PathBuf::from("relative"), ..pane() },
            NewPane { cwd: PathBuf::from("/no/such/folder"), ..pane() },
            NewPane { env: vec![("A=B".to_owned(), String::new())], ..pane() },
            NewPane { env: vec![(String::new(), String::new())], ..pane() },
            NewPane { env: vec![("A".to_owned(), "\0".to_owned())], ..pane() },
        ];
        for pane in unfit {
            assert!(matches!(pane.check(), Err(PaneError::Unfit { .. })), "{pane:?}");
        }
    }
}
