//! Checks a worktree for work that would be lost if it were removed.

use std::fs;
use std::path::Path;

use super::git::InnerCheckout;
use super::{IgnoredFiles, KeepReason, Record, WorktreeError, Worktrees, is_real_folder, real};

/// The result of checking a worktree.
pub(super) enum Contents {
    /// The worktree contains nothing that would be lost.
    Nothing {
        /// True if the worktree contains checked out submodules.
        has_submodules: bool,
    },
    /// The worktree contains work that exists nowhere else.
    Own(KeepReason),
}

/// Whether the folder in which a worktree was created still contains the worktree, no longer
/// exists, or contains something else.
pub(super) enum Place {
    There,
    Gone,
    Replaced,
}

impl Worktrees {
    /// Checks which work would be lost if the worktree were removed.
    pub(super) async fn look_into(&self, record: &Record) -> Result<Contents, WorktreeError> {
        let path = &record.path;
        if !self.is_agreed(record).await? {
            return Ok(Contents::Own(KeepReason::Disputed));
        }
        let mut tips = vec![format!("refs/heads/{}", record.branch)];
        let mut has_submodules = false;
        match self.place_of(record).await? {
            Place::Gone => {}
            Place::Replaced => return Ok(Contents::Own(KeepReason::Replaced)),
            Place::There => {
                let checkouts = self.git.checkouts(path).await?;
                has_submodules = checkouts.len() > 1;
                if let Some(reason) = self.files_to_keep(path, &checkouts).await? {
                    return Ok(Contents::Own(reason));
                }
                // The worktree may now have another branch checked out, or no branch (detached
                // HEAD). Therefore check the commit of its HEAD too.
                tips.extend(self.git.commit_in(path, "HEAD").await?);
            }
        }
        for tip in tips {
            let (commits, base) = self.own_commits(record, &tip).await?;
            if commits > 0 {
                return Ok(Contents::Own(KeepReason::Unmerged { commits, base }));
            }
        }
        Ok(Contents::Nothing { has_submodules })
    }

    /// Checks whether the worktree is still in the folder in which it was created. If that folder
    /// is empty, the worktree is treated as gone.
    pub(super) async fn place_of(&self, record: &Record) -> Result<Place, WorktreeError> {
        let path = &record.path;
        if path.symlink_metadata().is_err() {
            return Ok(Place::Gone);
        }
        if !is_real_folder(path) {
            return Ok(Place::Replaced);
        }
        if fs::read_dir(path).map_err(WorktreeError::io("list", path))?.next().is_none() {
            return Ok(Place::Gone);
        }
        // If another folder is now at the worktree's path, git finds no repository in that folder,
        // or finds the repository that contains the folder.
        let own = record.admin.as_deref().map(real);
        match self.git.admin_folder(path).await {
            Ok(admin) if own == Some(real(&admin)) => Ok(Place::There),
            Ok(_) | Err(WorktreeError::Git { .. }) => Ok(Place::Replaced),
            Err(problem) => Err(problem),
        }
    }

    /// Checks for files and submodule commits that exist only in the worktree. `checkouts` are the
    /// worktree itself, and all repositories inside it.
    async fn files_to_keep(
        &self,
        path: &Path,
        checkouts: &[InnerCheckout],
    ) -> Result<Option<KeepReason>, WorktreeError> {
        let mut files = 0;
        for checkout in checkouts {
            files += self.git.uncommitted_files(checkout).await?;
        }
        if files > 0 {
            return Ok(Some(KeepReason::Uncommitted { files }));
        }
        for submodule in checkouts.iter().skip(1).map(|checkout| &checkout.folder) {
            let commits = self.git.own_commits(submodule).await?;
            if commits > 0 {
                let submodule =
                    submodule.strip_prefix(real(path)).unwrap_or(submodule).display().to_string();
                return Ok(Some(KeepReason::InSubmodule { submodule, commits }));
            }
        }
        if self.ignored == IgnoredFiles::Remove {
            return Ok(None);
        }
        for folder in checkouts.iter().map(|checkout| &checkout.folder) {
            let ignored = self.git.ignored_files(folder).await?;
            if let Some(example) = ignored.first() {
                let example = example.clone();
                return Ok(Some(KeepReason::Ignored { files: ignored.len(), example }));
            }
        }
        Ok(None)
    }

    /// Counts the commits of `tip` that were made in the worktree and are not merged. Also returns
    /// the branch into which they would be merged.
    pub(super) async fn own_commits(
        &self,
        record: &Record,
        tip: &str,
    ) -> Result<(usize, String), WorktreeError> {
        let known = self.known_commits(record).await?;
        let base = known.first().map_or("HEAD", String::as_str);
        let shown = base.strip_prefix("refs/heads/").unwrap_or(base).to_owned();
        if self.git.commit(tip).await?.is_none() {
            return Ok((0, shown));
        }
        Ok((self.git.commits_beyond(tip, &known).await?, shown))
    }

    /// Returns the references whose commits were not made in the worktree: first the branch into
    /// which the worktree would be merged, then the commit at which the worktree started, if it
    /// still exists.
    pub(super) async fn known_commits(
        &self,
        record: &Record,
    ) -> Result<Vec<String>, WorktreeError> {
        let base = match &record.base {
            Some(base) if self.git.commit(base).await?.is_some() => base.as_str(),
            // The base branch was deleted, or there was no base branch (detached HEAD). Compare
            // with the current HEAD of the repository's checkout.
            Some(_) | None => "HEAD",
        };
        let start = self.git.commit(&record.start).await?;
        Ok(std::iter::once(base.to_owned()).chain(start).collect())
    }
}
