//! `pitcrew inbox`: reading along; nothing is marked as read.

use std::collections::HashSet;
use std::fmt::Write as _;

use futures_util::StreamExt as _;
use pitcrew_protocol::{AgentName, ApiError, ErrorCode, Frame, LEAD_NAME, Message, MessageId};
use pitcrew_store::{Change, StoredMessage};
use pitcrew_team::Team;
use serde::Serialize;

use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::output::{FAINT, STRONG, printable};
use crate::selection::TeamChoice;

/// Show a member's inbox without taking anything out of it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew inbox                    what the lead was told
  pitcrew inbox bob --unread
  pitcrew inbox bob --follow       goes on until Ctrl-C; with --json a JSON line a message")]
pub(crate) struct Inbox {
    /// Whose
    #[arg(default_value = LEAD_NAME)]
    agent: String,
    /// Only what is not read yet
    #[arg(long)]
    unread: bool,
    /// Go on showing what arrives
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    team: TeamChoice,
}

/// The answer: the messages as the file holds them, each with its id.
#[derive(Debug, Serialize)]
struct Shown {
    agent: AgentName,
    messages: Vec<Entry>,
    total: usize,
}

#[derive(Debug, Serialize)]
struct Entry {
    id: MessageId,
    #[serde(flatten)]
    message: Message,
}

impl Inbox {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        context.briefly(async {
            let team = self.team.open(context).await?;
            let agent = member(&team, &self.agent).await?;
            if self.follow {
                return self.follow(context, &team, &agent).await;
            }
            let messages = self.entries(&team, &agent).await?;
            let shown = Shown { agent, total: messages.len(), messages };
            context.output.answer(&shown, Shown::text)
        })
    }

    async fn entries(&self, team: &Team, agent: &AgentName) -> Result<Vec<Entry>, Failure> {
        let stored = team.backend().inbox(team.dir(), &agent.inbox_file()).await.map_err(Failure::internal)?;
        let wanted = |stored: &StoredMessage| !self.unread || !stored.message.is_read();
        Ok(stored.into_iter().filter(wanted).map(|s| Entry { id: s.id, message: s.message }).collect())
    }

    async fn follow(&self, context: &Context, team: &Team, agent: &AgentName) -> Result<(), Failure> {
        // Watch first, so that nothing falls between the first look and the first change.
        let mut changes = team.backend().watch(team.dir()).await.map_err(Failure::internal)?;
        let inbox = agent.inbox_file();
        let mut shown = HashSet::new();
        loop {
            for entry in self.entries(team, agent).await? {
                if shown.insert(entry.id.clone()) {
                    context.output.item(&entry, Entry::text)?;
                }
            }
            loop {
                let change = tokio::select! {
                    change = changes.next() => change,
                    interrupted = tokio::signal::ctrl_c() => {
                        interrupted.map_err(Failure::internal)?;
                        return Ok(());
                    }
                };
                match change {
                    Some(Change::Inbox(changed)) if changed == inbox => break,
                    Some(Change::Unsure) => break,
                    Some(Change::Inbox(_) | Change::Config | Change::Tasks) => {}
                    Some(Change::Gone) | None => {
                        return Err(Failure::new(FailureKind::NotFound, format!("team {} is gone", team.name())));
                    }
                }
            }
        }
    }
}

/// The member called `name`, as the config writes it.
async fn member(team: &Team, name: &str) -> Result<AgentName, Failure> {
    let config = team.config().await?;
    if let Some(member) = config.member(name) {
        return Ok(member.name.clone());
    }
    let known: Vec<&str> = config.members.iter().map(|m| m.name.as_str()).collect();
    let said = format!("Agent '{name}' is not in team '{}'", team.name());
    Err(ApiError::new(ErrorCode::AgentNotFound, said).with("available_agents", known).into())
}

impl Shown {
    fn text(&self) -> String {
        if self.messages.is_empty() {
            return format!("nothing for {}", self.agent);
        }
        self.messages.iter().map(Entry::text).collect::<Vec<_>>().join("\n")
    }
}

impl Entry {
    fn text(&self) -> String {
        let message = &self.message;
        let mut text = format!("{STRONG}{}{STRONG:#}", printable(&message.from));
        if let Some(summary) = &message.summary {
            let _ = write!(text, ": {}", printable(summary));
        }
        let at = message.timestamp.as_deref().unwrap_or("at no known time");
        let state = if message.is_read() { "read" } else { "unread" };
        let _ = writeln!(text, "  {FAINT}{} {state} {}{FAINT:#}", printable(at), self.id);
        let said = match Frame::detect(&message.text) {
            Some(frame) => format!("[{}] {}", frame.kind(), message.text),
            None => message.text.clone(),
        };
        for line in printable(&said).lines() {
            let _ = writeln!(text, "  {line}");
        }
        text
    }
}
