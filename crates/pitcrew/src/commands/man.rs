//! `pitcrew man`: prints the manual pages, generated from the same definition as the help.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cli;
use crate::context::Context;
use crate::failure::Failure;

/// Print the manual page, or write one a command into a folder
///
/// `pitcrew man | man -l -` shows it; `pitcrew man ~/.local/share/man/man1` installs all pages.
#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// The folder to write all pages into; created if it does not exist
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    #[expect(clippy::disallowed_methods, reason = "the user names the folder of the pages")]
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let mut definition = cli::definition().disable_help_subcommand(true);
        let Some(dir) = self.dir else {
            let mut page = Vec::new();
            clap_mangen::Man::new(definition).render(&mut page).map_err(Failure::internal)?;
            let page = String::from_utf8_lossy(&page).trim_end().to_owned();
            return context.output.answer(&json!({"page": page}), |_| page.clone());
        };
        std::fs::create_dir_all(&dir).map_err(|e| not_written(&dir, e))?;
        definition.build();
        clap_mangen::generate_to(definition, &dir).map_err(|e| not_written(&dir, e))?;
        let answer = json!({"success": true, "folder": dir});
        context.output.answer(&answer, |_| format!("the manual pages are in {}", dir.display()))
    }
}

fn not_written(dir: &Path, error: std::io::Error) -> Failure {
    let said = format!("cannot write manual pages into {}: {error}", dir.display());
    Failure::internal(said)
}
