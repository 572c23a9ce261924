//! Lists the work in a repository: the commits and changed files of a worktree that are not merged,
//! and the new commits of the repository.

use std::collections::BTreeSet;
use std::path::Path;

use super::contents::Place;
use super::git::Names;
use super::{Record, WorktreeError, Worktrees};
use crate::checkout::checkout_around;

/// The maximum number of commits that are listed.
const COMMITS_MOST: usize = 20;

/// The work in a worktree that is not merged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// The number of commits that are not merged.
    pub commit_count: usize,
    /// The newest of these commits, each with its short id and its title.
    pub commits: Vec<String>,
    /// The files that these commits changed, and the files that were changed or created and not
    /// committed.
    pub files: BTreeSet<String>,
    /// Whether further files are left out, because git's list of them is too long.
    pub has_more_files: bool,
}

/// The commits that a repository got since a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewCommits {
    /// The number of commits.
    pub count: usize,
    /// The newest of these commits, each with its short id and its title.
    pub newest: Vec<String>,
}

impl Changes {
    fn add(&mut self, names: Names) {
        self.files.extend(names.list);
        self.has_more_files |= names.has_more;
    }
}

impl Worktrees {
    /// Returns the commit that is checked out. Returns `None` if the folder is in no repository, if
    /// the repository has no commit, or if git cannot tell.
    pub async fn head(&self) -> Option<String> {
        checkout_around(self.git.checkout())?;
        self.git.commit("HEAD").await.ok().flatten()
    }

    /// Lists the commits that the repository got since a moment. `head` is the commit that was
    /// checked out then, and `since_s` is the time in seconds since 1970. The commits are those of
    /// the checked out commit and of the branches, without the branches of worktrees.
    ///
    /// # Errors
    /// `Git` and `Io` if git fails.
    pub async fn commits_since(
        &self,
        head: &str,
        since_s: i64,
    ) -> Result<NewCommits, WorktreeError> {
        if self.head().await.is_none() {
            return Ok(NewCommits::default());
        }
        // The time excludes older commits of other branches. It has no fractions of a second, so
        // `head` excludes the commits that were made just before that moment.
        let known = self.git.commit(head).await?;
        let known = known.as_deref();
        Ok(NewCommits {
            count: self.git.commits_since(known, since_s).await?,
            newest: self.git.titles_since(known, since_s, COMMITS_MOST).await?,
        })
    }

    /// Lists the work in the worktree at a path that is not merged. If the folder is gone, only the
    /// commits of its branch count.
    ///
    /// # Errors
    /// `NotOurs` if pitcrew did not create the worktree, `Git` and `Io` for other failures.
    pub async fn changes(&self, path: &Path) -> Result<Changes, WorktreeError> {
        let record = self.record(path).await?;
        let (tip, is_there) = self.tip_of(&record).await?;
        let mut changes = Changes::default();
        if let Some(tip) = tip {
            let known = self.known_commits(&record).await?;
            changes.commit_count = self.git.commits_beyond(&tip, &known).await?;
            changes.commits = self.git.titles_beyond(&tip, &known, COMMITS_MOST).await?;
            if changes.commit_count > 0 {
                changes.add(self.git.files_since(&record.start, &tip).await?);
            }
        }
        if is_there {
            changes.add(self.git.uncommitted_names(path).await?);
        }
        Ok(changes)
    }

    /// Returns the newest commit of a worktree, and whether its folder is there. Without the
    /// folder, this is the newest commit of its branch.
    pub(super) async fn tip_of(
        &self,
        record: &Record,
    ) -> Result<(Option<String>, bool), WorktreeError> {
        let is_there = matches!(self.place_of(record).await?, Place::There);
        let tip = match is_there {
            true => self.git.commit_in(&record.path, "HEAD").await?,
            false => self.git.commit(&format!("refs/heads/{}", record.branch)).await?,
        };
        Ok((tip, is_there))
    }
}
