//! Journals of teams: operations that append entries, read from a position, and return summaries.

use async_trait::async_trait;
use pitcrew_protocol::{MessageId, TeamDir};

use super::ArchiveName;
use crate::{JournalEntry, JournalSummary, StoreError};

/// The journals of teams.
#[async_trait]
pub trait JournalStore: Send + Sync {
    /// Appends entries to the journal, in order. When the call has returned, the entries survive
    /// `kill -9`. A power cut can still remove the entries of the last seconds. This is acceptable,
    /// because the journal is evidence of past events and not the source of truth.
    ///
    /// One kind of entry is on disk when the call returns: an entry about a message that can never
    /// be delivered. The reason is that no other file records what happened to that message. The
    /// whole journal is forced to disk when the team is archived.
    async fn record(&self, team: &TeamDir, entries: &[JournalEntry]) -> Result<(), StoreError>;

    /// Returns the journal entries after a position, and the end position for the next call. Valid
    /// positions are 0 and values that an earlier call returned. `u64::MAX` skips all existing
    /// entries.
    ///
    /// Any other position past the end means that somebody replaced the journal. Then the present
    /// journal is read from its beginning. An incomplete last line is left for the next call.
    async fn journal_since(
        &self,
        team: &TeamDir,
        position: u64,
    ) -> Result<(Vec<JournalEntry>, u64), StoreError>;

    /// Returns the journal entries about one message, and the entry about the deletion of the team.
    /// A long journal is read backwards from its end. The search stops at the time at which the
    /// message was sent. If `journal` selects an archive that does not exist or contains no
    /// journal, the result is empty.
    async fn message_journal(
        &self,
        journal: JournalOf<'_>,
        id: &MessageId,
    ) -> Result<Vec<JournalEntry>, StoreError>;

    /// Returns the summary of the whole journal, and the end position of the journal for
    /// [`JournalStore::journal_since`]. A call takes the same time for a short and for a long
    /// journal. Only the first call after the files of the journal were copied or damaged takes
    /// longer for a long journal.
    async fn journal_summary(&self, team: &TeamDir) -> Result<(JournalSummary, u64), StoreError>;
}

/// Selects the journal of a team or of an archived team.
#[derive(Clone, Copy, Debug)]
pub enum JournalOf<'a> {
    /// The journal of a team.
    Team(&'a TeamDir),
    /// The journal of an archived team.
    Archive(&'a ArchiveName),
}
