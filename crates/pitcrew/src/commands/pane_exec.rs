//! `pitcrew pane-exec`: deletes a launch file and executes the program that the file describes.
//! This command is used when a terminal limits the length of the command line with which a pane is
//! opened.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use pitcrew_panes::launch::Launch;

use crate::failure::Failure;

/// Replace this process with the program that a launch file describes
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct PaneExec {
    /// The launch file, deleted before the program starts
    file: PathBuf,
}

impl PaneExec {
    #[expect(
        clippy::disallowed_methods,
        reason = "the pane protocol asks for the process id in a file"
    )]
    pub(crate) fn run(self) -> Result<(), Failure> {
        let not_taken =
            |e| Failure::internal(format!("cannot take the launch {}: {e}", self.file.display()));
        let launch = Launch::take(&self.file).map_err(not_taken)?;
        let Some((program, arguments)) = launch.argv.split_first() else {
            return Err(Failure::usage(format!(
                "the launch {} names no program",
                self.file.display()
            )));
        };
        if let Some(path) = &launch.tell_pid {
            let told = std::fs::write(path, format!("{}\n", std::process::id()));
            told.map_err(|e| Failure::internal(format!("cannot write {}: {e}", path.display())))?;
        }
        // `exec` returns only if the program could not be started, so its return value is an error.
        let error =
            Command::new(program).args(arguments).current_dir(&launch.cwd).envs(launch.env).exec();
        Err(Failure::internal(format!("cannot start {program}: {error}")))
    }
}

/// Returns the first words of the `pane-exec` command line. The caller appends the path of a launch
/// file.
///
/// # Errors
/// Returns an error if the path of this program is not known.
pub(crate) fn command() -> Result<Vec<String>, Failure> {
    let own = std::env::current_exe().map_err(Failure::internal)?;
    Ok(vec![own.to_string_lossy().into_owned(), "pane-exec".to_owned()])
}
