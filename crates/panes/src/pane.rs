//! The trait that every terminal backend implements, and its types.
//!
//! Each backend creates panes in its own way. But all backends check a request in the same way, and
//! this module contains that check.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use pitcrew_process::PaneTag;
use pitcrew_protocol::PaneHost;
use serde::{Deserialize, Serialize};

/// A terminal that can show several programs side by side.
///
/// All methods may be called at any time, also from several tasks at once. Only the iTerm2 backend
/// types text into a shell. A pane without a pitcrew tag is never changed.
#[async_trait]
pub trait Panes: Send + Sync + fmt::Debug {
    /// Returns the value of `backendType` in the team's config, for members with a pane of this
    /// backend.
    fn backend_type(&self) -> &'static str;

    /// Returns the data with which another process finds the panes of this terminal.
    fn host(&self) -> PaneHost {
        PaneHost::of(self.backend_type())
    }

    /// Starts a program in a new pane.
    ///
    /// The program gets exactly the requested arguments, and runs in the requested folder with the
    /// requested variables. The pane has its tag before the program starts. The pane stays open
    /// after the program ends, until [`Panes::stop`] is called. The focus does not move. If this
    /// call fails, it leaves no pane behind.
    ///
    /// # Errors
    /// [`PaneError`] if the terminal is missing or refuses the request, or if the request is
    /// invalid.
    async fn start(&self, pane: &NewPane) -> Result<StartedPane, PaneError>;

    /// Returns the state of the program in a pane. The state is [`PaneState::Gone`] if the pane
    /// never existed or was closed, or if the terminal no longer exists. These cases are not
    /// errors.
    ///
    /// # Errors
    /// [`PaneError`] if the terminal does not answer.
    async fn state(&self, pane: &PaneId) -> Result<PaneState, PaneError>;

    /// Returns the text on the pane's screen. If the program has ended, returns the last text on
    /// the screen. Returns `None` if the pane does not exist any more.
    ///
    /// # Errors
    /// [`PaneError`] if the terminal does not answer or cannot read screens.
    async fn screen(&self, pane: &PaneId) -> Result<Option<String>, PaneError>;

    /// Makes a hidden pane visible again. Does nothing if the pane is visible.
    ///
    /// # Errors
    /// [`PaneError::Gone`] if the pane does not exist, [`PaneError::Foreign`] if pitcrew did not
    /// create the pane.
    async fn show(&self, pane: &PaneId) -> Result<(), PaneError>;

    /// Returns where a person can see a pane: a session of the terminal, and the command that
    /// switches to this session. Returns `None` if the terminal has no sessions, or if the pane is
    /// hidden or does not exist any more.
    ///
    /// # Errors
    /// [`PaneError`] if the terminal does not answer.
    async fn in_view_at(&self, _pane: &PaneId) -> Result<Option<PaneView>, PaneError> {
        Ok(None)
    }

    /// Hides a pane. The program in the pane continues to run. Does nothing if the pane is already
    /// hidden.
    ///
    /// # Errors
    /// The same errors as [`Panes::show`].
    async fn hide(&self, pane: &PaneId) -> Result<(), PaneError>;

    /// Closes a pane that has the tag. Succeeds also if the pane does not exist any more.
    ///
    /// The program receives a hangup signal, as when any terminal closes. If the program ignores
    /// this signal, the caller must stop the program's process.
    ///
    /// # Errors
    /// [`PaneError::Foreign`] if the pane has another tag or no tag. Then the pane is not changed.
    async fn stop(&self, pane: &PaneId, tag: &PaneTag) -> Result<(), PaneError>;

    /// Finds all panes that have the tag. This includes hidden panes, panes whose program has
    /// ended, and panes that a crash has left behind.
    ///
    /// # Errors
    /// [`PaneError`] if the terminal does not answer.
    async fn tagged(&self, tag: &PaneTag) -> Result<Vec<(PaneId, PaneTag)>, PaneError>;
}

/// The place where a person can see a pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaneView {
    /// The name of the place, such as `the tmux session work`.
    pub place: String,
    /// The command that switches to this place, as a list of words.
    pub command: Vec<String>,
    /// True if a terminal shows this place now.
    pub is_shown: bool,
}

