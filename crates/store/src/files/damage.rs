//! What crashes, other programs and earlier versions left behind, by kind.

use std::fs;
use std::path::{Path, PathBuf};

use pitcrew_protocol::TeamDir;

use super::disk::Stamp;

/// Something left behind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Damage {
    /// A lock, folder or file, whose holder gave no sign for 10 s.
    StaleLock {
        /// The lock itself.
        path: PathBuf,
    },
    /// A stale lock, or a folder where a file should be, with something in it: that is somebody's.
    Occupied {
        /// The lock or folder.
        path: PathBuf,
    },
    /// A file among the tasks that is no task, under a number or torn.
    NoTask {
        /// The file.
        path: PathBuf,
    },
    /// A temporary file of a write that never ended, or the folder of a team that was never whole.
    Unfinished {
        /// The file or folder.
        path: PathBuf,
    },
    /// An inbox, a task or a document that is not whole, also when looked at twice.
    Torn {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// The state in which that was so.
        seen: FileState,
    },
    /// Lines of a log that are none of ours.
    BadLines {
        /// The log.
        path: PathBuf,
        /// The lines.
        lines: Vec<BadLine>,
    },
    /// A team that was moved to the archive without its tasks.
    HalfArchived {
        /// The team.
        team: TeamDir,
        /// The folder of its tasks.
        path: PathBuf,
    },
    /// A link where a folder should be. Nothing behind it is looked at.
    Link {
        /// The link.
        path: PathBuf,
    },
    /// A file, or something else, where a folder should be.
    NoFolder {
        /// What is there.
        path: PathBuf,
    },
    /// A folder among the teams without a config.
    NoConfig {
        /// The folder.
        path: PathBuf,
    },
    /// A config that is not whole, or is none of a team. Its folder is no team's then.
    BadConfig {
        /// The config.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file of ours of a later version.
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u64,
    },
    /// Files and folders of ours that other users of the machine may read or list.
    TooOpen {
        /// The team; without one it is what is ours of the root.
        team: Option<TeamDir>,
        /// The folder in which they are.
        path: PathBuf,
        /// What is too open.
        open: Vec<PathBuf>,
    },
    /// What could not be looked at.
    Unseen {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
}

/// A line of a log that is none of ours.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BadLine {
    /// Its number, from 1 up.
    pub number: usize,
    /// What it holds.
    pub bytes: Vec<u8>,
}

impl Damage {
    /// A file that is not whole as it stands now.
    #[must_use]
    pub fn torn(path: PathBuf, reason: String) -> Self {
        let seen = FileState::at(&path);
        Self::Torn { path, reason, seen }
    }
}

/// The state of a file when it was looked at. It may have been written, or taken away, before a repair comes to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileState(Option<Stamp>);

impl FileState {
    pub(super) fn at(path: &Path) -> Self {
        Self(fs::symlink_metadata(path).ok().map(|meta| Stamp::of(&meta)))
    }

    /// Whether what stands at `path` is still in that state.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        self.0.is_some() && *self == Self::at(path)
    }
}
