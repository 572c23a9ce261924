//! `pitcrew run-host`: runs the team of `pitcrew run --detach`. Only that command starts it.

use crate::context::Context;
use crate::detached::host_process;
use crate::failure::Failure;

/// The name of the command.
pub(crate) const NAME: &str = "run-host";

/// Run the team of a detached run, which an order on stdin describes
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct RunHost {}

impl RunHost {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        host_process::run(context)
    }
}
