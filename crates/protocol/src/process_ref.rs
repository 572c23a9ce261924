//! A reference to a process. Pitcrew stores such references in its records.

use serde::{Deserialize, Serialize};

/// A process id with the start time of its process. A later process with the same id has another
/// start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessRef {
    /// The id of the process.
    pub pid: u32,
    /// The start time of the process, in clock ticks since boot.
    pub start_ticks: u64,
}
