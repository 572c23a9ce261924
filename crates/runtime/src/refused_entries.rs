//! Writes journal entries again that the disk refused.

use std::pin::Pin;
use std::time::Duration;

use pitcrew_team::Team;
use tokio::time::Sleep;

use crate::team_run::{TRY_AFTER, TRY_AT_MOST};

/// What the user learns when the disk refuses entries of the journal.
pub(crate) const REFUSED: &str = "the team's journal cannot be written, perhaps because the disk is full; \
    what happens now is written when the disk takes it";

/// What the user learns when the disk takes entries of the journal again.
const WRITTEN: &str = "the team's journal is written again";

/// An event source of the process that runs a team or a member. Other processes learn only from
/// the journal what this process did, for example that a member is idle. Without an entry that the
/// disk refused, they would wait for it.
#[derive(Debug)]
pub(crate) struct RefusedEntries {
    team: Team,
    /// While the journal lacks entries: the pause before the next attempt, and its end.
    retry: Option<(Duration, Pin<Box<Sleep>>)>,
}

impl RefusedEntries {
    pub(crate) fn of(team: &Team) -> Self {
        Self { team: team.clone(), retry: None }
    }

    /// Waits until the disk refuses an entry, or until the next attempt is due. Then
    /// [`RefusedEntries::look`] must run.
    pub(crate) async fn next(&mut self) {
        match &mut self.retry {
            Some((_, due)) => due.await,
            None => self.team.journal_fell_behind().await,
        }
    }

    /// Makes an attempt that is due and schedules the next one. Returns what the user has to know
    /// when the disk begins or ends to refuse entries.
    pub(crate) async fn look(&mut self) -> Option<&'static str> {
        if self.retry.as_ref().is_some_and(|(_, due)| due.is_elapsed()) {
            self.team.note([]).await;
        }
        if !self.team.is_journal_behind() {
            return self.retry.take().map(|_| WRITTEN);
        }
        let pause = match &self.retry {
            Some((_, due)) if !due.is_elapsed() => return None,
            Some((pause, _)) => pause.saturating_mul(2).min(TRY_AT_MOST),
            None => TRY_AFTER,
        };
        let earlier = self.retry.replace((pause, Box::pin(tokio::time::sleep(pause))));
        earlier.is_none().then_some(REFUSED)
    }
}
