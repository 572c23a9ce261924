//! The iTerm2 backend. It uses the command-line tool `it2` (version 0.2, from the PyPI package
//! `it2`).
//!
//! `it2` can create a pane only with the user's shell in it, and can only type into that shell. So
//! the backend types one line, which replaces the shell by the requested program: `exec`, the
//! launcher, and the path of a launch file. The launch file contains the program's arguments and
//! variables. In iTerm2, the session variable `user.pitcrew` of a pane contains the pane's tag, and
//! `user.pitcrewPid` contains the process id.
//!
//! This code was written without access to macOS. The calls are tested against a fake `it2` that
//! records them.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pitcrew_process::job::outlives_variable;
use serde::Deserialize;
use tokio::process::Command;
use tokio::sync::Semaphore;

use super::launch::{Launcher, with_screen};
use super::pane::complaint;
use super::{NewPane, PaneError, PaneId, PaneState, PaneTag, Panes, StartedPane};

/// The text in error messages that names the required program and version.
const NEEDED: &str = "it2 0.2 (`pip install it2`) with iTerm2's Python API switched on";

/// Time limit of one call of `it2`. The limit is long, because each call opens a new connection to
/// iTerm2.
const CALL_TIME: Duration = Duration::from_secs(20);

/// The exit status with which `it2` reports that a session does not exist.
const NO_SESSION: i32 = 3;

/// The text that `it2` prints before the id of a new session.
const CREATED: &str = "Created new pane: ";

/// The names of the session variables that pitcrew sets.
const TAG_VARIABLE: &str = "user.pitcrew";
const PID_VARIABLE: &str = "user.pitcrewPid";

/// The options of the iTerm2 backend.
#[derive(Clone, Debug)]
pub struct ITerm2Options {
    /// The program `it2`.
    pub program: PathBuf,
    /// The session of the lead (`$ITERM_SESSION_ID`). New panes are placed beside it, and it keeps
    /// the focus. If `None`, new panes are placed beside the active session, and each new pane gets
    /// the focus.
    pub beside: Option<String>,
    /// How the process of a pane gets its launch.
    pub launcher: Launcher,
}

/// The pane backend for iTerm2.
#[derive(Debug)]
pub struct ITerm2 {
    options: ITerm2Options,
    /// Allows only one pane to be created at a time. This is necessary because each new pane is
    /// created by splitting the previous one.
    turn: Semaphore,
    last: Mutex<Option<String>>,
}

/// One session in the output of `it2 session list --json`, with only the fields that pitcrew uses.
#[derive(Debug, Deserialize)]
struct Session {
    id: String,
}

/// The result of one `it2` call.
struct Answer {
    status: Option<i32>,
    stdout: String,
    stderr: String,
}

impl ITerm2 {
    /// Creates the backend. This function starts no process.
    #[must_use]
    pub fn new(options: ITerm2Options) -> Self {
        Self { options, turn: Semaphore::new(1), last: Mutex::new(None) }
    }

    /// Returns the version of `it2`.
    ///
    /// # Errors
    /// [`PaneError::Missing`] if `it2` is not installed.
    pub async fn version(&self) -> Result<String, PaneError> {
        let said = self.ask(&["--version"]).await?;
        Ok(said.trim().rsplit(' ').next().unwrap_or_default().to_owned())
    }

