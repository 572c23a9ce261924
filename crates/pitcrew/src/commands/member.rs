//! `pitcrew member`: list and remove members, and change a member's permission mode.

pub(crate) mod list;
mod mode;
mod remove;

use crate::context::Context;
use crate::failure::Failure;

/// List and remove members, and change a member's permission mode
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Member {
    List(list::List),
    Remove(remove::Remove),
    Mode(mode::Mode),
}

impl Member {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::List(command) => context.briefly(command.run(context)),
            Self::Remove(command) => context.briefly(command.run(context)),
            Self::Mode(command) => context.briefly(command.run(context)),
        }
    }
}
