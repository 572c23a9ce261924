//! Taking turns at the worktrees of a repository, and what the turn's holder says it is about, for whoever finds it dead.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

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

/// How long a turn is waited for: git may copy large files for each of many members before us.
const WAIT_AT_MOST: Duration = Duration::from_secs(300);

/// The pause between two looks at the lock; a small part of what git takes.
const PAUSE: Duration = Duration::from_millis(10);

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
        wait_for(&file).map_err(WorktreeError::io("lock", &path))?;
        Ok(Turn { file, path })
    };
    in_background("lock", common, take).await
}

/// Anybody who may read the file can lock it, so it is not waited for without end.
fn wait_for(file: &File) -> io::Result<()> {
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if started.elapsed() < WAIT_AT_MOST => {
                thread::sleep(PAUSE)
            }
            Err(TryLockError::WouldBlock) => {
                let waited = WAIT_AT_MOST.as_secs();
                return Err(io::Error::other(format!(
                    "another process has held the lock for {waited} s"
                )));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

impl Turn {
    /// What the one before was making, who died over it.
    pub(super) fn said(&self) -> Option<Making> {
        serde_json::from_slice(&fs::read(&self.path).ok()?).ok()
    }

    /// Says what is made now.
    pub(super) fn say(&self, making: &Making) -> Result<(), WorktreeError> {
        let doing = "say what is made in";
        let said = serde_json::to_vec(making)
            .map_err(|error| WorktreeError::io(doing, &self.path)(error.into()))?;
        (&self.file).write_all(&said).map_err(WorktreeError::io(doing, &self.path))
    }

    /// Says that it is made, or taken back.
    pub(super) fn done(&self) -> Result<(), WorktreeError> {
        self.file.set_len(0).map_err(WorktreeError::io("clear", &self.path))
    }
}