/// A program to start in a pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPane {
    /// The program and its arguments. No shell interprets them.
    pub argv: Vec<String>,
    /// The folder in which the program starts, as an absolute path.
    pub cwd: PathBuf,
    /// Environment variables to set. The terminal may set further variables in its panes.
    pub env: Vec<(String, String)>,
    /// The title of the pane.
    pub title: String,
    /// The color of the pane's border. It must be a color of the team protocol (`blue`, `pink`,
    /// ...). Other values are ignored.
    pub color: Option<String>,
    /// The pane's tag, which names the pane's owner.
    pub tag: PaneTag,
}

impl NewPane {
    /// Checks that this request is valid, so that a terminal can start the program.
    ///
    /// # Errors
    /// [`PaneError::Unfit`] if the list of arguments is empty, a text contains a NUL character, a
    /// variable is invalid, or the folder does not exist.
    pub fn check(&self) -> Result<(), PaneError> {
        let unfit = |what: String| Err(PaneError::Unfit { what });
        if self.argv.first().is_none_or(String::is_empty) {
            return unfit("there is no program to start".to_owned());
        }
        if self.argv.iter().any(|argument| argument.contains('\0')) {
            return unfit("an argument contains a NUL".to_owned());
        }
        if let Some((name, _)) = self.env.iter().find(|(name, value)| !is_variable(name, value)) {
            return unfit(format!("the variable {name:?} is not possible in an environment"));
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

/// The id that the terminal gives to a pane, such as `%3` in tmux.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PaneId(pub String);

impl fmt::Display for PaneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The data of a pane that was just started.
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
    /// True if the pane was created by splitting an existing pane, false if it has its own window.
    /// `None` if this is not known.
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
    /// The program has ended. The pane still shows the program's last screen.
    Ended {
        /// The exit status of the program. If a signal ended the program, it is 128 plus the signal
        /// number, as in a shell. `None` if the terminal cannot report the exit status.
        exit: Option<i32>,
    },
    /// The pane does not exist.
    Gone,
}

/// The reason why a terminal could not carry out a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PaneError {
    /// The request is invalid, so the program cannot be started.
    #[error("a pane cannot be started: {what}")]
    Unfit {
        /// The reason why the program cannot be started.
        what: String,
    },
    /// The program of the terminal itself, such as tmux, is not installed.
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
        /// The command, without the program that it was to start in a pane.
        command: String,
        /// The error text that the command printed.
        stderr: String,
    },
    /// A terminal command or a pane program did not answer in time.
    #[error("`{command}` did not answer within {} s", .after.as_secs())]
    Slow {
        /// The command or the pane program that did not answer.
        command: String,
        /// The time limit.
        after: Duration,
    },
    /// The operating system refused an action.
    #[error("cannot {action} {what}")]
    Io {
        /// The action that failed, as a phrase that `what` completes, such as `start the
        /// pane program`.
        action: &'static str,
        /// The object of the action, such as a path.
        what: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The process of a new pane did not become the program.
    #[error("its program was not started: {reason}")]
    NotStarted {
        /// The reason.
        reason: String,
    },
    /// The pane does not exist.
    #[error("there is no pane {pane}")]
    Gone {
        /// The id of the pane.
        pane: PaneId,
    },
    /// The pane does not have the requested tag. It was not changed, because it may belong to
    /// someone else.
    #[error("pane {pane} does not carry the tag {tag}")]
    Foreign {
        /// The id of the pane.
        pane: PaneId,
        /// The requested tag.
        tag: String,
    },
    /// This terminal does not support the operation.
    #[error("{terminal} cannot {what}")]
    Unsupported {
        /// The name of the terminal.
        terminal: String,
        /// The operation that is not supported.
        what: &'static str,
    },
    /// A pane program answered with an error.
    #[error("{program}: {message} ({code})")]
    Answered {
        /// The name of the pane program.
        program: String,
        /// The error code.
        code: String,
        /// The error message.
        message: String,
    },
    /// A pane program broke the rules of the protocol, or ended.
    #[error("{program}: {what}{}", stderr_tail(.stderr))]
    Broken {
        /// The name of the pane program.
        program: String,
        /// What the pane program did wrong.
        what: String,
        /// The last part of the text that the pane program wrote to standard error.
        stderr: String,
    },
}

/// Returns the error text that a failed terminal command printed. If the command printed none,
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
