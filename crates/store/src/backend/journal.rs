//! The journal of a team: appended to, read on, and summed up.

use async_trait::async_trait;
use pitcrew_protocol::{MessageId, TeamDir};

use super::ArchiveName;
use crate::{JournalEntry, JournalSummary, StoreError};

/// The journals of teams.
#[async_trait]
pub trait JournalStore: Send + Sync {
    /// Appends entries to the journal, in order. The entries survive `kill -9` at once. A power cut
    /// may lose the last seconds, because the journal is evidence and not the source of truth.
    /// Entries about a dead message are on disk when the call returns, because no other file
    /// records the end of that message. The whole journal is forced to disk when the team is
    /// archived.
    async fn record(&self, team: &TeamDir, entries: &[JournalEntry]) -> Result<(), StoreError>;

    /// Returns the journal entries from a position on, and the position after them for the next
    /// call. Valid positions are 0 and values that an earlier call returned. `u64::MAX` skips all
    /// existing entries. Any other position past the end belongs to a journal that somebody
    /// removed, so the present journal is read from its beginning. An incomplete last line is left
    /// for the next call.
    async fn journal_since(
        &self,
        team: &TeamDir,
        position: u64,
    ) -> Result<(Vec<JournalEntry>, u64), StoreError>;

    /// The entries of the journal about one message, and the deletion of the team. A long journal
    /// is read from its end, no further back than the message was sent. An archive that is not
    /// there, or kept none, answers nothing.
    async fn message_journal(
        &self,
        journal: JournalOf<'_>,
        id: &MessageId,
    ) -> Result<Vec<JournalEntry>, StoreError>;

    /// The summary of the journal so far, and the position after it, as of
    /// [`JournalStore::journal_since`]. How long it takes does not depend on the length of the
    /// journal, but for the first time after its files were copied or damaged.
    async fn journal_summary(&self, team: &TeamDir) -> Result<(JournalSummary, u64), StoreError>;
}

/// Whose journal.
#[derive(Clone, Copy, Debug)]
pub enum JournalOf<'a> {
    /// A team's.
    Team(&'a TeamDir),
    /// An archived team's.
    Archive(&'a ArchiveName),
}
