//! Taking turns at the worktrees of a repository, and what the turn's holder says it is about, for whoever finds it dead.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{LOCK, Marker, WorktreeError, in_background};

/// A worktree that is being made. Until that is done the lock's file says so: whoever finds it there when it has the lock
/// knows that its maker died.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Making {
    pub(super) path: PathBuf,
    pub(super) branch: String,
    /// What stands in the marker of a worktree that is being removed; absent for one that is being made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) removed: Option<Marker>,
}

/// The turn of this process and task to touch the worktrees of a repository; over when dropped.
#[derive(Debug)]
pub(super) struct Turn {
    file: File,
    path: PathBuf,
}

/// Waits for the turn of this process and task to touch the worktrees of a repository.
///
/// The lock is a file's, so that it may be held while git runs; git itself takes locks of its own
/// without waiting for them, and fails when two calls meet.
pub(super) async fn lock(common: &Path) -> Result<Turn, WorktreeError> {
    let path = common.join(LOCK);
    let take = move || {
        let file = File::options().create(true).append(true).open(&path);
        let file = file.map_err(WorktreeError::io("open", &path))?;
        file.lock().map_err(WorktreeError::io("lock", &path))?;
        Ok(Turn { file, path })
    };
    in_background("lock", common, take).await
}

impl Turn {
    /// What the one before was making, who died over it.
    pub(super) fn said(&self) -> Option<Making> {
        serde_json::from_slice(&fs::read(&self.path).ok()?).ok()
    }

    /// Says what is made now.
    pub(super) fn say(&self, making: &Making) -> Result<(), WorktreeError> {
        let doing = "say what is made in";
        let said = serde_json::to_vec(making).map_err(|error| WorktreeError::io(doing, &self.path)(error.into()))?;
        (&self.file).write_all(&said).map_err(WorktreeError::io(doing, &self.path))
    }

    /// Says that it is made, or taken back.
    pub(super) fn done(&self) -> Result<(), WorktreeError> {
        self.file.set_len(0).map_err(WorktreeError::io("clear", &self.path))
    }
}
