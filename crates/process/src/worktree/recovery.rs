//! Cleans up after a process that died while it created or removed a worktree.
//!
//! The records say what that process was doing. Nothing is removed that a record and git's own list
//! do not both name, and no folder whose `.git` file leads to another worktree.

use std::fs;
use std::path::{Path, PathBuf};

use super::record::{Record, Repository, Stage, Turn};
use super::registrations::{Registrations, read_in};
use super::{WorktreeError, Worktrees, is_real_folder, real, remove_folder};

/// Maximum size of a `.git` file in bytes. It contains one path.
const POINTER_BYTES: u64 = 8192;

impl Worktrees {
    /// Cleans up after a process that died while it created or removed a worktree. An unfinished
    /// creation is undone, and an unfinished removal is completed.
    ///
    /// # Errors
    /// `NotARepository`, `Git` or `Io`.
    pub async fn recover(&self) -> Result<(), WorktreeError> {
        let repository = self.repository().await?;
        if repository.is_known() {
            self.turn(repository).await?;
        }
        Ok(())
    }

    /// Waits for the lock on the worktrees of the repository, and returns the lock. If the previous
    /// holder of the lock died while it created a worktree, this function undoes the creation. If
    /// the holder died while it removed a worktree, this function completes the removal.
    pub(super) async fn turn(&self, repository: Repository) -> Result<Turn, WorktreeError> {
        self.settled(repository.lock().await?).await
    }

    async fn settled(&self, turn: Turn) -> Result<Turn, WorktreeError> {
        // Read the list in any case. Git would wait forever for a FIFO in it.
        let listed = Registrations::read(turn.repository().common())?;
        for record in turn.repository().all()?.readable {
            // Another folder of worktrees has its own manager.
            if !self.is_place(&record.path) {
                continue;
            }
            match record.stage {
                Stage::Creating => self.undo(&turn, &record).await?,
                Stage::Removing => self.end_removal(&turn, record).await?,
                // The user has removed the worktree by hand.
                Stage::Made if is_gone(&record.path) && listed.naming(&record.path).is_empty() => {
                    turn.forget(&record)?;
                }
                Stage::Made => {}
            }
        }
        Ok(turn)
    }

    /// Removes everything that a failed or interrupted creation left. The path and the branch did
    /// not exist before that creation. The record stays as long as git lists the worktree, so that
    /// the next process tries again.
    pub(super) async fn undo(&self, turn: &Turn, record: &Record) -> Result<(), WorktreeError> {
        let path = &record.path;
        // The failed creation may have stopped before the worktree or the branch existed. In that
        // case, removing the worktree or the branch fails. Only log such failures, because the
        // caller already reports why the creation failed.
        let admin = sole_admin(turn.repository().common(), path)?;
        if admin.is_some_and(|admin| is_gone(path) || leads_to(path, &admin) || is_empty(path)) {
            let mut removed = self.git.remove_unfinished_worktree(path).await;
            if removed.is_err() && is_real_folder(path) && remove_folder(path.clone()).await.is_ok()
            {
                // Git removes its data about a half-created worktree once the folder is gone.
                removed = self.git.remove_unfinished_worktree(path).await;
            }
            tracing::debug!(path = %path.display(), ?removed, "took back a worktree");
        }
        // This call fails if the folder is not empty: then it belongs to somebody else.
        let _ = fs::remove_dir(path);
        let deleted = self.delete_unused_branch(record).await;
        tracing::debug!(branch = record.branch, ?deleted, "took back a branch");
        self.tidy(path);
        if Registrations::read(turn.repository().common())?.naming(path).is_empty() {
            turn.forget(record)?;
        } else {
            tracing::warn!(path = %path.display(), "an unfinished worktree cannot be removed");
        }
        Ok(())
    }

    /// Deletes the branch of a creation that is taken back, unless somebody has added a commit.
    async fn delete_unused_branch(&self, record: &Record) -> Result<bool, WorktreeError> {
        let tip = self.git.commit(&format!("refs/heads/{}", record.branch)).await?;
        if tip.as_ref() != Some(&record.start) {
            return Ok(false);
        }
        self.git.delete_branch(&record.branch).await?;
        Ok(true)
    }

    /// Completes the removal of a worktree. If its folder still exists, the worktree is left, as a
    /// member may need it again. A later removal checks the worktree anew.
    async fn end_removal(&self, turn: &Turn, mut record: Record) -> Result<(), WorktreeError> {
        let common = turn.repository().common();
        if is_gone(&record.path) {
            if sole_admin(common, &record.path)?.is_some() {
                let removed = self.git.remove_worktree(&record.path, false).await;
                tracing::debug!(path = %record.path.display(), ?removed, "ended a removal");
            }
            match self.delete_branch_if_merged(&record).await {
                Ok(is_deleted) => {
                    tracing::debug!(branch = record.branch, is_deleted, "ended a removal");
                }
                Err(error) => tracing::warn!(branch = record.branch, %error, "a branch stays"),
            }
            self.tidy(&record.path);
            if Registrations::read(common)?.naming(&record.path).is_empty() {
                return turn.forget(&record);
            }
        }
        record.stage = Stage::Made;
        turn.write(&record)
    }
}

/// Returns the folder in which git stores data about the worktree at a path. Returns `None` if git
/// does not list the worktree, or lists it twice.
pub(super) fn sole_admin(common: &Path, path: &Path) -> Result<Option<PathBuf>, WorktreeError> {
    Ok(match Registrations::read(common)?.naming(path).as_slice() {
        [only] => Some(only.admin.clone()),
        [] | [_, ..] => None,
    })
}

/// Whether the folder's `.git` file names `admin`, so that git takes the folder for that worktree.
pub(super) fn leads_to(folder: &Path, admin: &Path) -> bool {
    let text = read_in(folder, ".git", POINTER_BYTES).ok().flatten();
    let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
    let named = text.as_deref().and_then(|text| text.strip_prefix("gitdir:"));
    named.is_some_and(|named| real(&folder.join(named.trim())) == real(admin))
}

pub(super) fn is_gone(path: &Path) -> bool {
    path.symlink_metadata().is_err()
}

/// Whether the path is a folder without entries. A symbolic link is none.
pub(super) fn is_empty(path: &Path) -> bool {
    is_real_folder(path) && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}
