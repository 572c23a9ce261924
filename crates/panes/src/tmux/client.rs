//! Runs tmux commands. Passes their arguments to tmux unchanged, and converts failures into errors.
//!
//! The module `backend` decides which commands to run.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use pitcrew_process::job::outlives_variable;
use tokio::process::Command;
use tokio::sync::OnceCell;

use crate::PaneError;
use crate::pane::complaint;

/// Time limit of one tmux call. It is long, because a new server first reads its configuration, and
/// the configuration may run programs.
pub(super) const CALL_TIME: Duration = Duration::from_secs(30);

/// The text in error messages that names the required program and version.
const NEEDED: &str = "tmux 3.2 or later";

/// The oldest supported version. It is the first version with filters in `list-panes`.
const OLDEST: (u32, u32) = (3, 2);

/// The first word of each output line that pitcrew asks tmux to print. With this word, pitcrew
/// recognises its lines among the output of the user's tmux hooks.
pub(super) const MARK: &str = "pitcrew";

/// The tmux program, and the tmux server to which commands are sent.
#[derive(Debug)]
pub(super) struct Client {
    program: PathBuf,
    socket: Option<PathBuf>,
    config: Option<PathBuf>,
    checked: OnceCell<String>,
}

/// One tmux command with its arguments.
pub(super) type Words = Vec<String>;

/// The reason why a tmux call failed.
#[derive(Debug)]
pub(super) enum CallError {
    /// No tmux server is running, so there are no panes.
    NoServer,
    /// Any other error.
    Failed(PaneError),
}

/// Builds a command from its words.
pub(super) fn words<const N: usize>(words: [&str; N]) -> Words {
    words.map(str::to_owned).to_vec()
}

impl Client {
    pub(super) fn new(program: PathBuf, socket: Option<PathBuf>, config: Option<PathBuf>) -> Self {
        Self { program, socket, config, checked: OnceCell::new() }
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Returns the socket of the server. `None` means the default socket.
    pub(super) fn socket(&self) -> Option<String> {
        self.socket.as_ref().map(|socket| socket.display().to_string())
    }

    /// Returns the version of tmux as tmux writes it, such as `3.3a`.
    ///
    /// # Errors
    /// [`PaneError::Missing`] if tmux is not installed, [`PaneError::TooOld`] if its version is not
    /// supported.
    pub(super) async fn version(&self) -> Result<&str, PaneError> {
        let version = self.checked.get_or_try_init(|| async {
            let output = self.output(Command::new(&self.program).arg("-V"), "tmux -V").await?;
            let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            match release(&said) {
                Some(found) if found < OLDEST => {
                    Err(PaneError::TooOld { found: said, needed: NEEDED })
                }
                Some(_) | None => Ok(said.trim_start_matches("tmux ").to_owned()),
            }
        });
        version.await.map(String::as_str)
    }

    /// Runs several commands in one tmux call, and returns their output. Stops at the first command
    /// that fails. The server runs no other client's commands in between. With `cwd`, new panes
    /// start in this folder.
    pub(super) async fn call(
        &self,
        commands: &[Words],
        cwd: Option<&Path>,
    ) -> Result<String, CallError> {
        self.version().await.map_err(CallError::Failed)?;
        let mut command = Command::new(&self.program);
        // With `-u`, tmux prints UTF-8 in every locale. Otherwise it may replace characters that
        // are not ASCII.
        command.arg("-u");
        // With `TMUX`, tmux would ask the server in which this process runs.
        command.env_remove("TMUX");
        if let Some(socket) = &self.socket {
            command.arg("-S").arg(socket);
        }
        if let Some(config) = &self.config {
            command.arg("-f").arg(config);
        }
        // Remove `TMUX_PANE`. Otherwise commands without a target would apply to the lead's pane.
        command.args(arguments(commands)).env_remove("TMUX_PANE");
        if let Some(cwd) = cwd {
            // New panes start in the working folder of the tmux client. The option `-c` is not
            // used, because tmux would expand format characters in the path.
            command.current_dir(cwd).env("PWD", cwd);
        }
        let told = told(commands);
        let output = self.output(&mut command, &told).await.map_err(CallError::Failed)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let stderr = complaint(&output);
        if is_no_server(&stderr) {
            return Err(CallError::NoServer);
        }
        Err(CallError::Failed(PaneError::Command { command: told, stderr }))
    }

    async fn output(
        &self,
        command: &mut Command,
        told: &str,
    ) -> Result<std::process::Output, PaneError> {
        // The client runs in its own process group, so that the user's Ctrl-C does not stop it.
        command
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .process_group(0)
            .envs([outlives_variable()]);
        match tokio::time::timeout(CALL_TIME, command.output()).await {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Err(PaneError::Missing {
                program: self.program.display().to_string(),
                needed: NEEDED,
            }),
            Ok(Err(source)) => Err(PaneError::Io { action: "run", what: told.to_owned(), source }),
            Err(_) => Err(PaneError::Slow { command: told.to_owned(), after: CALL_TIME }),
        }
    }
}

impl From<CallError> for PaneError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::NoServer => Self::Command {
                command: "tmux".to_owned(),
                stderr: "the server is gone".to_owned(),
            },
            CallError::Failed(error) => error,
        }
    }
}

