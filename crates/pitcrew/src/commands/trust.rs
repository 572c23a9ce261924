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
/// Of a repository that is not trusted, only the instructions and the rules that deny or ask take
/// effect. The answers are stored in the root, under the real path of the repository's top folder.
/// Each answer covers what the files would do at that time.
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
