//! Reads the journal and the mail of a team for the timeline, first all of them and then what is
//! new. The events of a host do not contain the texts of messages.

use pitcrew_team::{Team, TeamRecords};
use pitcrew_view::state::Happened;
use pitcrew_view::team_log::{LogEntry, TeamLog};

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
        let entries = self.entries().await.unwrap_or_default().into_iter();
        // `pitcrew log --kind all` shows the details too.
        let entries = entries.filter(|entry| !entry.kind.is_detail());
        let happened = entries.map(|entry| Happened::Logged(Box::new(entry))).collect();
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
