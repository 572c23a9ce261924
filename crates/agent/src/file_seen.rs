//! A file that an agent has read.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The last known content of a file, stored with the agent's conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSeen {
    /// The canonical path.
    pub path: PathBuf,
    /// The SHA-256 of the file's content, in hex.
    pub sha256: String,
}
