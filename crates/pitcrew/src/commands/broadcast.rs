//! `pitcrew broadcast`: sends a message to every member of a team.

use pitcrew_protocol::SendMessageInput;

use super::send::{Sender, answered, content, through_sockets, warnings};
use crate::context::Context;
use crate::failure::Failure;
use crate::selection::TeamChoice;

/// Write to every member of a team; at most once in 5 seconds
#[derive(Debug, clap::Args)]
pub(crate) struct Broadcast {
    /// The text of the message; - reads it from stdin
    text: String,
    /// A preview of the message, 5 to 10 words
    #[arg(long, short, value_name = "TEXT")]
    summary: Option<String>,
    #[command(flatten)]
    sender: Sender,
    #[command(flatten)]
    team: TeamChoice,
}

impl Broadcast {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let input =
            SendMessageInput::Broadcast { content: content(self.text)?, summary: self.summary };
        let sender = self.sender.actor();
        let sent = context.briefly(async {
            let team = self.team.open(context).await?;
            let mut sent = team.send(&sender, input, None).await?;
            through_sockets(context, &team, &mut sent).await?;
            let warnings = warnings(&team, &sent).await;
            Ok((sent, warnings))
        })?;
        answered(context, &sent)
    }
}
