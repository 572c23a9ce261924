//! `pitcrew sandbox-exec`: gives up its rights inside of bubblewrap and becomes a command.

use std::ffi::OsString;

use pitcrew_runtime::sandbox::run_inside;

use crate::failure::Failure;

/// What the hidden command is called.
pub(crate) const NAME: &str = "sandbox-exec";

/// Give up rights as ordered, and become a program
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct SandboxExec {
    /// The order, the program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl SandboxExec {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let problem = run_inside(self.arguments);
        Err(Failure::internal(format!("the command was not started: {problem}")))
    }
}
