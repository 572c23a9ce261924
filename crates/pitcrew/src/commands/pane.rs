//! `pitcrew pane`: serves the pane protocol for a terminal, or checks a program that serves the
//! protocol.

mod check;
mod serve;

use crate::context::Context;
use crate::failure::Failure;

/// Speak the pane protocol for a terminal, or check a program that does
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Pane {
    Serve(serve::Serve),
    Check(check::Check),
}

impl Pane {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Serve(command) => context.briefly(command.run(context)),
            Self::Check(command) => context.briefly(command.run(context)),
        }
    }
}
