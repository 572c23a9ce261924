//! The journals that were read lately. A page reads the log of its team after each change, and only
//! the new lines of the journal are read then.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use pitcrew_team::TeamRecords;
use pitcrew_team::store::JournalEntry;

use crate::failure::Failure;

/// The maximum number of journals that are kept.
const JOURNALS_MOST: usize = 8;

/// The maximum number of entries of a journal that is kept. A longer one is read each time.
const ENTRIES_MOST: usize = 100_000;

/// The journals that were read lately, the latest one last.
#[derive(Debug, Default)]
pub(crate) struct Journals {
    known: Mutex<VecDeque<Known>>,
}

/// A journal as it was read.
#[derive(Clone, Debug)]
struct Known {
    of: JournalId,
    entries: Arc<Vec<JournalEntry>>,
    /// The place in the journal after the last entry.
    end: u64,
}

/// Names the journal of one team. Another team can have the same folder later.
#[derive(Clone, Debug, PartialEq, Eq)]
struct JournalId {
    dir: String,
    created_at_ms: Option<i64>,
}

impl Journals {
    /// Returns all entries of the journal of a team. That of an archived team is read each time.
    pub(crate) async fn of(
        &self,
        records: &TeamRecords,
    ) -> Result<Arc<Vec<JournalEntry>>, Failure> {
        let TeamRecords::Live(team) = records else {
            return Ok(Arc::new(records.journal().await?.0));
        };
        let created_at_ms = records.config().await?.created_at_ms;
        let of = JournalId { dir: team.dir().to_string(), created_at_ms };
        let read = match self.take(&of) {
            Some(known) => {
                let since = records.journal_since(known.end).await?;
                known.with(since)
            }
            None => {
                let (entries, end) = records.journal().await?;
                Known { of, entries: Arc::new(entries), end }
            }
        };
        let entries = Arc::clone(&read.entries);
        self.keep(read);
        Ok(entries)
    }

    fn take(&self, of: &JournalId) -> Option<Known> {
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|known| known.of == *of)?;
        all.remove(at)
    }

    fn keep(&self, read: Known) {
        if read.entries.len() > ENTRIES_MOST {
            return;
        }
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Another request may have kept the same journal meanwhile.
        all.retain(|known| known.of != read.of);
        all.push_back(read);
        while all.len() > JOURNALS_MOST {
            all.pop_front();
        }
    }
}

impl Known {
    /// Adds the entries that were read after the end.
    fn with(mut self, (more, end): (Vec<JournalEntry>, u64)) -> Self {
        if end < self.end {
            // The journal was replaced, and it was read from its beginning.
            self.entries = Arc::new(more);
        } else if !more.is_empty() {
            Arc::make_mut(&mut self.entries).extend(more);
        }
        Self { end, ..self }
    }
}

#[cfg(test)]
mod tests {
    use pitcrew_team::store::Event;

    use super::*;

    fn entry(at_ms: i64) -> JournalEntry {
        let event = Event::TeamCreated { team: "work".to_owned() };
        JournalEntry { at_ms, event }
    }

    fn known(name: &str, count: i64, end: u64) -> Known {
        let of = JournalId { dir: name.to_owned(), created_at_ms: None };
        Known { of, entries: Arc::new((0..count).map(entry).collect()), end }
    }

    fn times(known: &Known) -> Vec<i64> {
        known.entries.iter().map(|entry| entry.at_ms).collect()
    }

    #[test]
    fn new_entries_come_behind_the_known_ones_and_a_replaced_journal_in_their_place() {
        let more = known("a", 2, 20).with((vec![entry(7)], 30));
        assert_eq!((times(&more), more.end), (vec![0, 1, 7], 30));
        let same = more.with((Vec::new(), 30));
        assert_eq!(times(&same), [0, 1, 7]);
        let other = same.with((vec![entry(9)], 10));
        assert_eq!((times(&other), other.end), (vec![9], 10));
    }

    #[test]
    fn only_the_latest_journals_are_kept_and_no_long_one() {
        let journals = Journals::default();
        for number in 0..=JOURNALS_MOST {
            journals.keep(known(&number.to_string(), 1, 1));
        }
        let taken = |name: &str| {
            let of = JournalId { dir: name.to_owned(), created_at_ms: None };
            journals.take(&of).is_some()
        };
        assert!(!taken("0") && taken("1") && !taken("1"));
        let long = i64::try_from(ENTRIES_MOST).unwrap() + 1;
        journals.keep(known("long", long, 1));
        assert!(!taken("long"));
    }
}
