//! Leases: exclusive rights. One process holds a lease, until it releases the lease or ends.

use async_trait::async_trait;
use pitcrew_protocol::{AgentName, InboxFile, ProcessRef, TeamDir};
use serde::{Deserialize, Serialize};

use crate::StoreError;

/// The leases of teams.
#[async_trait]
pub trait LeaseStore: Send + Sync {
    /// Takes a lease. The lease ends when it is dropped or when the process ends. Returns an inner
    /// `Err(holder)` if another process holds the lease.
    async fn take_lease(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
        holder: &LeaseHolder,
    ) -> Result<Result<Lease, LeaseHolder>, StoreError>;

    /// Writes a new holder record for a lease that this backend holds. Watchers of the team are
    /// notified.
    async fn name_holder(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
        holder: &LeaseHolder,
    ) -> Result<(), StoreError>;

    /// Returns the process that holds the lease now, or `None` if no process holds it.
    async fn lease_holder(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
    ) -> Result<Option<LeaseHolder>, StoreError>;

    /// Returns the last process that took the lease, even if that process no longer holds it.
    async fn last_holder(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
    ) -> Result<Option<LeaseHolder>, StoreError>;
}

/// The name of a lease. A lease is an exclusive right that one process can hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaseName {
    /// The right to lead the team's run.
    Run,
    /// The right to run the member with this inbox in a separate process.
    Member(InboxFile),
}

impl std::fmt::Display for LeaseName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Run => f.write_str("the lease of the run"),
            Self::Member(inbox) => write!(f, "the lease of {inbox}"),
        }
    }
}

impl LeaseName {
    /// Returns the name of a member's lease.
    #[must_use]
    pub fn of_member(name: &AgentName) -> Self {
        Self::Member(name.inbox_file())
    }
}

/// The process that holds a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseHolder {
    /// The id of the process.
    pub pid: u32,
    /// Start time of the process in clock ticks since boot. It distinguishes the process from a
    /// later process with the same id.
    pub start_ticks: u64,
    /// Time at which the process took the lease, in milliseconds since 1970.
    pub since_ms: i64,
    /// The public key that verifies frames of the team's lead. `None` if the lead signs no frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify_key: Option<String>,
    /// Whether the holder of the run's lease is still preparing the team, which includes lowering
    /// the teammates' permission modes. Until the holder has finished, no process leads the
    /// members.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prepares: bool,
}

impl LeaseHolder {
    /// Returns a reference to the process that holds the lease.
    #[must_use]
    pub fn process(&self) -> ProcessRef {
        ProcessRef { pid: self.pid, start_ticks: self.start_ticks }
    }
}

/// A held lease. Dropping it releases the lease.
pub struct Lease(
    #[expect(dead_code, reason = "held for its drop")]
    pub(crate)  Box<dyn std::any::Any + Send + Sync>,
);

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lease")
    }
}
