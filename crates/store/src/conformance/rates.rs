//! Checks that every backend must pass for rate limits.

use std::sync::Arc;
use std::time::Duration;

use pitcrew_protocol::{Rate, TeamDir};

use super::{Failure, same};
use crate::{Backend, RateScope, Slot};

pub(super) async fn a_rate_is_an_exact_sliding_window(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let rate = Rate { count: 2, seconds: 5 };
    let scope = RateScope::Broadcasts(TeamDir::of("x"));
    let full = |ms| Slot::Full { retry_after: Duration::from_millis(ms) };
    let takes = [
        (1000, Slot::Taken),
        (2000, Slot::Taken),
        (3000, full(3000)),
        (6000, Slot::Taken),
        (6999, full(1)),
    ];
    for (now_ms, expected) in takes {
        same("slot", backend.take_slot(&scope, rate, now_ms).await?, expected)?;
    }
    same("another scope", backend.take_slot(&RateScope::Calls, rate, 3000).await?, Slot::Taken)
}
