//! `pitcrew team`: creates, lists, shows and deletes teams, and takes over a team as its lead.

mod create;
mod delete;
mod lead;
mod list;
mod show;

use crate::context::Context;
use crate::failure::Failure;

/// Make, list, show and delete teams, and take one over
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Team {
    Create(create::Create),
    List(list::List),
    Show(show::Show),
    Lead(Box<lead::Lead>),
    Delete(delete::Delete),
}

impl Team {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Create(command) => context.briefly(command.run(context)),
            Self::List(command) => context.briefly(command.run(context)),
            Self::Show(command) => context.briefly(command.run(context)),
            Self::Lead(command) => command.run(context),
            Self::Delete(command) => context.briefly(command.run(context)),
        }
    }
}
