//! Rate limits: how often an action may be done, counted over all processes.

use std::time::Duration;

use async_trait::async_trait;
use pitcrew_protocol::{Rate, TeamDir};

use crate::StoreError;

/// The counters of rate limits.
#[async_trait]
pub trait RateStore: Send + Sync {
    /// Takes one slot of a rate limit. The rate is counted over all processes.
    async fn take_slot(
        &self,
        scope: &RateScope,
        rate: Rate,
        now_ms: i64,
    ) -> Result<Slot, StoreError>;
}

/// The actions that one rate limit counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RateScope {
    /// Creations of teams under the root.
    TeamCreation,
    /// Calls under the root.
    Calls,
    /// Spawns into a team.
    Spawns(TeamDir),
    /// Tasks made in a team.
    TaskCreation(TeamDir),
    /// Broadcasts in a team.
    Broadcasts(TeamDir),
}

/// The answer to [`RateStore::take_slot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Slot {
    /// The slot was taken.
    Taken,
    /// No slot is free now.
    Full {
        /// Time until the next slot is free.
        retry_after: Duration,
    },
}
