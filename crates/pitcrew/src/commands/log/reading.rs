//! Reads the journal, the mail and the tasks of a team for its log, first all of them and then what
//! is new.

use pitcrew_protocol::{AgentName, ApiError, ErrorCode, InboxFile};
use pitcrew_team::TeamRecords;
use pitcrew_team::store::{JournalEntry, StoreError};
use pitcrew_view::team_log::{LogEntry, TeamLog, merged};

use crate::failure::Failure;
use crate::output::printable;

/// The position in the log of a team up to which it was read.
#[derive(Debug)]
pub(super) struct Reading {
    records: TeamRecords,
    log: TeamLog,
    /// The position in the journal.
    position: u64,
    /// The first entry of the journal and the number of entries read. They find the same place in
    /// the archive, if the team moves there.
    first: Option<JournalEntry>,
    count: usize,
    /// The names of all members and former members.
    members: Vec<AgentName>,
}

impl Reading {
    /// Begins to read. This reads only the names of the members.
    pub(super) async fn of(records: TeamRecords) -> Result<Self, Failure> {
        let members = records.all_members().await?;
        let log = TeamLog::default();
        Ok(Self { records, log, position: 0, first: None, count: 0, members })
    }

    /// Returns the records that are read.
    pub(super) fn records(&self) -> &TeamRecords {
        &self.records
    }

    /// Returns the number of characters of the longest name of a member.
    pub(super) fn longest_name(&self) -> usize {
        self.members.iter().map(|name| name.as_str().chars().count()).max().unwrap_or(0)
    }

    /// Returns all entries so far.
    pub(super) async fn all(&mut self) -> Result<Vec<LogEntry>, Failure> {
        self.log.know_tasks(&self.records.tasks().await?);
        for name in self.members.clone() {
            self.read_mail(&name).await?;
        }
        let (journal, position) = self.records.journal().await?;
        self.position = position;
        let recorded = self.add(&journal).await?;
        Ok(merged(recorded, self.log.unrecorded_mail()))
    }

    /// Returns the entries that are new in the journal.
    pub(super) async fn more(&mut self) -> Result<Vec<LogEntry>, Failure> {
        let TeamRecords::Live(team) = &self.records else { return Ok(Vec::new()) };
        let (journal, position) = match team.journal_since(self.position).await {
            Ok(read) => read,
            // The watch reports that the team is gone.
            Err(StoreError::NoTeam { .. }) => return Ok(Vec::new()),
            Err(error) => return Err(Failure::internal(error)),
        };
        self.position = position;
        if let Some(tasks) = present(self.records.tasks().await)? {
            self.log.know_tasks(&tasks);
        }
        self.add(&journal).await
    }

    /// Returns the messages in a changed inbox that another program sent.
    pub(super) async fn mail_in(&mut self, inbox: &InboxFile) -> Result<Vec<LogEntry>, Failure> {
        // A message of pitcrew is in the journal too. Its journal entry is better, because it names
        // all receivers of a broadcast.
        let mut entries = self.more().await?;
        if let Some(members) = present(self.records.all_members().await)? {
            self.members = members;
        }
        let owner = self.members.iter().find(|name| name.inbox_file() == *inbox).cloned();
        if let Some(name) = owner {
            self.read_mail(&name).await?;
            entries.extend(self.log.unrecorded_mail());
        }
        Ok(entries)
    }

    /// Returns the last entries of a team that is gone, and a remark about where it is. The team can
    /// be in the archive.
    pub(super) async fn rest(&mut self) -> Result<(Vec<LogEntry>, String), Failure> {
        let TeamRecords::Live(team) = &self.records else {
            return Ok((Vec::new(), String::new()));
        };
        let (teams, name) = (team.teams().clone(), team.name().to_string());
        let gone = format!("team {} is gone", printable(&name));
        let Some(archived) = teams.find_archived(&name).await? else {
            return Ok((Vec::new(), gone));
        };
        let archive = archived.name.to_string();
        let records = TeamRecords::Archived(teams, Box::new(archived));
        let (journal, _) = records.journal().await?;
        // An earlier team of the same name can be in the archive too.
        if journal.first() != self.first.as_ref() {
            return Ok((Vec::new(), gone));
        }
        self.records = records;
        let rest: Vec<JournalEntry> = journal.into_iter().skip(self.count).collect();
        let entries = self.add(&rest).await?;
        Ok((entries, format!("{gone}: it is in the archive as {archive}")))
    }

    async fn add(&mut self, journal: &[JournalEntry]) -> Result<Vec<LogEntry>, Failure> {
        if self.first.is_none() {
            self.first = journal.first().cloned();
        }
        self.count += journal.len();
        for name in self.log.lacks_mail_of(journal) {
            self.read_mail(&name).await?;
        }
        Ok(self.log.entries(journal))
    }

    async fn read_mail(&mut self, name: &AgentName) -> Result<(), Failure> {
        if let Some(mail) = present(self.records.mail(name).await)? {
            self.log.know_mail(name, mail);
        }
        Ok(())
    }
}

/// Returns `None` if the team is gone. Its watch reports that too.
fn present<T>(read: Result<T, ApiError>) -> Result<Option<T>, Failure> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.code == ErrorCode::TeamNotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}