    async fn call(&self, arguments: &[&str]) -> Result<Answer, PaneError> {
        let mut command = Command::new(&self.options.program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .process_group(0)
            .envs([outlives_variable()]);
        match tokio::time::timeout(CALL_TIME, command.output()).await {
            Ok(Ok(output)) => Ok(Answer {
                status: output.status.code(),
                stderr: complaint(&output),
                stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            }),
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Err(PaneError::Missing {
                program: self.options.program.display().to_string(),
                needed: NEEDED,
            }),
            Ok(Err(source)) => Err(PaneError::Io { action: "run", what: told(arguments), source }),
            Err(_) => Err(PaneError::Slow { command: told(arguments), after: CALL_TIME }),
        }
    }

    async fn ask(&self, arguments: &[&str]) -> Result<String, PaneError> {
        let answer = self.call(arguments).await?;
        if answer.status == Some(0) {
            return Ok(answer.stdout);
        }
        Err(PaneError::Command { command: told(arguments), stderr: answer.stderr })
    }

    async fn sessions(&self) -> Result<Vec<String>, PaneError> {
        let arguments = ["session", "list", "--json"];
        let said = self.ask(&arguments).await?;
        let sessions: Vec<Session> =
            serde_json::from_str(&said).map_err(|e| PaneError::Command {
                command: told(&arguments),
                stderr: format!("it printed no list: {e}"),
            })?;
        Ok(sessions.into_iter().map(|session| session.id).collect())
    }

    /// Reads a variable of a session. Returns `None` if the session does not exist. If the session
    /// exists but the variable is not set, returns whatever `it2` prints, so callers must check the
    /// text.
    async fn variable(&self, pane: &str, name: &str) -> Result<Option<String>, PaneError> {
        // Accept only real ids, because `it2` would also accept `active` and `all` as session
        // names.
        if !is_session(pane) {
            return Ok(None);
        }
        let arguments = ["session", "get-var", name, "--session", pane];
        let answer = self.call(&arguments).await?;
        match answer.status {
            Some(0) => Ok(Some(answer.stdout.trim_end().to_owned())),
            Some(NO_SESSION) => Ok(None),
            Some(_) | None => {
                Err(PaneError::Command { command: told(&arguments), stderr: answer.stderr })
            }
        }
    }

    /// Creates a pane by splitting an existing pane. The first new pane is placed to the right of
    /// the lead's pane. Each later pane is placed below the previous new pane.
    async fn split(&self) -> Result<String, PaneError> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut answer = None;
        if let Some(last) = &last {
            answer = Some(self.call(&["session", "split", "--session", last]).await?);
        }
        // If the previous pane was closed in the meantime, `it2` answers `NO_SESSION`. Then split
        // the lead's pane instead.
        let answer = match answer.filter(|answer| answer.status != Some(NO_SESSION)) {
            Some(answer) => answer,
            None => {
                let mut arguments = vec!["session", "split", "--vertical"];
                arguments.extend(self.options.beside.iter().flat_map(|lead| ["--session", lead]));
                self.call(&arguments).await?
            }
        };
        let said = answer.stdout.trim();
        match said.strip_prefix(CREATED).filter(|id| answer.status == Some(0) && is_session(id)) {
            Some(id) => {
                *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(id.to_owned());
                Ok(id.to_owned())
            }
            None => {
                let stderr = format!("{} {said:.80}", answer.stderr).trim().to_owned();
                Err(PaneError::Command { command: "it2 session split".to_owned(), stderr })
            }
        }
    }

    /// Replaces the shell of a new pane with the program. Returns the process id of the program.
    async fn become_program(&self, id: &str, pane: &NewPane) -> Result<u32, PaneError> {
        let offer = self.options.launcher.offer(pane)?;
        let line: Vec<String> = offer.argv().iter().map(|word| quoted(word)).collect();
        // Set the tag before the program starts. Otherwise a crash could leave a running program in
        // a pane without a tag.
        self.ask(&["session", "set-var", TAG_VARIABLE, &pane.tag.to_string(), "--session", id])
            .await?;
        self.ask(&["session", "set-name", "--session", id, "--", &title(&pane.title)]).await?;
        self.ask(&["session", "run", "--session", id, "--", &format!("exec {}", line.join(" "))])
            .await?;
        // iTerm2 does not report the process of a pane. The process tells itself by its connection.
        let pid = offer.give(None).await?;
        self.ask(&["session", "set-var", PID_VARIABLE, &pid.to_string(), "--session", id]).await?;
        Ok(pid)
    }

    async fn close(&self, id: &str) -> Result<(), PaneError> {
        let arguments = ["session", "close", "--force", "--session", id];
        let answer = self.call(&arguments).await?;
        match answer.status {
            Some(0 | NO_SESSION) => Ok(()),
            Some(_) | None => {
                Err(PaneError::Command { command: told(&arguments), stderr: answer.stderr })
            }
        }
    }

    fn unsupported(what: &'static str) -> PaneError {
        PaneError::Unsupported { terminal: "iTerm2".to_owned(), what }
    }
}

