//! A file whose content an agent knows.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The path of a file, and a hash of the newest content of the file that the agent knows. Both are
/// stored with the agent's conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSeen {
    /// The canonical path of the file.
    pub path: PathBuf,
    /// The SHA-256 of the file's content, in hex.
    pub sha256: String,
}
