//! `pitcrew send`: sends a message to a member of a team.

use std::io::Read as _;

use clap_complete::engine::ArgValueCompleter;
use pitcrew_protocol::{LEAD_NAME, SendMessageInput};
use pitcrew_runtime::client_socket::ClientSockets;
use pitcrew_team::{
    Actor, DeliveryState, OPERATOR, Receipt, Sent, SentView, Team, lead_reads_inbox,
};
use pitcrew_view::member_status::{MemberStatus, ProcessState};
use pitcrew_view::running::Running;
use serde::Serialize;

use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::selection::TeamChoice;

/// The maximum number of bytes that are read from stdin. A longer text would exceed every limit on
/// messages.
const STDIN_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Write to a member of a team; it arrives while the member works
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew send bob \"look at parser.rs first\"
  git diff | pitcrew send --team backend reviewer - --summary \"my changes\"")]
pub(crate) struct Send {
    /// The member that gets the message
    #[arg(add = ArgValueCompleter::new(completing::members))]
    recipient: String,
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

/// The name under which the user writes.
#[derive(Debug, clap::Args)]
pub(crate) struct Sender {
    /// The name of the writer; never a member's name
    #[arg(long, value_name = "NAME", default_value = OPERATOR)]
    from: String,
}

impl Sender {
    /// Returns the sender as an actor that is not a member of the team.
    pub(crate) fn actor(self) -> Actor {
        Actor::Outside(self.from)
    }
}

impl Send {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let content = content(self.text)?;
        let recipient = self.recipient;
        let input = SendMessageInput::Message {
            recipient: recipient.clone(),
            content,
            summary: self.summary,
        };
        let sender = self.sender.actor();
        let sent = context.briefly(async {
            let team = self.team.open_of(context, &recipient).await?;
            let mut sent = team.send(&sender, input, None).await?;
            through_sockets(context, &team, &mut sent).await?;
            let warnings = warnings(&team, &sent).await;
            Ok((sent, warnings))
        })?;
        answered(context, &sent)
    }
}

/// The result that is printed for a sent message. It contains warnings about recipients that may
/// not read the message now.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    sent: SentView<'a>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

/// Tries to deliver the sent messages through the sockets of the recipients' clients. A message
/// that cannot be delivered this way stays in the inbox. Does nothing if the settings disable
/// sockets.
pub(crate) async fn through_sockets(
    context: &Context,
    team: &Team,
    sent: &mut Sent,
) -> Result<(), Failure> {
    if context.usable_settings().uses_client_sockets() {
        ClientSockets::new(&context.root).push(team, &mut sent.receipts).await;
    }
    Ok(())
}

/// Returns warnings about recipients that may not read the message soon.
pub(crate) async fn warnings(team: &Team, sent: &Sent) -> Vec<String> {
    let mut warnings: Vec<String> = waiting(team, sent).await.into_iter().collect();
    warnings.extend(unheard(team, sent).await);
    warnings
}

/// Returns a warning if a message waits for a lead that is a Claude Code session and does not read
/// its inbox.
async fn waiting(team: &Team, sent: &Sent) -> Option<String> {
    let waits = |it: &Receipt| it.to.as_str() == LEAD_NAME && it.state == DeliveryState::Persisted;
    if sent.receipts.iter().any(waits) { lead_does_not_read(team).await } else { None }
}

/// Returns a warning if a Claude Code session leads the team and does not read its inbox now.
pub(crate) async fn lead_does_not_read(team: &Team) -> Option<String> {
    let config = team.config().await.ok().filter(|config| !lead_reads_inbox(config))?;
    Some(format!(
        "the lead of {} reads its inbox only while it has a named teammate of its own; it has none now, so mail to it waits",
        config.name
    ))
}

/// Returns warnings about recipients that no process runs, and about recipients of which this is
/// not known. Returns no warnings in three cases: a process leads the team, it is not known whether
/// a process leads the team, or the recipients cannot be looked up. In all these cases the message
/// is in the inbox.
async fn unheard(team: &Team, sent: &Sent) -> Vec<String> {
    let Ok(config) = team.config().await else { return Vec::new() };
    let reads = match Running::of(team, &config).await {
        Ok(Running::No) => "the next run of the team reads it",
        Ok(Running::Stale { .. }) => {
            "the session that led the team is gone too, and the message waits in the inbox"
        }
        Ok(
            Running::ByPitcrew { .. }
            | Running::BySession { .. }
            | Running::Elsewhere { .. }
            | Running::Unknown,
        )
        | Err(_) => return Vec::new(),
    };
    // After the lead of a pitcrew team was killed, two kinds of members can still run: members in
    // panes, and members that joined by themselves. The state of every member is therefore checked
    // here.
    let Ok(all) = MemberStatus::of(team, &config, &Running::without_lease(&config)).await else {
        return Vec::new();
    };
    let (mut absent, mut unknown) = (Vec::new(), Vec::new());
    for Receipt { to, .. } in &sent.receipts {
        match all.iter().find(|it| it.name() == to).map(MemberStatus::state) {
            Some(ProcessState::Running | ProcessState::Starting | ProcessState::Late) | None => {}
            Some(ProcessState::Gone | ProcessState::NotRunning) => absent.push(to.as_str()),
            Some(ProcessState::Unknown) => unknown.push(to.as_str()),
        }
    }
    let absent =
        (!absent.is_empty()).then(|| format!("no process runs {} now; {reads}", absent.join(", ")));
    let unknown = (!unknown.is_empty()).then(|| {
        format!(
            "it is not known whether {} runs: another client started it, and nobody leads the team now",
            unknown.join(", ")
        )
    });
    absent.into_iter().chain(unknown).collect()
}

/// Returns the text of a message from the command line. If the text is `-`, reads it from stdin.
pub(crate) fn content(text: String) -> Result<String, Failure> {
    if text != "-" {
        return Ok(text);
    }
    let mut read = Vec::new();
    // One byte more than allowed is read, to detect a text that is too long.
    let mut stdin = std::io::stdin().take(STDIN_MAX_BYTES + 1);
    stdin.read_to_end(&mut read).map_err(Failure::internal)?;
    if read.len() as u64 > STDIN_MAX_BYTES {
        return Err(Failure::usage(format!(
            "the text on stdin is longer than {STDIN_MAX_BYTES} bytes"
        )));
    }
    String::from_utf8(read).map_err(|_| Failure::usage("the text on stdin is not UTF-8"))
}

/// Prints the result for a sent message. The result contains the ids that `pitcrew message`
/// accepts.
pub(crate) fn answered(
    context: &Context,
    (sent, warnings): &(Sent, Vec<String>),
) -> Result<(), Failure> {
    let answer = Answer { sent: SentView(sent), warnings };
    context.output.answer(&answer, |Answer { warnings, .. }| {
        warnings.iter().for_each(|warning| output::remark(&format!("warning: {warning}")));
        let state = |receipt: &Receipt| {
            serde_json::to_value(receipt.state).ok()?.as_str().map(str::to_owned)
        };
        let line = |receipt: &Receipt| {
            format!("{}: {} as {}", receipt.to, state(receipt).unwrap_or_default(), receipt.id)
        };
        sent.receipts.iter().map(line).collect::<Vec<_>>().join("\n")
    })
}
