//! The trait every terminal is behind, and what it speaks of.
//!
//! How a pane is made is the backends'; what is asked for is checked here, once for all of them.

use pitcrew_protocol::PaneHost;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use pitcrew_process::PaneTag;

/// A terminal that can show programs side by side.
///
/// Every method may be called at any time from several tasks at once. Nothing is ever typed into a shell, and nothing is
/// done to a pane that does not carry a tag of ours.
#[async_trait]
pub trait Panes: Send + Sync + fmt::Debug {
    /// What stands in a member's `backendType`.
    fn backend_type(&self) -> &'static str;

    /// What another process needs to find the panes that are made here.
    fn host(&self) -> PaneHost {
        PaneHost::of(self.backend_type())
    }

    /// Starts a program in a pane of its own.
    ///
    /// The argv arrives byte for byte, in the folder and with the variables asked for. The pane carries the tag before
    /// the program's first instruction, and it is kept when the program ends, until [`Panes::stop`]. What has the focus
    /// keeps it. When this fails, no pane is left behind.
    ///
    /// # Errors
    /// [`PaneError`] when the terminal is missing or refuses, or what is asked for cannot be started.
    async fn start(&self, pane: &NewPane) -> Result<StartedPane, PaneError>;

    /// Tells how the program in a pane is. A pane that never was, was closed, or whose terminal is gone is
    /// [`PaneState::Gone`], not an error.
    ///
    /// # Errors
    /// [`PaneError`] when the terminal cannot be asked.
    async fn state(&self, pane: &PaneId) -> Result<PaneState, PaneError>;

    /// Reads what a pane shows, or showed last when its program has ended; nothing when the pane is gone.
    ///
    /// # Errors
    /// [`PaneError`] when the terminal cannot be asked, or cannot tell.
    async fn screen(&self, pane: &PaneId) -> Result<Option<String>, PaneError>;

    /// Brings a hidden pane back into view. Idempotent.
    ///
    /// # Errors
    /// [`PaneError::Gone`] without such a pane, [`PaneError::Foreign`] when it is not ours.
    async fn show(&self, pane: &PaneId) -> Result<(), PaneError>;

    /// Names the place where a pane is in view, for a person who may sit somewhere else: a session of the terminal, and the
    /// words of the command that goes there. Nothing where panes have no such places, or when the pane is hidden or gone.
    ///
    /// # Errors
    /// [`PaneError`] when the terminal cannot be asked.
    async fn in_view_at(&self, _pane: &PaneId) -> Result<Option<PaneView>, PaneError> {
        Ok(None)
    }

    /// Takes a pane out of view; its program goes on. Idempotent.
    ///
    /// # Errors
    /// As for [`Panes::show`].
    async fn hide(&self, pane: &PaneId) -> Result<(), PaneError>;

    /// Closes a pane that carries the tag. Idempotent: a pane that is gone is a success.
    ///
    /// Its program is hung up on, as by any terminal that closes; one that does not heed that is for the owner of the
    /// process to end.
    ///
    /// # Errors
    /// [`PaneError::Foreign`] when it carries another tag or none; it is then left alone.
    async fn stop(&self, pane: &PaneId, tag: &PaneTag) -> Result<(), PaneError>;

    /// Finds the panes that carry the tag, hidden ones and those of ended programs too: also what a crash left.
    ///
    /// # Errors
    /// [`PaneError`] when the terminal cannot be asked.
    async fn tagged(&self, tag: &PaneTag) -> Result<Vec<(PaneId, PaneTag)>, PaneError>;
}

/// Where a pane is that is not hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaneView {
    /// The place, such as `the tmux session work`.
    pub place: String,
    /// The words of the command that goes there.
    pub command: Vec<String>,
    /// Whether a terminal shows that place now.
    pub is_shown: bool,
}

/// What is to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPane {
    /// The program and its arguments; it is executed as it stands, no shell reads it.
    pub argv: Vec<String>,
    /// The folder it is started in, absolute.
    pub cwd: PathBuf,
    /// Variables set on top of what the terminal itself gives its panes.
    pub env: Vec<(String, String)>,
    /// What the pane is called.
    pub title: String,
    /// The colour of its border, one of the wire's (`blue`, `pink`, ...); another is ignored.
    pub color: Option<String>,
    /// Whose it is.
    pub tag: PaneTag,
}

impl NewPane {
    /// Accepts what a terminal can be asked for.
    ///
    /// # Errors
    /// [`PaneError::Unfit`] without an argv, with a NUL or a variable no environment can hold, or for a folder that is
    /// none.
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

/// A pane as its terminal names it, such as `%3`.
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
    /// The pane.
    pub id: PaneId,
    /// The process of the argv itself, where the terminal can tell.
    pub pid: Option<u32>,
    /// The session it is in, where the terminal has such.
    pub session: Option<String>,
    /// The name of the window it is in, where the terminal has such.
    pub window: Option<String>,
    /// Whether it was split off a pane that was there, and not given a window of its own; none where nobody can tell.
    pub is_split: Option<bool>,
}

/// How the program in a pane is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaneState {
    /// It runs.
    Running {
        /// Its process, where the terminal can tell.
        pid: Option<u32>,
    },
    /// It ended, and the pane still shows its last screen.
    Ended {
        /// Its exit status as a shell shows it, 128 plus the number for a signal; none where the terminal cannot tell.
        exit: Option<i32>,
    },
    /// There is no such pane.
    Gone,
}

/// Why a terminal did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PaneError {
    /// What is to be started cannot be.
    #[error("a pane cannot be started: {what}")]
    Unfit {
        /// What is wrong with it.
        what: String,
    },
    /// The terminal's program is not installed.
    #[error("{program} is not installed; {needed} is needed")]
    Missing {
        /// The program that was looked for.
        program: String,
        /// What is needed, with the version.
        needed: &'static str,
    },
    /// The terminal's program is too old.
    #[error("{found} is too old; {needed} is needed")]
    TooOld {
        /// What was found.
        found: String,
        /// What is needed, with the version.
        needed: &'static str,
    },
    /// A command of the terminal failed.
    #[error("`{command}` failed: {stderr}")]
    Command {
        /// The command, without what it was to start.
        command: String,
        /// What it said.
        stderr: String,
    },
    /// A command of the terminal, or a pane program, did not answer.
    #[error("`{command}` did not answer within {} s", .after.as_secs())]
    Slow {
        /// The command.
        command: String,
        /// How long it had.
        after: Duration,
    },
    /// The system refused something.
    #[error("cannot {action} {what}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// There is no such pane.
    #[error("there is no pane {pane}")]
    Gone {
        /// The pane.
        pane: PaneId,
    },
    /// The pane does not carry the tag; it may be somebody else's, and is left alone.
    #[error("pane {pane} does not carry the tag {tag}")]
    Foreign {
        /// The pane.
        pane: PaneId,
        /// The tag that was asked for.
        tag: String,
    },
    /// This terminal cannot do that.
    #[error("{terminal} cannot {what}")]
    Unsupported {
        /// The terminal.
        terminal: String,
        /// What it cannot do.
        what: &'static str,
    },
    /// A pane program answered with an error of its own.
    #[error("{program}: {message} ({code})")]
    Answered {
        /// The program.
        program: String,
        /// The code it gave.
        code: String,
        /// What it said.
        message: String,
    },
    /// A pane program broke the protocol, or died.
    #[error("{program}: {what}{}", stderr_tail(.stderr))]
    Broken {
        /// The program.
        program: String,
        /// What it did.
        what: String,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
}

/// What a command of a terminal that failed said; how it ended, when it said nothing.
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
