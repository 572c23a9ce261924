//! Starts the program of a hook.

use std::path::Path;
use std::time::Duration;

use tokio::process::Command;

/// The variable, and the placeholder in a program's arguments, for the agent's working folder.
const PROJECT_DIR: &str = "CLAUDE_PROJECT_DIR";

/// The program of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HookProgram {
    pub(super) command: String,
    pub(super) form: Form,
    pub(super) deadline: Duration,
    /// True if nothing waits for the program.
    pub(super) is_async: bool,
}

/// How the command is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A shell reads the command.
    Shell(Shell),
    /// The command is a program. It gets these arguments, and no shell reads them.
    Exec(Vec<String>),
}

/// The shell that reads a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shell {
    Sh,
    Bash,
    Pwsh,
}

impl HookProgram {
    /// Returns the process to start in the folder `cwd`.
    pub(super) fn command(&self, cwd: &Path) -> Command {
        let mut command = match &self.form {
            Form::Shell(shell) => {
                let (program, flags): (&str, &[&str]) = match shell {
                    Shell::Sh => ("sh", &["-c"]),
                    Shell::Bash => ("bash", &["-c"]),
                    Shell::Pwsh => ("pwsh", &["-NoProfile", "-NonInteractive", "-Command"]),
                };
                let mut command = Command::new(program);
                command.args(flags).arg(&self.command);
                command
            }
            Form::Exec(args) => {
                let folder = cwd.to_string_lossy();
                let filled = |text: &str| text.replace(&format!("${{{PROJECT_DIR}}}"), &folder);
                let mut command = Command::new(filled(&self.command));
                command.args(args.iter().map(|arg| filled(arg)));
                command
            }
        };
        command.env(PROJECT_DIR, cwd);
        command
    }
}
