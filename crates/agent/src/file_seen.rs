//! A file that an agent has read.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A file as an agent saw it, to be kept with its conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSeen {
    /// The canonical path.
    pub path: PathBuf,
    /// The SHA-256 of its content, in hex.
    pub sha256: String,
}
