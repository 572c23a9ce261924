//! `pitcrew completions`: what a shell needs to complete our command line.

use clap_complete::Shell;
use serde_json::json;

use crate::completing;
use crate::context::Context;
use crate::failure::Failure;

/// Print completions for a shell
///
/// They know the commands and options, and ask pitcrew itself for teams, members, models, modes and statuses.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew completions bash > ~/.local/share/bash-completion/completions/pitcrew
  pitcrew completions fish > ~/.config/fish/completions/pitcrew.fish")]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let shell = self.shell.to_string();
        let script = completing::script(&shell)?;
        context.output.answer(&json!({"shell": shell, "script": script}), |_| script.clone())
    }
}
