//! The logs of teams, as far as they were computed. A page reads the log of its team after each
//! change. Only what the journal and the inboxes have in addition is then read and put into words.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pitcrew_protocol::{AgentName, ApiError, Task, TaskId, chain};
use pitcrew_team::store::JournalEntry;
use pitcrew_team::{Mail, TeamRecords};
use pitcrew_view::team_log::{LogEntry, TeamLog};
use tokio::sync::Semaphore;

use crate::failure::Failure;
use crate::recent::{Recent, TeamId};

/// The maximum number of logs that are kept.
const LOGS_MOST: usize = 8;

/// The maximum number of entries of a log that is kept. A longer one is computed each time.
const ENTRIES_MOST: usize = 100_000;

/// The logs that were read lately.
#[derive(Debug)]
pub(crate) struct Logs {
    known: Recent<Mutex<Known>>,
    /// A reader has its permit from the beginning to the end. A long log takes a processor for
    /// seconds, and other requests must not wait for that.
    reading: Semaphore,
}

impl Default for Logs {
    fn default() -> Self {
        Self { known: Recent::new(LOGS_MOST), reading: Semaphore::new(1) }
    }
}

/// A log as far as it was computed.
#[derive(Debug, Default)]
struct Known {
    words: TeamLog,
    /// The entries of the journal, in its order.
    recorded: Vec<LogEntry>,
    /// The tasks of these entries. A new subject of one of them changes the entries.
    tasks: BTreeSet<TaskId>,
    /// The place in the journal after the last entry.
    end: u64,
    /// Whether all mail could be read. Otherwise the next reader computes the log anew.
    has_all_mail: bool,
}

impl Logs {
    /// Brings the log of a team up to date and passes it on. Its entries are in the order of their
    /// times. Those of one time are in the order of the journal, before the messages that the journal
    /// lacks. Entries about inboxes that cannot be read come first.
    pub(crate) async fn read<T>(
        &self,
        records: &TeamRecords,
        use_log: impl FnOnce(Vec<&LogEntry>) -> T,
    ) -> Result<T, Failure> {
        let _permit = self.reading.acquire().await.map_err(|error| Failure::internal(&error))?;
        let log = self.of(records).await?;
        let tasks = records.tasks().await?;
        let mut unread = Unread::default();
        let has_past = known(&log).has_past();
        for name in records.all_members().await? {
            // Mail that has left an inbox stays known.
            let mail = match has_past {
                true => lately(records, &name).await,
                false => records.mail(&name).await,
            };
            if let Some(mail) = unread.or_mail(&name, mail) {
                known(&log).words.know_mail(&name, mail);
            }
        }
        known(&log).know_tasks(&tasks);
        loop {
            let start = known(&log).end;
            let (more, end) = records.journal_since(start).await?;
            if end < start {
                // The journal was replaced.
                known(&log).begin_again();
                continue;
            }
            let lacking = known(&log).words.lacks_mail_of(&more);
            for name in lacking {
                if unread.names.contains(&name) {
                    continue;
                }
                if let Some(mail) = unread.or_mail(&name, records.mail(&name).await) {
                    known(&log).words.know_mail(&name, mail);
                }
            }
            let mut known = known(&log);
            // Another request can have added the same entries meanwhile.
            if known.end == start {
                known.add(&more, end);
                known.has_all_mail &= unread.entries.is_empty();
                let foreign = known.words.foreign_mail();
                return Ok(use_log(known.all(&unread.entries, &foreign)));
            }
        }
    }

    /// Returns what is known of the log of a team. That of an archived team is computed each time.
    async fn of(&self, records: &TeamRecords) -> Result<Arc<Mutex<Known>>, Failure> {
        let TeamRecords::Live(team) = records else { return Ok(Arc::default()) };
        Ok(self.find(TeamId::of(team, &records.config().await?)))
    }

    fn find(&self, id: TeamId) -> Arc<Mutex<Known>> {
        self.known.of(id, |log| known(log).recorded.len() <= ENTRIES_MOST)
    }
}

