//! A process as records name it.

use serde::{Deserialize, Serialize};

/// A process, told from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessRef {
    /// Its process id.
    pub pid: u32,
    /// Its start in clock ticks since boot.
    pub start_ticks: u64,
}
