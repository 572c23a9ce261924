//! The reasons why a worktree was kept, or could not be created, found or removed.

use std::io;
use std::path::{Path, PathBuf};

use pitcrew_protocol::{counted, counted_is};

use super::MOST_KEPT;
use crate::our_git::OurGitError;

/// The reason why a worktree was kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeepReason {
    /// Files were changed or created but not committed.
    #[error("{} changed or new and not committed", counted_is(*.files, "file"))]
    Uncommitted {
        /// The number of changed and new files.
        files: usize,
    },
    /// The worktree contains files that git ignores. These files are in no commit.
    #[error("git ignores {} in it, such as {example}", counted(*.files, "path"))]
    Ignored {
        /// The number of ignored paths.
        files: usize,
        /// One of the ignored paths.
        example: String,
    },
    /// A submodule has commits that are in none of the submodule's remotes.
    #[error("its submodule {submodule} has {} that {} nowhere else", counted(*.commits, "commit"), if *.commits == 1 { "is" } else { "are" })]
    InSubmodule {
        /// The submodule's path in the worktree.
        submodule: String,
        /// The number of commits that exist only in the submodule.
        commits: usize,
    },
    /// Something else has taken the place of the worktree's folder.
    #[error("another file or folder is in its place now")]
    Replaced,
    /// Git's own list and pitcrew's record do not agree about the worktree.
    #[error("git lists it differently than when pitcrew made it")]
    Disputed,
    /// The worktree has commits that the base branch does not have.
    #[error("{} not merged into {base}", counted_is(*.commits, "commit"))]
    Unmerged {
        /// The number of commits that the base branch does not have.
        commits: usize,
        /// The branch into which the commits would be merged.
        base: String,
    },
    /// Git refused to remove the worktree, because the worktree is locked, or was changed after
    /// pitcrew checked it.
    #[error("git did not remove it: {answer}")]
    Refused {
        /// Git's error message.
        answer: String,
    },
}

/// The reason why a worktree could not be created, found or removed.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    /// A team or member has a name that cannot be part of a branch name.
    #[error("{name:?} cannot be part of a branch name")]
    Name {
        /// The name of a team or member.
        name: String,
    },
    /// The folder is not in a git repository.
    #[error("{} is not in a git repository", .path.display())]
    NotARepository {
        /// The folder that is not in a git repository.
        path: PathBuf,
    },
    /// The repository has no commit from which a branch could start.
    #[error("{} has no commit yet, so no branch can start from it", .path.display())]
    NoCommit {
        /// The path of the repository.
        path: PathBuf,
    },
    /// The folder for worktrees is inside the checkout. Git would report the worktrees as untracked
    /// files of the checkout.
    #[error("{} is inside the checkout {}", .folder.display(), .checkout.display())]
    InsideCheckout {
        /// The folder for worktrees.
        folder: PathBuf,
        /// The top folder of the checkout.
        checkout: PathBuf,
    },
    /// All names that pitcrew tries are already used by worktrees or branches that were kept.
    #[error(
        "{branch} and {} names like it are taken by branches or folders that were kept",
        MOST_KEPT
    )]
    Taken {
        /// The first branch name that was tried.
        branch: String,
    },
    /// Pitcrew did not create this worktree.
    #[error("{} is not a worktree that was made for a teammate below {}", .path.display(), .folder.display())]
    NotOurs {
        /// The path of the folder that is not one of pitcrew's worktrees.
        path: PathBuf,
        /// The folder that contains pitcrew's worktrees.
        folder: PathBuf,
    },
    /// Git lists a worktree in pitcrew's folder, but pitcrew has no record of it. An earlier version
    /// of pitcrew may have created it.
    #[error(
        "pitcrew has no record of {} and keeps it (an earlier version may have made it); \
         `git worktree remove` removes it",
        .path.display()
    )]
    Unrecorded {
        /// The folder of the worktree.
        path: PathBuf,
    },
    /// Something else has taken the place of the worktree.
    #[error("{} is not the worktree that pitcrew made there", .path.display())]
    Replaced {
        /// The folder of the worktree.
        path: PathBuf,
    },
    /// A git command failed.
    #[error("git {command} failed: {answer}")]
    Git {
        /// The git command.
        command: String,
        /// Git's error message.
        answer: String,
    },
    /// Git was not run, because that would be dangerous.
    #[error(transparent)]
    Refused(OurGitError),
    /// A file could not be read, written or removed.
    #[error("cannot {doing} {}", .path.display())]
    Io {
        /// The action that failed, as a verb such as "open".
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

impl From<OurGitError> for WorktreeError {
    fn from(error: OurGitError) -> Self {
        match error {
            OurGitError::Git { command, answer } => Self::Git { command, answer },
            OurGitError::Io { doing, path, source } => Self::Io { doing, path, source },
            OurGitError::Borrowed { .. }
            | OurGitError::Written { .. }
            | OurGitError::Configured { .. }
            | OurGitError::Unconfined { .. } => Self::Refused(error),
        }
    }
}

impl WorktreeError {
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}
