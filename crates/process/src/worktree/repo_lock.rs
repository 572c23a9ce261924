//! Locks a repository's worktrees. The lock file records what the holder of the lock is doing, so
//! that another process can clean up if the holder dies.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{LOCK, Marker, WorktreeError, in_background};

/// The worktree that the holder of the lock is creating or removing. This record stays in the lock
/// file until the work is done. If a process takes the lock and finds such a record, the previous
/// holder has died.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Making {
    pub(super) path: PathBuf,
    pub(super) branch: String,
    /// The marker of the worktree if the worktree is being removed. `None` if the worktree is being
    /// created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) removed: Option<Marker>,
}

/// Maximum time to wait for the lock. Other members may get their worktrees first, and for each of
/// them git may copy large files.
const WAIT_AT_MOST: Duration = Duration::from_secs(300);

/// Pause between two attempts to take the lock. The pause is short compared with the time of a git
/// command.
const PAUSE: Duration = Duration::from_millis(10);

/// The lock on a repository's worktrees, held by one task of this process. Dropping this value
/// releases the lock.
#[derive(Debug)]
pub(super) struct Turn {
    file: File,
    path: PathBuf,
}

/// Waits for the lock on a repository's worktrees.
///
/// A process can hold this lock while it runs several git commands. Git's own locks are not enough:
/// git does not wait for them, so if two git commands run at the same time, one of them fails.
pub(super) async fn lock(common: &Path) -> Result<Turn, WorktreeError> {
    let path = common.join(LOCK);
    let take = move || {
        // Do not truncate the file when opening it, because it may contain the unfinished work of a
        // holder that died.
        let file = File::options().create(true).append(true).open(&path);
        let file = file.map_err(WorktreeError::io("open", &path))?;
        wait_for(&file).map_err(WorktreeError::io("lock", &path))?;
        Ok(Turn { file, path })
    };
    in_background("lock", common, take).await
}

/// Waits for the lock on the file, for a limited time. The limit is needed because any process that
/// can read the file can lock it.
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
    /// Returns the unfinished work of the previous holder of the lock, if that holder died.
    pub(super) fn said(&self) -> Option<Making> {
        serde_json::from_slice(&fs::read(&self.path).ok()?).ok()
    }

    /// Records the current work in the lock file.
    pub(super) fn say(&self, making: &Making) -> Result<(), WorktreeError> {
        let doing = "say what is made in";
        let said = serde_json::to_vec(making)
            .map_err(|error| WorktreeError::io(doing, &self.path)(error.into()))?;
        (&self.file).write_all(&said).map_err(WorktreeError::io(doing, &self.path))
    }

    /// Records that the work is complete or undone.
    pub(super) fn done(&self) -> Result<(), WorktreeError> {
        self.file.set_len(0).map_err(WorktreeError::io("clear", &self.path))
    }
}
