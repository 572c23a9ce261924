//! `pitcrew sandbox-exec`: runs inside of a bubblewrap sandbox, drops privileges and then executes
//! the sandboxed command.

use std::ffi::OsString;

use pitcrew_process::sandbox::run_inside;

use crate::failure::Failure;

/// The name of this hidden command.
pub(crate) const NAME: &str = "sandbox-exec";

/// Drop privileges as instructed, and execute a program
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct SandboxExec {
    /// The instructions, the program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl SandboxExec {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let problem = run_inside(self.arguments);
        Err(Failure::internal(format!("the command was not started: {problem}")))
    }
}
