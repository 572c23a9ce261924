//! `pitcrew completions`: what a shell needs to complete our command line.

use clap_complete::Shell;

use crate::cli;
use crate::failure::Failure;
use crate::output;

/// Print completions for a shell
///
/// For bash: `pitcrew completions bash > ~/.local/share/bash-completion/completions/pitcrew`
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut cli::definition(), "pitcrew", &mut script);
        output::line(String::from_utf8_lossy(&script).trim_end())
    }
}
