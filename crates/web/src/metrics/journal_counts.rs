//! Counts the messages of teams. A team's journal is read once, and later only its new entries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use pitcrew_protocol::TeamDir;
use pitcrew_team::Team;
use pitcrew_team::store::{Event, JournalEntry};

use crate::failure::Failure;

/// The messages of a team in its journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MessageCounts {
    /// Written to an inbox.
    pub(super) persisted: u64,
    /// Written to the transcript of the receiver.
    pub(super) delivered: u64,
    /// Given up.
    pub(super) dead: u64,
}

impl MessageCounts {
    fn add(&mut self, entry: &JournalEntry) {
        let count = match &entry.event {
            Event::MessagePersisted { .. } => &mut self.persisted,
            Event::MessageInjected { .. } => &mut self.delivered,
            Event::MessageDead { .. } => &mut self.dead,
            Event::TeamCreated { .. }
            | Event::TeamDeleted { .. }
            | Event::TeamArchived { .. }
            | Event::MessageAcknowledged { .. }
            | Event::FrameRefused { .. }
            | Event::TaskChanged { .. }
            | Event::Overwritten(_)
            | Event::MemberChanged { .. }
            | Event::Started { .. }
            | Event::Stopped { .. }
            | Event::Permission { .. }
            | Event::AllowedAlways { .. }
            | Event::ConversationCompacted { .. }
            | Event::TurnEnded(_)
            | Event::RunStarted { .. }
            | Event::RunEnded { .. }
            | Event::EarlierTeams { .. } => return,
        };
        *count = count.saturating_add(1);
    }
}

/// The part of one journal that was read.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    /// When the team was created. Another team can take the folder later.
    created_at_ms: Option<i64>,
    /// The position after the last entry that was read.
    position: u64,
    counts: MessageCounts,
}

/// The parts of all journals that were read, by the folder of the team.
#[derive(Debug, Default)]
pub(super) struct JournalCounts {
    counted: Mutex<BTreeMap<TeamDir, Counted>>,
}

impl JournalCounts {
    /// Reads the new entries of a team's journal, and returns the counts of all entries.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub(super) async fn of(
        &self,
        team: &Team,
        created_at_ms: Option<i64>,
    ) -> Result<MessageCounts, Failure> {
        let known = self.known(team.dir()).filter(|known| known.created_at_ms == created_at_ms);
        let mut counted = known.unwrap_or(Counted { created_at_ms, ..Counted::default() });
        let read = team.journal_since(counted.position).await;
        let (entries, position) = read.map_err(|error| Failure::internal(&error))?;
        if position < counted.position {
            // Somebody replaced the journal, and the store has read the new one from its beginning.
            counted.counts = MessageCounts::default();
        }
        entries.iter().for_each(|entry| counted.counts.add(entry));
        counted.position = position;
        let mut all = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(team.dir().clone(), counted);
        Ok(counted.counts)
    }

    /// Forgets all teams but these.
    pub(super) fn keep_only(&self, folders: &BTreeSet<&TeamDir>) {
        let mut all = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|folder, _| folders.contains(folder));
    }

    fn known(&self, folder: &TeamDir) -> Option<Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).get(folder).copied()
    }
}
