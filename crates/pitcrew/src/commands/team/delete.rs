//! `pitcrew team delete`.

use pitcrew_team::Actor;

use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::selection;

/// Delete a team whose teammates are all gone; its journal and conversations go to the archive
#[derive(Debug, clap::Args)]
pub(crate) struct Delete {
    /// The team; never guessed
    name: String,
}

impl Delete {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let team = selection::open(context, Some(&self.name)).await?;
        let deleted = team.delete(&Actor::User).await?;
        if deleted.success {
            return context.output.answer(&deleted, |deleted| deleted.message.clone());
        }
        Err(Failure::new(FailureKind::Conflict, deleted.message)
            .hint("`pitcrew shutdown` ends a running team; `pitcrew member remove NAME` removes one that is dead"))
    }
}
