//! Whether the team of a handle still exists. The lead is able to delete the team and then to
//! create a new one under the same name.
//!
//! All clones of a handle share this state. After a deletion through one of the clones, every
//! operation on them finds no team, even if another process has created a team with the same name.
//! After the lead has created a new team, all clones refer to the new team.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pitcrew_store::{ArchiveName, JournalEntry, JournalSummary};
use tokio::sync::watch;

/// Maximum number of journal entries that are kept while the disk refuses them. Beyond the limit
/// the oldest entries are lost.
const UNWRITTEN_MOST: usize = 1_000;

/// Whether a handle's team exists or was deleted, shared by all clones of the handle.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    state: Arc<Mutex<State>>,
    /// Whether the journal lacks entries that the disk refused. It stays true while they are
    /// written again, and changes only with [`State::unwritten`] locked.
    is_behind: watch::Sender<bool>,
}

#[derive(Debug)]
struct State {
    /// The creation time of the team. It distinguishes the team from earlier and later teams with
    /// the same name.
    born_ms: Option<i64>,
    deleted: Option<Deleted>,
    /// Whether a new team has replaced the deleted one.
    is_followed: bool,
    /// Journal entries that the disk refused, in order. They are written before later entries.
    unwritten: Vec<JournalEntry>,
}

/// The data that the handle keeps after the team was deleted through it.
#[derive(Clone, Debug)]
pub(crate) struct Deleted {
    pub(crate) archive: ArchiveName,
    /// The summary of the deleted team's journal.
    pub(crate) summary: JournalSummary,
    /// The events after the deletion of the team, in order. The next team takes the turns. If there
    /// is no next team, all of them belong to the deleted team.
    pub(crate) rest: Vec<JournalEntry>,
}

impl Life {
    pub(crate) fn of(born_ms: Option<i64>) -> Self {
        let unwritten = Vec::new();
        let state = State { born_ms, deleted: None, is_followed: false, unwritten };
        Self { state: Arc::new(Mutex::new(state)), is_behind: watch::Sender::new(false) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn born_ms(&self) -> Option<i64> {
        self.state().born_ms
    }

    pub(crate) fn is_over(&self) -> bool {
        let state = self.state();
        state.deleted.is_some() && !state.is_followed
    }

    pub(crate) fn end(&self, deleted: Deleted) {
        let mut state = self.state();
        (state.deleted, state.is_followed) = (Some(deleted), false);
    }

    /// Returns the data of the deleted team. Returns `None` if the team exists or a new team has
    /// replaced it.
    pub(crate) fn deleted(&self) -> Option<Deleted> {
        let state = self.state();
        state.deleted.clone().filter(|_| !state.is_followed)
    }

    /// Makes the handle refer to a new team from now on.
    pub(crate) fn begin_again(&self, born_ms: i64) {
        let mut state = self.state();
        (state.born_ms, state.is_followed) = (Some(born_ms), true);
    }

    /// Undoes [`Life::begin_again`]. This is for a new team that could not be created or led.
    pub(crate) fn end_again(&self) {
        self.state().is_followed = false;
    }

    /// Keeps the journal entries of events that happen while there is no team.
    pub(crate) fn keep(&self, entries: Vec<JournalEntry>) {
        if let Some(deleted) = &mut self.state().deleted {
            deleted.rest.extend(entries);
        }
    }

    /// Returns the archive of the deleted team and the entries that were kept for it. The returned
    /// entries are no longer kept. Returns `None` if the team exists or a new team has replaced it.
    pub(crate) fn take_rest(&self) -> Option<(ArchiveName, Vec<JournalEntry>)> {
        let mut state = self.state();
        if state.is_followed {
            return None;
        }
        let deleted = state.deleted.as_mut()?;
        Some((deleted.archive.clone(), std::mem::take(&mut deleted.rest)))
    }

    /// Whether the journal lacks entries that the disk refused.
    pub(crate) fn is_behind(&self) -> bool {
        *self.is_behind.borrow()
    }

    /// Waits until the journal lacks entries that the disk refused.
    pub(crate) async fn fell_behind(&self) {
        // This handle holds the sender, so the wait cannot fail.
        let _ = self.is_behind.subscribe().wait_for(|is_behind| *is_behind).await;
    }

    /// Records that the disk has taken the entries of [`Life::with_unwritten`], or that they have no
    /// journal any more.
    pub(crate) fn caught_up(&self) {
        let state = self.state();
        let is_behind = !state.unwritten.is_empty();
        self.is_behind.send_if_modified(|was| std::mem::replace(was, is_behind) != is_behind);
    }

    /// Returns all entries to write now: first the kept entries that the disk refused, then
    /// `entries`. The returned entries are no longer kept.
    pub(crate) fn with_unwritten(&self, entries: Vec<JournalEntry>) -> Vec<JournalEntry> {
        let mut all = std::mem::take(&mut self.state().unwritten);
        all.extend(entries);
        all
    }

    /// Keeps entries that the disk refused, so that a later write can try them again. They are put
    /// before all entries that are already kept.
    pub(crate) fn keep_unwritten(&self, mut entries: Vec<JournalEntry>) {
        let mut state = self.state();
        entries.append(&mut state.unwritten);
        let surplus = entries.len().saturating_sub(UNWRITTEN_MOST);
        state.unwritten = entries.split_off(surplus);
        self.is_behind.send_if_modified(|was| !std::mem::replace(was, true));
    }
}
