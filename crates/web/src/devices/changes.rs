//! Reports changes of the file of devices.

use std::sync::Arc;
use std::time::Duration;

use pitcrew_team::store::WebWatch;
use tokio::sync::watch::Receiver;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often the file may have changed without a notice. The folder itself can be replaced.
const SAFETY: Duration = Duration::from_secs(30);

/// How often the file may have changed if the kernel cannot report changes.
const POLL: Duration = Duration::from_secs(2);

/// Reports changes of the file of devices, until it is dropped.
#[derive(Debug)]
pub(crate) struct Changes {
    notices: Option<(Receiver<u64>, Arc<WebWatch>)>,
    due: Interval,
}

impl Changes {
    /// Without a watch, the file may have changed every 2 s.
    pub(super) fn new(watch: Option<Arc<WebWatch>>) -> Self {
        let period = if watch.is_some() { SAFETY } else { POLL };
        let mut due = interval(period);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { notices: watch.map(|watch| (watch.changes(), watch)), due }
    }

    /// Waits until the file may have changed. The first call returns at once. It is cancel-safe.
    pub(crate) async fn next(&mut self) {
        let Some((notices, _)) = &mut self.notices else {
            self.due.tick().await;
            return;
        };
        tokio::select! {
            changed = notices.changed() => if changed.is_err() {
                // The watch has ended, which it does not before it is dropped.
                self.notices = None;
                self.due = interval(POLL);
            },
            _ = self.due.tick() => {}
        }
    }
}
