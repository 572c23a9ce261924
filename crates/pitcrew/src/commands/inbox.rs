//! `pitcrew inbox`: shows an inbox without marking any message as read.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use clap_complete::engine::ArgValueCompleter;
use futures_util::StreamExt as _;
use pitcrew_protocol::{AgentName, LEAD_NAME, MessageId};
use pitcrew_team::store::{Change, Past};
use pitcrew_team::{InboxOwner, MessageView, Team};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

use crate::completing;
use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::output::{self, FAINT, STRONG, in_one_line, printable};
use crate::selection::TeamChoice;

/// Show a member's inbox without taking anything out of it
///
/// An inbox file keeps all unread messages and the latest 50 to 100 read ones. Older messages are
/// moved to an archive beside it, and messages that another client has removed are no longer in the
/// file. --all also shows the whole archive, and those removed messages that pitcrew wrote
/// recently. For a member that has left, the later part of its archive is shown too. With --follow,
/// a message that another client removes at once is shown if a pitcrew process sent it; a message
/// from another sender is shown only if it is in the file when the file is read.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew inbox                    what the lead was told
  pitcrew inbox bob --unread
  pitcrew inbox bob --all          also what was moved to the archive
  pitcrew inbox bob --follow       goes on until Ctrl-C; with --json a JSON line a message")]
pub(crate) struct Inbox {
    /// The member whose inbox is shown
    #[arg(default_value = LEAD_NAME, add = ArgValueCompleter::new(completing::members))]
    agent: String,
    /// Show only unread messages
    #[arg(long)]
    unread: bool,
    /// Also show messages that are no longer in the inbox: its archive, and messages that other
    /// clients removed
    #[arg(long, conflicts_with_all = ["unread", "follow"])]
    all: bool,
    /// Keep running and show new messages as they arrive
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    team: TeamChoice,
}

#[derive(Debug, Serialize)]
struct Shown {
    agent: AgentName,
    messages: Vec<MessageView>,
    total: usize,
}

impl Inbox {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        context.briefly(async {
            let team = self.team.look_of(context, &self.agent).await?;
            let (agent, has_left) = match team.inbox_owner(&self.agent).await? {
                InboxOwner::Member(name) => (name, false),
                InboxOwner::Departed(name) => (name, true),
            };
            if has_left {
                output::remark(&format!(
                    "{} is no longer a member of {}",
                    printable(agent.as_str()),
                    team.name()
                ));
            }
            if self.follow {
                return self.follow(context, &team, &agent).await;
            }
            let past = match (self.all, has_left && !self.unread) {
                (true, _) => Some(Past::All),
                (false, true) => Some(Past::Lately),
                (false, false) => None,
            };
            let mut undelivered = Undelivered::default();
            undelivered.update(&team, &agent).await;
            let messages = self.entries(&team, &agent, past).await?;
            let messages: Vec<MessageView> =
                messages.into_iter().map(|message| undelivered.mark(message)).collect();
            let shown = Shown { agent, total: messages.len(), messages };
            context.output.answer(&shown, Shown::text)
        })
    }

    async fn entries(
        &self,
        team: &Team,
        agent: &AgentName,
        past: Option<Past>,
    ) -> Result<Vec<MessageView>, Failure> {
        let mut mail = team.shown_mail(agent, past).await?;
        mail.retain(|mail| !self.unread || !mail.message.is_read());
        Ok(mail.into_iter().map(MessageView::from).collect())
    }

    async fn follow(
        &self,
        context: &Context,
        team: &Team,
        agent: &AgentName,
    ) -> Result<(), Failure> {
        // The watch starts before the first read of the inbox. Otherwise a change between the read
        // and the start of the watch would be missed.
        let mut changes = team.watch().await.map_err(Failure::internal)?;
        // The handler of Ctrl-C is registered before the first output. A Ctrl-C during the output
        // therefore ends this command as soon as the output is complete.
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::internal)?;
        let inbox = agent.inbox_file();
        // The ids of the messages that this command does not print again. At the start, these are
        // the messages that were already removed from the inbox.
        let mut shown: HashSet<MessageId> =
            past(team, agent).await?.into_iter().map(|entry| entry.id).collect();
        let mut undelivered = Undelivered::default();
        loop {
            undelivered.update(team, agent).await;
            let there = self.entries(team, agent, None).await?;
            // A message may have arrived after the previous read of the inbox, and another client
            // may have removed the message already. `gone` contains such messages, so they are
            // printed too.
            let gone = past(team, agent).await?;
            for entry in gone.into_iter().chain(there) {
                // A message can be in both `gone` and `there`. Both also contain messages that this
                // command has already shown.
                if shown.insert(entry.id.clone()) {
                    context.output.item(&undelivered.mark(entry), text)?;
                }
            }
            loop {
                let change = tokio::select! {
                    change = changes.next() => change,
                    _ = interrupt.recv() => return Ok(()),
                };
                match change {
                    Some(Change::Inbox(changed)) if changed == inbox => break,
                    // The journal also contains messages that another client has already removed
                    // from the inbox. A change of the journal therefore ends this wait too.
                    Some(Change::Unsure | Change::Journal) => break,
                    Some(Change::Inbox(_) | Change::Config | Change::Tasks | Change::Lease(_)) => {}
                    Some(Change::Unwatched { reason }) => {
                        output::remark(&format!(
                            "warning: {reason}; changes are looked for every second"
                        ));
                    }
                    Some(Change::Gone) | None => {
                        return Err(Failure::new(
                            FailureKind::NotFound,
                            format!("team {} is gone", team.name()),
                        ));
                    }
                }
            }
        }
    }
}

