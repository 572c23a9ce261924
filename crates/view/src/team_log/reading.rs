//! Reads the journal, the mail and the tasks of a team for its log, first all of them and then what
//! is new.

use futures_util::{Stream, StreamExt as _, stream};
use pitcrew_protocol::{AgentName, ApiError, ErrorCode, InboxFile};
use pitcrew_team::store::{Change, JournalEntry, StoreError, Watch};
use pitcrew_team::{Team, TeamRecords};

use super::{LogEntry, TeamLog, merged};
use crate::error::ViewError;
use crate::text::printable;

/// A part of the log of a team that is followed.
#[derive(Debug)]
pub enum LogPart {
    /// All entries so far. This is the first part.
    All(Vec<LogEntry>),
    /// The entries after the part before.
    More(Vec<LogEntry>),
    /// The log cannot be read any further, for this reason. This is the last part.
    Failed(ViewError),
}

/// The state of a log that is followed.
enum Follow {
    Begin(Team),
    On(Box<LogReading>, Watch),
    Ended,
}

/// Follows the log of a team. The stream ends when the team is gone.
pub fn follow_log(team: Team) -> impl Stream<Item = LogPart> {
    stream::unfold(Follow::Begin(team), |follow| async move {
        match next_part(follow).await {
            Ok(part) => part,
            Err(error) => Some((LogPart::Failed(error), Follow::Ended)),
        }
    })
}

async fn next_part(follow: Follow) -> Result<Option<(LogPart, Follow)>, ViewError> {
    let (mut reading, mut changes) = match follow {
        Follow::Begin(team) => {
            // The watch starts before the first read. Otherwise a change between the two would be
            // missed.
            let changes = team
                .watch()
                .await
                .map_err(|source| ViewError::Store { team: team.dir().clone(), source })?;
            let mut reading = LogReading::of(TeamRecords::Live(team)).await?;
            let all = reading.all().await?;
            return Ok(Some((LogPart::All(all), Follow::On(Box::new(reading), changes))));
        }
        Follow::On(reading, changes) => (reading, changes),
        Follow::Ended => return Ok(None),
    };
    loop {
        let entries = match changes.next().await {
            Some(Change::Journal | Change::Unsure) => reading.more().await?,
            Some(Change::Inbox(inbox)) => reading.mail_in(&inbox).await?,
            Some(Change::Tasks | Change::Config | Change::Lease(_) | Change::Unwatched { .. }) => {
                continue;
            }
            Some(Change::Gone) | None => {
                let (rest, _where_it_is) = reading.rest().await?;
                return Ok(Some((LogPart::More(rest), Follow::Ended)));
            }
        };
        if !entries.is_empty() {
            return Ok(Some((LogPart::More(entries), Follow::On(reading, changes))));
        }
    }
}

/// The position in the log of a team up to which it was read.
#[derive(Debug)]
pub struct LogReading {
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

impl LogReading {
    /// Begins to read. This reads only the names of the members.
    ///
    /// # Errors
    /// When the team cannot be read.
    pub async fn of(records: TeamRecords) -> Result<Self, ViewError> {
        let members = records.all_members().await?;
        let log = TeamLog::default();
        Ok(Self { records, log, position: 0, first: None, count: 0, members })
    }

    /// Returns the records that are read.
    #[must_use]
    pub fn records(&self) -> &TeamRecords {
        &self.records
    }

    /// Returns the number of characters of the longest name of a member.
    #[must_use]
    pub fn longest_name(&self) -> usize {
        self.members.iter().map(|name| name.as_str().chars().count()).max().unwrap_or(0)
    }

    /// Returns all entries so far.
    ///
    /// # Errors
    /// When the team cannot be read.
    pub async fn all(&mut self) -> Result<Vec<LogEntry>, ViewError> {
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
    ///
    /// # Errors
    /// When the team cannot be read.
    pub async fn more(&mut self) -> Result<Vec<LogEntry>, ViewError> {
        let TeamRecords::Live(team) = &self.records else { return Ok(Vec::new()) };
        let (journal, position) = match team.journal_since(self.position).await {
            Ok(read) => read,
            // The watch reports that the team is gone.
            Err(StoreError::NoTeam { .. }) => return Ok(Vec::new()),
            Err(source) => return Err(ViewError::Store { team: team.dir().clone(), source }),
        };
        self.position = position;
        if let Some(tasks) = present(self.records.tasks().await)? {
            self.log.know_tasks(&tasks);
        }
        self.add(&journal).await
    }

    /// Returns the messages in a changed inbox that another program sent.
    ///
    /// # Errors
    /// When the team cannot be read.
    pub async fn mail_in(&mut self, inbox: &InboxFile) -> Result<Vec<LogEntry>, ViewError> {
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
    ///
    /// # Errors
    /// When the team cannot be read.
    pub async fn rest(&mut self) -> Result<(Vec<LogEntry>, String), ViewError> {
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

    async fn add(&mut self, journal: &[JournalEntry]) -> Result<Vec<LogEntry>, ViewError> {
        if self.first.is_none() {
            self.first = journal.first().cloned();
        }
        self.count += journal.len();
        for name in self.log.lacks_mail_of(journal) {
            self.read_mail(&name).await?;
        }
        Ok(self.log.entries(journal))
    }

    async fn read_mail(&mut self, name: &AgentName) -> Result<(), ViewError> {
        if let Some(mail) = present(self.records.mail(name).await)? {
            self.log.know_mail(name, mail);
        }
        Ok(())
    }
}

/// Returns `None` if the team is gone. Its watch reports that too.
fn present<T>(read: Result<T, ApiError>) -> Result<Option<T>, ViewError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.code == ErrorCode::TeamNotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}
