//! `pitcrew task`: make, list, show, change and claim tasks.

mod claim;
mod create;
mod get;
pub(crate) mod list;
mod update;

use crate::context::Context;
use crate::failure::Failure;

/// Make, list, show, change and claim tasks
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Task {
    Create(create::Create),
    List(list::List),
    Get(get::Get),
    Update(update::Update),
    Claim(claim::Claim),
}

impl Task {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Create(command) => context.briefly(command.run(context)),
            Self::List(command) => context.briefly(command.run(context)),
            Self::Get(command) => context.briefly(command.run(context)),
            Self::Update(command) => context.briefly(command.run(context)),
            Self::Claim(command) => context.briefly(command.run(context)),
        }
    }
}
