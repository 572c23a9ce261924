//! `pitcrew completions`: prints the script that a shell needs to complete pitcrew's command line.

use clap_complete::Shell;
use serde_json::json;

use crate::completing;
use crate::context::Context;
use crate::failure::Failure;

/// Print completions for a shell
///
/// The completions contain the commands and options. They ask pitcrew itself for teams, members,
/// models, modes and statuses.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew completions bash > ~/.local/share/bash-completion/completions/pitcrew
  pitcrew completions fish > ~/.config/fish/completions/pitcrew.fish")]
pub(crate) struct Completions {
    /// The shell to print completions for
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let shell = self.shell.to_string();
        let script = completing::script(&shell)?;
        context.output.answer(&json!({"shell": shell, "script": script}), |_| script.clone())
    }
}
