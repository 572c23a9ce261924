//! Reads the journal and the mail of a team for the timeline, first all of them and then what is
//! new. The events of a host do not contain the texts of messages.

use pitcrew_protocol::AgentName;
use pitcrew_team::{Team, TeamRecords};
use pitcrew_view::state::{Happened, Mail, Route};
use pitcrew_view::team_log::{LogEntry, LogKind, TeamLog};

/// The position in the log of a team up to which it was read.
#[derive(Debug)]
pub(crate) struct LogReader {
    team: Team,
    log: TeamLog,
    position: u64,
}

impl LogReader {
    /// Begins at the first entry.
    pub(crate) fn new(team: Team) -> Self {
        Self { team, log: TeamLog::default(), position: 0 }
    }

    /// Reads what is new. If the team cannot be read, nothing is new: its host says what happened.
    pub(crate) async fn more(mut self) -> (Self, Vec<Happened>) {
        let entries = self.entries().await.unwrap_or_default();
        let happened = entries.iter().filter_map(happened).collect();
        (self, happened)
    }

    async fn entries(&mut self) -> Option<Vec<LogEntry>> {
        let (journal, position) = self.team.journal_since(self.position).await.ok()?;
        self.log.know_tasks(&self.team.tasks().await.ok()?);
        let records = TeamRecords::Live(self.team.clone());
        for name in self.log.lacks_mail_of(&journal) {
            if let Ok(mail) = records.mail(&name).await {
                self.log.know_mail(&name, mail);
            }
        }
        self.position = position;
        Some(self.log.entries(&journal))
    }
}

/// Returns an entry of the log as an entry of the timeline. Entries that the timeline does not have,
/// such as those of model calls, are left out.
fn happened(entry: &LogEntry) -> Option<Happened> {
    let agent = || AgentName::new(entry.agent.as_deref()?).ok();
    match entry.kind {
        LogKind::Mail => {
            let to: Vec<AgentName> =
                entry.to.iter().filter_map(|name| AgentName::new(name).ok()).collect();
            let to = match <[AgentName; 1]>::try_from(to) {
                Ok([one]) => Route::Agent(one),
                Err(all) => Route::Team(all),
            };
            let text = entry.content.clone().unwrap_or_else(|| entry.text.clone());
            let from = entry.agent.clone().unwrap_or_default();
            let kind = entry.event.clone();
            Some(Happened::Mail(Mail { from, to, kind, summary: None, text }))
        }
        LogKind::Task => Some(Happened::Task {
            id: entry.task.clone()?,
            by: agent()?,
            change: entry.text.clone(),
        }),
        LogKind::Member | LogKind::Plan => {
            Some(Happened::Said { agent: agent()?, text: entry.text.clone() })
        }
        LogKind::Run | LogKind::State | LogKind::Delivery | LogKind::Permission | LogKind::Turn => {
            None
        }
    }
}
