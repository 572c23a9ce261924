//! The kinds of damaged and abandoned files in a store. Crashes, other programs and earlier
//! versions of pitcrew cause them.

use std::fs;
use std::path::{Path, PathBuf};

use pitcrew_protocol::TeamDir;

use super::disk::Stamp;

/// One kind of damaged or abandoned file in a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Damage {
    /// A lock (a folder or a file) that was not refreshed for 10 s, so nobody holds it.
    StaleLock {
        /// The path of the lock itself.
        path: PathBuf,
    },
    /// A folder that is not empty. It is a stale lock, or it is at a path where a file must be. Its
    /// content may belong to somebody, so a repair does not change it.
    Occupied {
        /// The path of the folder.
        path: PathBuf,
    },
    /// A file in the task folder that is not a task. It has the name of a task but other content,
    /// or it is a `.json` file of another program that is not valid JSON.
    NoTask {
        /// The path of the file that is not a task.
        path: PathBuf,
    },
    /// A temporary file of a write that did not finish, or the folder of a team whose creation did
    /// not finish.
    Unfinished {
        /// The path of the temporary file or folder.
        path: PathBuf,
    },
    /// An inbox, a task or a document that was read twice and was damaged each time.
    Torn {
        /// The path of the damaged file.
        path: PathBuf,
        /// A description of the fault in the file.
        reason: String,
        /// The state of the file when it was checked. A repair uses this state to detect a later
        /// change.
        seen: FileState,
    },
    /// A log with lines that pitcrew did not write.
    BadLines {
        /// The path of the log.
        path: PathBuf,
        /// The lines that pitcrew did not write.
        lines: Vec<BadLine>,
    },
    /// An archived team whose tasks are still outside the archive.
    HalfArchived {
        /// The archived team.
        team: TeamDir,
        /// The folder of the team's tasks.
        path: PathBuf,
    },
    /// A link at a path where a folder must be. The store does not follow the link.
    Link {
        /// The path of the link.
        path: PathBuf,
    },
    /// An entry that is neither a folder nor a link, at a path where a folder must be.
    NoFolder {
        /// The path of the entry that is not a folder.
        path: PathBuf,
    },
    /// A folder in the folder of all teams that contains no config.
    NoConfig {
        /// The path of the folder without a config.
        path: PathBuf,
    },
    /// A config that is damaged or is not the config of a team. The store does not treat its folder
    /// as a team.
    BadConfig {
        /// The path of the config.
        path: PathBuf,
        /// A description of the fault in the config.
        reason: String,
    },
    /// A file of pitcrew that was written in the format of a later version.
    Newer {
        /// The path of the file in the later format.
        path: PathBuf,
        /// The format version that the file states.
        version: u64,
    },
    /// Files and folders of pitcrew that other users of the machine can access.
    TooOpen {
        /// The team that owns the files, or `None` for pitcrew's own files in the root.
        team: Option<TeamDir>,
        /// The folder that contains the files and folders in `open`.
        path: PathBuf,
        /// The files and folders that other users can access.
        open: Vec<PathBuf>,
    },
    /// A file or folder that could not be checked.
    Unseen {
        /// The path of the file or folder.
        path: PathBuf,
        /// The reason why the file or folder could not be checked.
        reason: String,
    },
}

/// One line in a log, if pitcrew did not write that line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BadLine {
    /// Line number, counted from 1.
    pub number: usize,
    /// The content of the line.
    pub bytes: Vec<u8>,
}

impl Damage {
    /// Returns [`Damage::Torn`] for a damaged file, with the present state of the file.
    #[must_use]
    pub fn torn(path: PathBuf, reason: String) -> Self {
        let seen = FileState::at(&path);
        Self::Torn { path, reason, seen }
    }
}

/// The state of a file when it was checked. Somebody may have written or removed the file since the
/// check. Therefore a repair compares this state with the present state first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileState(Option<Stamp>);

impl FileState {
    pub(super) fn at(path: &Path) -> Self {
        Self(fs::symlink_metadata(path).ok().map(|meta| Stamp::of(&meta)))
    }

    /// Whether the file at `path` exists and is still in this state.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        self.0.is_some() && *self == Self::at(path)
    }
}
