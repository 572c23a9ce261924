//! `pitcrew message`.

use std::fmt::Write as _;

use pitcrew_protocol::MessageId;
use pitcrew_team::MessageTrace;

use crate::context::Context;
use crate::failure::Failure;

/// Tell what became of a message: persisted, injected, acknowledged or dead, with the times
#[derive(Debug, clap::Args)]
pub(crate) struct Message {
    /// The id that `pitcrew send` told, or `pitcrew inbox` shows
    id: String,
}

impl Message {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let trace = context.briefly(async { Ok(context.teams()?.message(&MessageId(self.id)).await?) })?;
        context.output.answer(&trace, text)
    }
}
