//! `pitcrew trust add`.

use std::path::PathBuf;

use clap::ValueHint;
use pitcrew_runtime::process::TAG_VARIABLE;
use pitcrew_runtime::trust::{Answer, Item};
use serde::Serialize;

use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::output::visible;
use crate::trusting;

/// Trust what a project's files would do, from now on until they would do more
///
/// The list is shown, and nothing is asked. Without a FOLDER it is the one you stand in. What counts are the files in that
/// folder; a run in another folder of the same repository has a list of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew trust add
  pitcrew trust add ~/src/backend")]
pub(crate) struct Add {
    /// The project's folder
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folder: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Added {
    /// The top folder of its repository.
    folder: PathBuf,
    /// What it is trusted to do.
    things: Vec<Item>,
    #[serde(skip)]
    list: String,
}

impl Add {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        // Who sheds this mark still meets the kernel, which keeps the answers from commands of agents.
        if context.variable(TAG_VARIABLE).is_some() {
            return Err(Failure::new(FailureKind::Denied, "an agent's command cannot trust a folder")
                .hint("only the user can: `pitcrew trust add` in a terminal"));
        }
        let folder = self.folder.map_or_else(|| context.cwd.clone(), |folder| context.cwd.join(folder));
        let project = trusting::read(context, &folder)?;
        let Some(top) = project.top() else {
            let said = format!("there is no folder {}", visible(&folder.display().to_string()));
            return Err(Failure::new(FailureKind::NotFound, said));
        };
        let added =
            Added { folder: top.to_path_buf(), things: project.items().to_vec(), list: trusting::list(&project) };
        if !added.things.is_empty() {
            trusting::keep(context, &project, Answer::Trusted)?;
        }
        context.output.answer(&added, Added::text)
    }
}

impl Added {
    fn text(&self) -> String {
        let folder = visible(&self.folder.display().to_string());
        match self.things.as_slice() {
            [] if self.list.is_empty() => format!("{folder} has nothing that needs trust"),
            [] => format!("{folder} has nothing that can be trusted:\n{}", self.list),
            [_, ..] => format!("{folder} is trusted, and its files do this from now on:\n{}", self.list),
        }
    }
}
