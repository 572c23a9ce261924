//! Whether the team of a handle is there: its lead may delete it, and make another one under the same name.
//!
//! All clones of a handle share this. What is done through any of them after a deletion meets no team, also where somebody
//! else has made a team of that name since; and once the lead has made another, all of them are handles of that one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pitcrew_store::{ArchiveName, Event, JournalEntry, JournalSummary};

/// The life of a handle's team.
#[derive(Clone, Debug)]
pub(crate) struct Life(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// When it was made: what tells it from an earlier and a later team of the same name.
    born_ms: Option<i64>,
    deleted: Option<Deleted>,
    /// Whether the deleted team is followed by another.
    is_followed: bool,
}

/// What is kept of a team that was deleted through the handle.
#[derive(Clone, Debug)]
pub(crate) struct Deleted {
    pub(crate) archive: ArchiveName,
    /// Its journal, summed up.
    pub(crate) summary: JournalSummary,
    /// The turns that ended since.
    pub(crate) turns: Vec<JournalEntry>,
}

impl Life {
    pub(crate) fn of(born_ms: Option<i64>) -> Self {
        Self(Arc::new(Mutex::new(State { born_ms, deleted: None, is_followed: false })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// What is kept of the team, while there is none.
    pub(crate) fn deleted(&self) -> Option<Deleted> {
        let state = self.state();
        state.deleted.clone().filter(|_| !state.is_followed)
    }

    /// The handle is of another team from now on.
    pub(crate) fn begin_again(&self, born_ms: i64) {
        let mut state = self.state();
        (state.born_ms, state.is_followed) = (Some(born_ms), true);
    }

    /// The other team is not the handle's after all.
    pub(crate) fn end_again(&self) {
        self.state().is_followed = false;
    }

    /// Keeps what is to be noted while there is no team: what model calls took is paid for, whatever becomes of the team.
    pub(crate) fn keep(&self, entries: Vec<JournalEntry>) {
        if let Some(deleted) = &mut self.state().deleted {
            deleted.turns.extend(
                entries.into_iter().filter(|entry| matches!(entry.event, Event::TurnEnded(_))),
            );
        }
    }
}
