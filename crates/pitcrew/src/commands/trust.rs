//! `pitcrew trust`: manages the repositories whose settings, hooks and agent definitions take
//! effect.

mod add;
mod list;
mod remove;
mod show;

use crate::context::Context;
use crate::failure::Failure;

/// Show, list, add and remove repositories whose settings, hooks and agents count
///
/// The settings, hooks and agents of a repository count only if you trust the repository. Of other
/// repositories, only the instructions and the rules that deny or ask take effect. pitcrew stores
/// your answer for each repository in its root folder, under the real path of the repository's top
/// folder. An answer covers only what the repository's files would do at the time of the answer.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Trust {
    Show(show::Show),
    List(list::List),
    Add(add::Add),
    Remove(remove::Remove),
}

impl Trust {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Show(command) => command.run(context),
            Self::List(command) => command.run(context),
            Self::Add(command) => command.run(context),
            Self::Remove(command) => command.run(context),
        }
    }
}
