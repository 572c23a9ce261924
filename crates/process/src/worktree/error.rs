//! Why a worktree was kept, or could not be made, found or removed.

use std::io;
use std::path::{Path, PathBuf};

use pitcrew_protocol::{counted, counted_is};

use super::MOST_KEPT;

/// Why a worktree was kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeepReason {
    /// Files were changed or created and not committed.
    #[error("{} changed or new and not committed", counted_is(*.files, "file"))]
    Uncommitted {
        /// How many.
        files: usize,
    },
    /// There are files that git ignores: no commit has them.
    #[error("git ignores {} in it, such as {example}", counted(*.files, "path"))]
    Ignored {
        /// How many.
        files: usize,
        /// One of them.
        example: String,
    },
    /// A submodule has commits that none of its remotes has.
    #[error("its submodule {submodule} has {} that {} nowhere else", counted(*.commits, "commit"), if *.commits == 1 { "is" } else { "are" })]
    InSubmodule {
        /// Where it is in the worktree.
        submodule: String,
        /// How many.
        commits: usize,
    },
    /// Something else is where its folder was.
    #[error("something else stands in its place by now")]
    Replaced,
    /// Commits were made that the base branch does not have.
    #[error("{} not merged into {base}", counted_is(*.commits, "commit"))]
    Unmerged {
        /// How many.
        commits: usize,
        /// What they would have to be merged into.
        base: String,
    },
    /// Git would not remove it: it is locked, or changed at the last moment.
    #[error("git would not remove it: {answer}")]
    Refused {
        /// What git said.
        answer: String,
    },
}

/// Why a worktree could not be made, found or removed.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    /// A name cannot be part of a branch.
    #[error("{name:?} cannot be part of a branch name")]
    Name {
        /// The name of a team or member.
        name: String,
    },
    /// The folder is in no git repository.
    #[error("{} is not in a git repository", .path.display())]
    NotARepository {
        /// The folder.
        path: PathBuf,
    },
    /// The repository has no commit a branch could start from.
    #[error("{} has no commit yet, so no branch can start from it", .path.display())]
    NoCommit {
        /// The repository.
        path: PathBuf,
    },
    /// Worktrees would be inside the checkout, where git would see them as untracked files.
    #[error("{} is inside the checkout {}", .folder.display(), .checkout.display())]
    InsideCheckout {
        /// The folder for worktrees.
        folder: PathBuf,
        /// The checkout.
        checkout: PathBuf,
    },
    /// All names for it are taken by worktrees or branches that were kept.
    #[error(
        "{branch} and {} names like it are taken by branches or folders that were kept",
        MOST_KEPT
    )]
    Taken {
        /// The branch it would have got.
        branch: String,
    },
    /// It was not made by us.
    #[error("{} is not a worktree that was made for a teammate below {}", .path.display(), .folder.display())]
    NotOurs {
        /// What was to be touched.
        path: PathBuf,
        /// Where ours are.
        folder: PathBuf,
    },
    /// Something else stands in its place.
    #[error("{} is not the worktree that was made there any more", .path.display())]
    Replaced {
        /// The folder.
        path: PathBuf,
    },
    /// Git failed.
    #[error("git {command} failed: {answer}")]
    Git {
        /// What was asked.
        command: String,
        /// What git said.
        answer: String,
    },
    /// A file could not be read, written or removed.
    #[error("cannot {doing} {}", .path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl WorktreeError {
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}