/// The inboxes that cannot be read.
#[derive(Default)]
struct Unread {
    names: BTreeSet<AgentName>,
    entries: Vec<LogEntry>,
}

impl Unread {
    /// Returns the mail. If it could not be read, stores an entry that says so.
    fn or_mail(
        &mut self,
        name: &AgentName,
        read: Result<Vec<Mail>, ApiError>,
    ) -> Option<Vec<Mail>> {
        match read {
            Ok(mail) => Some(mail),
            Err(error) => {
                let said = format!("the mail of {name} cannot be read: {}", chain(&error));
                self.entries.push(LogEntry::unread(&said));
                self.names.insert(name.clone());
                None
            }
        }
    }
}

/// Reads the mail that is in the inbox of a member.
async fn lately(records: &TeamRecords, name: &AgentName) -> Result<Vec<Mail>, ApiError> {
    match records {
        TeamRecords::Live(team) => team.shown_mail(name, None).await,
        TeamRecords::Archived(..) => records.mail(name).await,
    }
}

fn known(log: &Mutex<Known>) -> MutexGuard<'_, Known> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Known {
    /// Returns true if the mail that has left the inboxes is known. Otherwise the caller reads it.
    fn has_past(&mut self) -> bool {
        let has_past = self.has_all_mail;
        if !has_past {
            self.begin_again();
            self.has_all_mail = true;
        }
        has_past
    }

    fn know_tasks(&mut self, tasks: &[Task]) {
        let is_other = |task: &Task| {
            self.tasks.contains(&task.id) && self.words.subject(&task.id) != Some(&task.subject)
        };
        if tasks.iter().any(is_other) {
            self.begin_again();
        }
        self.words.know_tasks(tasks);
    }

    /// Computes the log anew from the beginning of the journal. The mail and the subjects stay known.
    fn begin_again(&mut self) {
        self.words.begin_again();
        self.recorded.clear();
        self.end = 0;
    }

    fn add(&mut self, more: &[JournalEntry], end: u64) {
        let before = self.recorded.len();
        self.words.add_entries(&mut self.recorded, more);
        self.tasks.extend(self.recorded.iter().skip(before).filter_map(|entry| entry.task.clone()));
        self.end = end;
    }

    fn all<'a>(&'a self, unread: &'a [LogEntry], foreign: &'a [LogEntry]) -> Vec<&'a LogEntry> {
        let mut all: Vec<&LogEntry> = self.recorded.iter().chain(foreign).collect();
        all.sort_by_key(|entry| entry.at_ms);
        unread.iter().chain(all).collect()
    }
}

#[cfg(test)]
mod tests {
    use pitcrew_team::store::Event;

    use super::*;

    fn entry(at_ms: i64) -> JournalEntry {
        JournalEntry { at_ms, event: Event::TeamCreated { team: "work".to_owned() } }
    }

    #[test]
    fn only_the_latest_logs_are_kept_and_no_long_one() {
        let logs = Logs::default();
        let read = |name: &str, count: usize| {
            let entries: Vec<JournalEntry> =
                (0..).map(|number| entry(number * 10_000)).take(count).collect();
            known(&logs.find(TeamId::named(name))).add(&entries, 1);
        };
        let length = |name: &str| known(&logs.find(TeamId::named(name))).recorded.len();
        for number in 0..=LOGS_MOST {
            read(&number.to_string(), 1);
        }
        assert_eq!((length("1"), length("0")), (1, 0));
        read("long", ENTRIES_MOST);
        assert_eq!(length("long"), ENTRIES_MOST);
        read("long", 1);
        assert_eq!(length("long"), 0);
    }

    #[test]
    fn entries_are_in_the_order_of_their_times_and_unread_inboxes_come_first() {
        let mut known = Known::default();
        known.add(&[entry(5), entry(3)], 1);
        known.add(&[entry(4)], 2);
        let (unread, foreign) = ([LogEntry::unread("x")], [LogEntry::unread("y")]);
        let times: Vec<i64> = known.all(&unread, &foreign).iter().map(|it| it.at_ms).collect();
        assert_eq!(times, [0, 0, 3, 4, 5]);
    }
}
