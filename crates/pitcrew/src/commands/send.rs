//! `pitcrew send`.

use std::io::Read as _;

use pitcrew_protocol::SendMessageInput;
use pitcrew_team::{Actor, Receipt, Sent, SentView};

use crate::context::Context;
use crate::failure::Failure;
use crate::selection::TeamChoice;

/// What we are called when `--from` does not say.
const OPERATOR: &str = "operator";

/// The most that is read from stdin: a text longer than this is over every limit.
const STDIN_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Write to a member of a team; it arrives while the member works
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew send bob \"look at parser.rs first\"
  git diff | pitcrew send --team backend reviewer - --summary \"my changes\"")]
pub(crate) struct Send {
    /// Who gets it
    recipient: String,
    /// The text; - reads it from stdin
    text: String,
    /// A preview of 5 to 10 words
    #[arg(long, short, value_name = "TEXT")]
    summary: Option<String>,
    #[command(flatten)]
    sender: Sender,
    #[command(flatten)]
    team: TeamChoice,
}

/// Who writes.
#[derive(Debug, clap::Args)]
pub(crate) struct Sender {
    /// What the writer is called; never a member's name
    #[arg(long, value_name = "NAME", default_value = OPERATOR)]
    from: String,
}

impl Sender {
    /// The writer, who is nobody in the team.
    pub(crate) fn actor(self) -> Actor {
        Actor::Outside(self.from)
    }
}

impl Send {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let content = content(self.text)?;
        let input = SendMessageInput::Message { recipient: self.recipient, content, summary: self.summary };
        let sender = self.sender.actor();
        let sent = context.briefly(async {
            let team = self.team.open(context).await?;
            Ok(team.send(&sender, input, None).await?)
        })?;
        answered(context, &sent)
    }
}

/// The text of a message, from the command line or stdin.
pub(crate) fn content(text: String) -> Result<String, Failure> {
    if text != "-" {
        return Ok(text);
    }
    let mut read = Vec::new();
    std::io::stdin().take(STDIN_MAX_BYTES).read_to_end(&mut read).map_err(Failure::internal)?;
    String::from_utf8(read).map_err(|_| Failure::usage("the text on stdin is not UTF-8"))
}

/// Tells that a message was sent, with the ids it can be asked for by.
pub(crate) fn answered(context: &Context, sent: &Sent) -> Result<(), Failure> {
    context.output.answer(&SentView(sent), |SentView(sent)| {
        let state = |receipt: &Receipt| serde_json::to_value(receipt.state).ok()?.as_str().map(str::to_owned);
        let line =
            |receipt: &Receipt| format!("{}: {} as {}", receipt.to, state(receipt).unwrap_or_default(), receipt.id);
        sent.receipts.iter().map(line).collect::<Vec<_>>().join("\n")
    })
}