#[async_trait]
impl Panes for ITerm2 {
    fn backend_type(&self) -> &'static str {
        "iterm2"
    }

    async fn start(&self, pane: &NewPane) -> Result<StartedPane, PaneError> {
        pane.check()?;
        // The semaphore is never closed, so `acquire` cannot fail.
        let _turn = self.turn.acquire().await.ok();
        let id = self.split().await?;
        // A new pane gets the focus, so return the focus to the lead's pane.
        if let Some(lead) = &self.options.beside {
            self.ask(&["session", "focus", lead]).await?;
        }
        match self.become_program(&id, pane).await {
            Ok(pid) => Ok(StartedPane {
                id: PaneId(id),
                pid: Some(pid),
                session: None,
                window: None,
                is_split: Some(true),
            }),
            Err(error) => {
                let screen = self.screen(&PaneId(id.clone())).await.ok().flatten();
                // Close the pane. Pitcrew has just created it, so it contains nothing that belongs
                // to the user.
                let _ = self.close(&id).await;
                Err(with_screen(error, screen.as_deref()))
            }
        }
    }

    async fn state(&self, pane: &PaneId) -> Result<PaneState, PaneError> {
        // While a pane is still being created, the variable is not a number. Then the program
        // counts as running, without a process id.
        let told = self.variable(&pane.0, PID_VARIABLE).await?;
        Ok(told.map_or(PaneState::Gone, |pid| PaneState::Running { pid: pid.parse().ok() }))
    }

    async fn screen(&self, pane: &PaneId) -> Result<Option<String>, PaneError> {
        if !is_session(&pane.0) {
            return Ok(None);
        }
        let arguments = ["session", "read", "--session", &pane.0];
        let answer = self.call(&arguments).await?;
        match answer.status {
            Some(0) => Ok(Some(answer.stdout.trim_end().to_owned())),
            Some(NO_SESSION) => Ok(None),
            Some(_) | None => {
                Err(PaneError::Command { command: told(&arguments), stderr: answer.stderr })
            }
        }
    }

    async fn show(&self, _: &PaneId) -> Result<(), PaneError> {
        Err(Self::unsupported("hide or show a pane"))
    }

    async fn hide(&self, _: &PaneId) -> Result<(), PaneError> {
        Err(Self::unsupported("hide or show a pane"))
    }

    async fn stop(&self, pane: &PaneId, tag: &PaneTag) -> Result<(), PaneError> {
        let Some(its) = self.variable(&pane.0, TAG_VARIABLE).await? else { return Ok(()) };
        // The session may belong to the user. Close it only if its tag proves that pitcrew created
        // it.
        if !its.parse().is_ok_and(|its| tag.covers(&its)) {
            return Err(PaneError::Foreign { pane: pane.clone(), tag: tag.to_string() });
        }
        self.close(&pane.0).await
    }

    async fn tagged(&self, tag: &PaneTag) -> Result<Vec<(PaneId, PaneTag)>, PaneError> {
        let mut found = Vec::new();
        for session in self.sessions().await? {
            let its = self.variable(&session, TAG_VARIABLE).await?.and_then(|its| its.parse().ok());
            found.extend(its.filter(|its| tag.covers(its)).map(|its| (PaneId(session), its)));
        }
        Ok(found)
    }
}

/// Returns true if the text is the id of one session. Such an id is a UUID.
fn is_session(id: &str) -> bool {
    uuid::Uuid::try_parse(id).is_ok()
}

/// Returns the first words of a call, for an error message. The text that is typed into the shell
/// is left out.
fn told(arguments: &[&str]) -> String {
    let words: Vec<&str> = arguments.iter().take(2).copied().collect();
    format!("it2 {}", words.join(" "))
}

/// Quotes a word so that every shell reads it unchanged. This includes fish and csh.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\"'\"'"))
}

fn title(title: &str) -> String {
    title.chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_for_every_shell() {
        assert_eq!(quoted("/a b/it's $x"), r#"'/a b/it'"'"'s $x'"#);
    }

    #[test]
    fn only_the_id_of_one_session_is_one() {
        assert!(is_session("6F9619FF-8B86-D011-B42D-00CF4FC964FF"));
        for id in ["", "active", "all", "-x", "6F9619FF"] {
            assert!(!is_session(id), "{id}");
        }
    }
}
