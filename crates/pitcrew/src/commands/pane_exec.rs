//! `pitcrew pane-exec`: takes the launch of its pane from the process that asked for the pane, and
//! executes the program that the launch names. A terminal starts this command in a new pane.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use pitcrew_panes::launch::{Launch, Launcher, take};
use pitcrew_process::identity::ProcessIdentity;

use crate::context::Context;
use crate::failure::Failure;

/// Replace this process with the program that the process STARTER has for it
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct PaneExec {
    /// The socket at which STARTER listens
    socket: PathBuf,
    /// The process that asked for the pane, as PID.START
    starter: ProcessIdentity,
}

impl PaneExec {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let taken = take(&self.socket, self.starter).await.map_err(Failure::internal)?;
        let failed = started(&taken.launch);
        taken.fail(&failed);
        Err(Failure::internal(failed))
    }
}

/// Replaces this process by the program. Returns only if that fails, with the reason.
fn started(launch: &Launch) -> String {
    let Some((program, arguments)) = launch.argv.split_first() else {
        return "the launch names no program".to_owned();
    };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&launch.cwd).envs(launch.env.iter().cloned());
    // `exec` returns only if the program could not be started, so its return value is an error.
    let error = command.exec();
    format!("cannot start {program}: {error}")
}

/// Returns how the processes of panes get their launches.
///
/// # Errors
/// Returns an error if the path of this program is not known.
pub(crate) fn launcher(context: &Context) -> Result<Launcher, Failure> {
    let own = std::env::current_exe().map_err(Failure::internal)?;
    let command = vec![own.to_string_lossy().into_owned(), "pane-exec".to_owned()];
    Ok(Launcher { command, root: context.root.clone() })
}
