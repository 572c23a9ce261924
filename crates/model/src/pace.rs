//! Makes all agents of a team wait together before their next model calls. If a vendor asks one
//! agent to wait, all agents that share the [`Pace`] wait.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The time that all agents of a team must wait before their next model call. Clones of this value
/// share the time.
#[derive(Debug, Clone)]
pub struct Pace {
    held_until: Arc<watch::Sender<Option<Instant>>>,
}

impl Pace {
    /// Creates a pace. At first no agent has to wait.
    pub fn new() -> Self {
        Self { held_until: Arc::new(watch::Sender::new(None)) }
    }

    /// Makes all agents that share this pace wait for `delay`, counted from now. If they must
    /// already wait longer, nothing changes.
    pub fn hold(&self, delay: Duration) {
        let Some(until) = Instant::now().checked_add(delay) else {
            return;
        };
        self.held_until.send_if_modified(|held_until| {
            let longer = held_until.is_none_or(|held_until| held_until < until);
            if longer {
                *held_until = Some(until);
            }
            longer
        });
    }

    /// Returns how long the agents that share this pace still have to wait. Returns `None` if they
    /// do not have to wait.
    pub fn remaining(&self) -> Option<Duration> {
        let held_until = (*self.held_until.borrow())?;
        let remaining = held_until.saturating_duration_since(Instant::now());
        (!remaining.is_zero()).then_some(remaining)
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_hold_is_shared_ends_by_itself_and_is_never_shortened() {
        let pace = Pace::new();
        assert_eq!(pace.remaining(), None);
        pace.clone().hold(Duration::from_secs(5));
        pace.hold(Duration::from_secs(1));
        assert_eq!(pace.remaining(), Some(Duration::from_secs(5)));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(pace.remaining(), None);
    }
}
