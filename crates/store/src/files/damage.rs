//! The kinds of damage and remains that crashes, other programs and earlier versions leave in a
//! store.

use std::fs;
use std::path::{Path, PathBuf};

use pitcrew_protocol::TeamDir;

use super::disk::Stamp;

/// One kind of damage or remains in a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Damage {
    /// A lock (folder or file) that its holder has not refreshed for 10 s.
    StaleLock {
        /// The lock itself.
        path: PathBuf,
    },
    /// A stale lock, or a folder at the path of a file, that contains something. Its content may
    /// belong to somebody.
    Occupied {
        /// The lock or folder.
        path: PathBuf,
    },
    /// A file in the task folder that is no task: it has a task's name but other content, or it is
    /// damaged.
    NoTask {
        /// The file.
        path: PathBuf,
    },
    /// A temporary file of an unfinished write, or the folder of a team whose creation did not
    /// finish.
    Unfinished {
        /// The file or folder.
        path: PathBuf,
    },
    /// An inbox, a task or a document that is damaged in two reads.
    Torn {
        /// The file.
        path: PathBuf,
        /// The fault in the file.
        reason: String,
        /// The state of the file at the time of the two reads.
        seen: FileState,
    },
    /// Lines of a log that pitcrew did not write.
    BadLines {
        /// The log.
        path: PathBuf,
        /// The lines.
        lines: Vec<BadLine>,
    },
    /// An archived team whose tasks were not archived with it.
    HalfArchived {
        /// The team.
        team: TeamDir,
        /// The folder of its tasks.
        path: PathBuf,
    },
    /// A link at the path of a folder. It is not followed.
    Link {
        /// The link.
        path: PathBuf,
    },
    /// A file, or another kind of entry, at the path of a folder.
    NoFolder {
        /// The path of the entry that is there.
        path: PathBuf,
    },
    /// A folder among the teams that has no config.
    NoConfig {
        /// The folder.
        path: PathBuf,
    },
    /// A config that is damaged or belongs to no team. Its folder then does not count as a team.
    BadConfig {
        /// The team's config.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file of pitcrew in a format of a later version.
    Newer {
        /// The file.
        path: PathBuf,
        /// The format version of the file.
        version: u64,
    },
    /// Files and folders of pitcrew that other users of the machine can read or list.
    TooOpen {
        /// The team, or `None` for pitcrew's own files in the root.
        team: Option<TeamDir>,
        /// The folder that contains these files and folders.
        path: PathBuf,
        /// The files and folders that other users can access.
        open: Vec<PathBuf>,
    },
    /// A file or folder that could not be checked.
    Unseen {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// A line of a log that pitcrew did not write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BadLine {
    /// Line number, counted from 1.
    pub number: usize,
    /// The content of the line.
    pub bytes: Vec<u8>,
}

impl Damage {
    /// Returns the damage of a torn file, together with the present state of the file.
    #[must_use]
    pub fn torn(path: PathBuf, reason: String) -> Self {
        let seen = FileState::at(&path);
        Self::Torn { path, reason, seen }
    }
}

/// The state of a file when it was checked. A repair compares this state with the present one,
/// because the file may have been written or removed since the check.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileState(Option<Stamp>);

impl FileState {
    pub(super) fn at(path: &Path) -> Self {
        Self(fs::symlink_metadata(path).ok().map(|meta| Stamp::of(&meta)))
    }

    /// Whether the file at `path` is still in this state.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        self.0.is_some() && *self == Self::at(path)
    }
}