impl CallError {
    /// Returns true if tmux failed with an error text that contains `text`.
    pub(super) fn says(&self, text: &str) -> bool {
        matches!(self, Self::Failed(PaneError::Command { stderr, .. }) if stderr.contains(text))
    }
}

/// Returns how many bytes the commands need in the message that the tmux client sends to its
/// server.
pub(super) fn message_bytes(commands: &[Words]) -> usize {
    arguments(commands).iter().map(|argument| argument.len() + 1).sum()
}

/// Returns the output lines that start with `MARK`. Each line is split at tabs.
pub(super) fn answers(output: &str) -> impl Iterator<Item = Vec<&str>> {
    output
        .lines()
        .filter_map(|line| line.strip_prefix(MARK)?.strip_prefix('\t'))
        .map(|line| line.split('\t').collect())
}

/// Builds one argument list from several commands. An argument that ends with `;` would end a
/// command for tmux, so such an argument is escaped.
fn arguments(commands: &[Words]) -> Vec<OsString> {
    let mut arguments = Vec::new();
    for (n, command) in commands.iter().enumerate() {
        if n > 0 {
            arguments.push(OsString::from(";"));
        }
        arguments.extend(command.iter().map(|word| match word.strip_suffix(';') {
            Some(start) => OsString::from(format!("{start}\\;")),
            None => OsString::from(word),
        }));
    }
    arguments
}

/// Returns the names of the commands for an error message. The arguments are left out, because they
/// may contain secret keys.
fn told(commands: &[Words]) -> String {
    let names: Vec<&str> =
        commands.iter().filter_map(|words| words.first().map(String::as_str)).collect();
    format!("tmux {}", names.join(" \\; "))
}

fn is_no_server(stderr: &str) -> bool {
    let is_refused = |said: &str| {
        said.contains("No such file or directory") || said.contains("Connection refused")
    };
    // Each of these error texts means that no server is running. The text `no current target` also
    // belongs here, because a server that is ending has no sessions.
    stderr.starts_with("no server running on")
        || stderr.starts_with("server exited")
        || stderr.starts_with("lost server")
        || stderr.starts_with("no current target")
        || (stderr.starts_with("error connecting to") && is_refused(stderr))
}

/// Parses the version number in the output of `tmux -V`. Returns `None` if there is no number. A
/// development build may have no number (`tmux master`), and is newer than all known releases.
fn release(said: &str) -> Option<(u32, u32)> {
    let number = said.strip_prefix("tmux ")?;
    let number = number.strip_prefix("next-").unwrap_or(number);
    let (major, minor) = number.split_once('.')?;
    let minor = minor.trim_end_matches(|c: char| !c.is_ascii_digit());
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_semicolon_at_the_end_of_an_argument_ends_no_command() {
        let commands = [words(["a", "b;", "c\\;", ";", ";d"]), words(["e"])];
        assert_eq!(arguments(&commands), ["a", "b\\;", "c\\\\;", "\\;", ";d", ";", "e"]);
        assert_eq!(told(&commands), "tmux a \\; e");
    }

    #[test]
    fn releases_are_told_apart() {
        for (said, expected) in [
            ("tmux 3.3a", Some((3, 3))),
            ("tmux 2.9", Some((2, 9))),
            ("tmux next-3.6", Some((3, 6))),
            ("tmux 3.10", Some((3, 10))),
            ("tmux master", None),
            ("tmux openbsd-7.5", None),
        ] {
            assert_eq!(release(said), expected, "{said}");
        }
    }

    #[test]
    fn only_our_own_answers_are_read() {
        let output = "from a hook\npitcrew\t%1\t@2\npitcrewx\t%3\n";
        assert_eq!(answers(output).collect::<Vec<_>>(), [["%1", "@2"]]);
    }

    #[tokio::test]
    async fn a_missing_tmux_is_told_with_the_version_needed() {
        let client = Client::new(PathBuf::from("/no/such/tmux"), None, None);
        let error = client.version().await.unwrap_err();
        insta::assert_snapshot!(error, @"/no/such/tmux is not installed; tmux 3.2 or later is needed");
    }
}
