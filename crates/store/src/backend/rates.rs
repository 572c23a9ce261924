//! Rate limits: how often an action is allowed. All processes share one count.

use std::time::Duration;

use async_trait::async_trait;
use pitcrew_protocol::{Rate, TeamDir};

use crate::StoreError;

/// Counts actions for rate limits.
#[async_trait]
pub trait RateStore: Send + Sync {
    /// Counts one action against a rate limit, if the limit allows one more. All processes share
    /// one count.
    async fn take_slot(
        &self,
        scope: &RateScope,
        rate: Rate,
        now_ms: i64,
    ) -> Result<Slot, StoreError>;
}

/// The kind of action to which a rate limit applies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RateScope {
    /// Creating teams under the root.
    TeamCreation,
    /// API calls of all teams under the root.
    Calls,
    /// Spawning members in this team.
    Spawns(TeamDir),
    /// Creating tasks in this team.
    TaskCreation(TeamDir),
    /// Sending broadcasts in this team.
    Broadcasts(TeamDir),
}

/// The answer to [`RateStore::take_slot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Slot {
    /// The action is allowed and was counted.
    Taken,
    /// The rate limit is reached, so the action is not allowed now.
    Full {
        /// Time until the limit allows the next action.
        retry_after: Duration,
    },
}