/// The messages that will never be delivered. They are marked as read in the inbox, and only the
/// journal knows the reason.
#[derive(Debug, Default)]
struct Undelivered {
    reasons: BTreeMap<MessageId, String>,
    /// The position in the journal up to which it was read.
    position: u64,
}

impl Undelivered {
    /// Reads what is new in the journal. A journal that cannot be read tells nothing here.
    async fn update(&mut self, team: &Team, agent: &AgentName) {
        if let Ok((reasons, position)) = team.undelivered_since(agent, self.position).await {
            self.reasons.extend(reasons);
            self.position = position;
        }
    }

    fn mark(&self, message: MessageView) -> MessageView {
        message.with_reason(&self.reasons)
    }
}

/// Returns the messages that were removed from the agent's inbox but that pitcrew still has a copy
/// of.
async fn past(team: &Team, agent: &AgentName) -> Result<Vec<MessageView>, Failure> {
    Ok(team.past_mail(agent).await?.into_iter().map(MessageView::from).collect())
}

impl Shown {
    fn text(&self) -> String {
        if self.messages.is_empty() {
            return format!("nothing for {}", self.agent);
        }
        self.messages.iter().map(text).collect::<Vec<_>>().join("\n")
    }
}

fn text(message: &MessageView) -> String {
    let mut text = format!("{STRONG}{}{STRONG:#}", in_one_line(&message.from));
    if let Some(summary) = &message.summary {
        let _ = write!(text, ": {}", in_one_line(summary));
    }
    let at = message.timestamp.as_deref().unwrap_or("at no known time");
    let state = match &message.not_delivered {
        Some(reason) => format!("not delivered ({})", in_one_line(reason)),
        None if message.read => "read".to_owned(),
        None => "unread".to_owned(),
    };
    let _ = writeln!(
        text,
        "  {FAINT}{} {state} {}{FAINT:#}",
        in_one_line(at),
        in_one_line(&message.id.0)
    );
    if let Some(frame) = message.frame {
        let _ = writeln!(text, "  [{frame}]");
    }
    for line in printable(&message.text).lines() {
        let _ = writeln!(text, "  {line}");
    }
    text
}
