//! `pitcrew pane-probe`: the program that `pitcrew pane check` runs in its panes.

use std::path::PathBuf;

use pitcrew_panes::{Probed, probe};

use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Report to a socket how this process was started, and follow the instructions from there
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct PaneProbe {
    /// The socket to report to
    socket: PathBuf,
    /// The arguments, reported as they are
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl PaneProbe {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let probed = Probed {
            arguments: self.arguments,
            cwd: context.cwd.clone(),
            env: context.environment.clone(),
            pid: std::process::id(),
        };
        let shown = |text: &str| output::remark(text);
        let status = probe(&self.socket, &probed, shown).map_err(Failure::internal)?;
        // The conformance checks choose this exit status. It has no relation to pitcrew's own exit
        // codes.
        std::process::exit(status.into())
    }
}

/// Returns the first words of the command line that runs a probe.
///
/// # Errors
/// Returns an error if the path of this program is not known.
pub(crate) fn command() -> Result<Vec<String>, Failure> {
    let own = std::env::current_exe().map_err(Failure::internal)?;
    Ok(vec![own.to_string_lossy().into_owned(), "pane-probe".to_owned()])
}
