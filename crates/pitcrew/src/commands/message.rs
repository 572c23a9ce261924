//! `pitcrew message`: shows the delivery state of a message.

use std::fmt::Write as _;

use pitcrew_protocol::MessageId;
use pitcrew_team::{DeliveryState, MessageTrace};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::printable;

/// Tell what became of a message: persisted, injected, acknowledged or dead, with the times
#[derive(Debug, clap::Args)]
pub(crate) struct Message {
    /// The message id that `pitcrew send` printed or `pitcrew inbox` shows
    id: String,
}

impl Message {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let trace =
            context.briefly(async { Ok(context.teams()?.message(&MessageId(self.id)).await?) })?;
        context.output.answer(&trace, text)
    }
}

fn text(trace: &MessageTrace) -> String {
    let from = trace.from.as_deref().unwrap_or("somebody");
    let author = trace.author.as_deref().map(|author| format!(", written by {author},"));
    let mut text = format!(
        "from {}{} to {} in team {}\n",
        printable(from),
        printable(&author.unwrap_or_default()),
        printable(trace.to.as_str()),
        printable(&trace.team)
    );
    let steps = [
        ("persisted", &trace.persisted_at),
        ("injected", &trace.injected_at),
        ("acknowledged", &trace.acknowledged_at),
    ];
    for (step, at) in steps {
        let _ = writeln!(text, "{step:<13} {}", at.as_deref().unwrap_or("-"));
    }
    if trace.state == DeliveryState::Acknowledged && trace.injected_at.is_none() {
        let _ = writeln!(text, "{:<13} by another client, perhaps not read yet", "taken");
    }
    if let Some(at) = &trace.team_deleted_at {
        let _ = writeln!(text, "{:<13} {at}", "team deleted");
    }
    if let Some(at) = &trace.team_archived_at {
        let _ = writeln!(text, "{:<13} {at}", "team archived");
    }
    if let Some(dead) = &trace.dead {
        let _ = writeln!(text, "{:<13} {}: {}", "dead", dead.at, printable(&dead.reason));
    }
    text
}
