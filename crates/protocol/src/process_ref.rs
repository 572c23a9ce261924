//! A reference to a process, as stored in records.

use serde::{Deserialize, Serialize};

/// A process id with its start time, which distinguishes it from a later process with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessRef {
    /// The id of the process.
    pub pid: u32,
    /// The start time of the process, in clock ticks since boot.
    pub start_ticks: u64,
}
