//! `pitcrew trust`: which repositories may do what their settings, hooks and agents say.

mod add;
mod list;
mod remove;
mod show;

use crate::context::Context;
use crate::failure::Failure;

/// Show, list, add and remove repositories whose settings, hooks and agents count
///
/// Without trust only a repository's rules that deny or ask and its instructions count. The answers are kept in the root, by the
/// real path of a repository's top folder, for what its files would do at that time.
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
