//! `pitcrew send`.

use std::io::Read as _;

use pitcrew_protocol::{AgentName, SendMessageInput};
use pitcrew_store::LeaseName;
use pitcrew_team::{Actor, OPERATOR, Receipt, Sent, SentView, Team};
use serde::Serialize;

use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::running::Running;
use crate::selection::TeamChoice;

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
            let sent = team.send(&sender, input, None).await?;
            let unheard = unheard(&team, &sent).await;
            Ok((sent, unheard))
        })?;
        answered(context, &sent)
    }
}

/// A message that was sent, and who does not hear of it now.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    sent: SentView<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// Which receivers no process runs now. None where another client leads the team, and does not say whether it runs, nor
/// where it cannot be looked up: the message is there all the same.
pub(crate) async fn unheard(team: &Team, sent: &Sent) -> Vec<AgentName> {
    let Ok(config) = team.config().await else { return Vec::new() };
    match Running::of(team, &config).await {
        Ok(Running::No | Running::Stale { .. }) => {}
        Ok(Running::ByPitcrew { .. } | Running::BySession { .. } | Running::Elsewhere { .. } | Running::Unknown)
        | Err(_) => return Vec::new(),
    }
    let mut unheard = Vec::new();
    for Receipt { to, .. } in &sent.receipts {
        let holder = team.backend().lease_holder(team.dir(), &LeaseName::of_member(to)).await;
        if matches!(holder, Ok(None)) {
            unheard.push(to.clone());
        }
    }
    unheard
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
pub(crate) fn answered(context: &Context, (sent, unheard): &(Sent, Vec<AgentName>)) -> Result<(), Failure> {
    let mut warnings = Vec::new();
    if !unheard.is_empty() {
        let names: Vec<&str> = unheard.iter().map(AgentName::as_str).collect();
        warnings.push(format!("no process runs {} now; the next run of the team reads it", names.join(", ")));
    }
    let answer = Answer { sent: SentView(sent), warnings };
    context.output.answer(&answer, |Answer { warnings, .. }| {
        warnings.iter().for_each(|warning| output::remark(&format!("warning: {warning}")));
        let state = |receipt: &Receipt| serde_json::to_value(receipt.state).ok()?.as_str().map(str::to_owned);
        let line =
            |receipt: &Receipt| format!("{}: {} as {}", receipt.to, state(receipt).unwrap_or_default(), receipt.id);
        sent.receipts.iter().map(line).collect::<Vec<_>>().join("\n")
    })
}
