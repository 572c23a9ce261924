//! Writes journal entries again that the disk refused.

use std::time::Duration;

use super::solo_loop::SoloLoop;
use crate::team_run::{JOURNAL_REFUSED, JOURNAL_WRITTEN, TRY_AFTER, TRY_AT_MOST};

impl SoloLoop {
    /// Schedules another attempt to write those journal entries whose first write failed. The
    /// lead's process learns from these entries that the member is idle. Without them, it would
    /// wait for the member. The user learns when the disk begins and ends to refuse entries.
    pub(super) async fn look_at_journal(&mut self) {
        let noting = self.sources.noting.take();
        if !self.run_context.team.is_journal_behind() {
            if noting.is_some() {
                self.warn(JOURNAL_WRITTEN.to_owned()).await;
            }
            return;
        }
        if noting.is_none() {
            self.warn(JOURNAL_REFUSED.to_owned()).await;
        }
        self.sources.noting = match noting {
            Some((pause, due)) if !due.is_elapsed() => Some((pause, due)),
            earlier => {
                let pause = earlier.map_or(Duration::ZERO, |(pause, _)| pause);
                let pause = pause.saturating_mul(2).clamp(TRY_AFTER, TRY_AT_MOST);
                Some((pause, Box::pin(tokio::time::sleep(pause))))
            }
        };
    }
}
