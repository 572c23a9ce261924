//! `pitcrew trust add`: trusts a project's files.

use std::path::PathBuf;

use clap::ValueHint;
use pitcrew_permission::trust::{Answer, Item, Project};
use pitcrew_process::job::TAG_VARIABLE;
use pitcrew_runtime::question::{TrustQuestion, TrustedBefore};
use serde::Serialize;

use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::live::trust_prompt;
use crate::output::{Form, visible};
use crate::trusting;

/// Trust what a project's files would do, until the files change and would do more
///
/// The command lists what the files would do and, on a terminal, asks you. The default FOLDER is
/// the working folder. Only the files in that folder count; a run in another folder of the same
/// repository has a list of its own. `pitcrew trust show` shows the list and changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew trust add
  pitcrew trust add ~/src/backend")]
pub(crate) struct Add {
    /// The folder of the project
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folder: Option<PathBuf>,
    /// Trust the project without asking
    #[arg(long, short)]
    yes: bool,
}

#[derive(Debug, Serialize)]
struct Added {
    /// The top folder of the project's repository.
    folder: PathBuf,
    /// The effects of the project's files, such as hooks, that the user now trusts.
    things: Vec<Item>,
    #[serde(skip)]
    list: String,
}

impl Add {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        // A command that an agent runs must not change the user's answers about trust. Each such
        // command has the variable `TAG_VARIABLE` in its environment. A command could remove the
        // variable, but the sandbox also denies agents' commands access to the stored answers.
        if context.variable(TAG_VARIABLE).is_some() {
            return Err(Failure::new(
                FailureKind::Denied,
                "an agent's command cannot trust a folder",
            )
            .hint("only the user can: `pitcrew trust add` in a terminal"));
        }
        let (project, folder) = trusting::find(context, self.folder.as_deref())?;
        let added =
            Added { folder, things: project.items().to_vec(), list: trusting::list(&project) };
        if !added.things.is_empty() {
            if !self.yes && !is_wanted(context, &project)? {
                return Err(Failure::usage("nothing was trusted, because nobody confirmed it")
                    .hint("`pitcrew trust show` shows what its files would do")
                    .hint("--yes trusts it without asking"));
            }
            trusting::keep(context, &project, Answer::Trusted)?;
        }
        context.output.answer(&added, Added::text)
    }
}

/// Shows the list of effects and returns whether the user at the terminal agrees.
fn is_wanted(context: &Context, project: &Project) -> Result<bool, Failure> {
    if !context.has_terminal() || context.output.form() == Form::Json {
        return Ok(false);
    }
    let question = TrustQuestion::of(project, TrustedBefore::Never);
    let answer =
        trust_prompt::ask(&question, "stopped: nothing was trusted").map_err(Failure::internal)?;
    Ok(answer == Some(Answer::Trusted))
}

impl Added {
    fn text(&self) -> String {
        let folder = visible(&self.folder.display().to_string());
        match self.things.as_slice() {
            [] if self.list.is_empty() => format!("{folder} has nothing that needs trust"),
            [] => format!("{folder} has nothing that can be trusted:\n{}", self.list),
            [_, ..] => {
                format!("{folder} is trusted, and its files do this from now on:\n{}", self.list)
            }
        }
    }
}
