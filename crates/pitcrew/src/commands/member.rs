//! `pitcrew member`: lists, spawns and removes members, changes a member's permission mode, hides
//! and shows its pane.

mod hide;
pub(crate) mod list;
mod mode;
mod remove;
mod show;
mod spawn;

use crate::context::Context;
use crate::failure::Failure;

/// List, spawn and remove members, change a member's permission mode, hide and show its pane
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Member {
    List(list::List),
    Spawn(spawn::Spawn),
    Remove(remove::Remove),
    Mode(mode::Mode),
    Hide(hide::Hide),
    Show(show::Show),
}

impl Member {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::List(command) => context.briefly(command.run(context)),
            Self::Spawn(command) => context.briefly(command.run(context)),
            Self::Remove(command) => context.briefly(command.run(context)),
            Self::Mode(command) => context.briefly(command.run(context)),
            Self::Hide(command) => context.briefly(command.run(context)),
            Self::Show(command) => context.briefly(command.run(context)),
        }
    }
}
