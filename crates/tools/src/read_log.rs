//! Records which files an agent has read. An agent is not allowed to overwrite content that it has
//! not seen.
//!
//! Within one process, [`PathLocks`] ensures that no other agent changes the file between the check
//! and the rename. There is no such protection against other processes.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pitcrew_agent::FileSeen;
use sha2::{Digest, Sha256};

use super::files::FileError;

/// The number of locks, and therefore the maximum number of files that can be changed at the same
/// time. The number is fixed, so that the table of locks never grows. Two paths can share a lock,
/// which only costs time.
const STRIPES: usize = 64;

/// Locks for changing files. All agents of one process share them. A clone has the same locks, and
/// cloning is cheap.
#[derive(Debug, Clone)]
pub struct PathLocks {
    stripes: Arc<[Mutex<()>; STRIPES]>,
}

impl PathLocks {
    /// Creates the locks of a process. Every agent of the process must get a clone of this value.
    pub fn new() -> Self {
        Self { stripes: Arc::new(std::array::from_fn(|_| Mutex::new(()))) }
    }

    fn take_turn(&self, path: &Path) -> Option<MutexGuard<'_, ()>> {
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        let stripe = usize::try_from(hasher.finish() % STRIPES as u64).ok()?;
        let lock = self.stripes.get(stripe)?;
        Some(lock.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Default for PathLocks {
    fn default() -> Self {
        Self::new()
    }
}

/// The files that one agent has read or written. For each file, the log contains a hash of the
/// content that the agent knows. Clones share the same log.
#[derive(Debug, Clone)]
pub struct ReadLog {
    /// The hashes of the known files. The lock is held only while a hash is read or recorded, never
    /// while a file is accessed.
    stamps: Arc<Mutex<Stamps>>,
    locks: PathLocks,
}

#[derive(Debug, Default)]
struct Stamps {
    by_path: HashMap<PathBuf, Stamp>,
    news: Vec<PathBuf>,
}

/// The hash of a file's content at one moment. The time of the last change is not used instead. Two
/// writes within one clock tick of the file system have the same time, and a new time does not mean
/// new content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    sha256: [u8; 32],
}

impl Stamp {
    pub(super) fn of(content: &[u8]) -> Self {
        Self::from_hasher(Sha256::new_with_prefix(content))
    }

    pub(super) fn from_hasher(hasher: Sha256) -> Self {
        Self { sha256: hasher.finalize().into() }
    }

    fn to_hex(self) -> String {
        self.sha256.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn from_hex(hex: &str) -> Option<Self> {
        let digits = hex
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        let sha256 = digits.collect::<Option<Vec<u8>>>()?.try_into().ok()?;
        Some(Self { sha256 })
    }
}

impl ReadLog {
    /// Creates the log of an agent that has not read any file yet.
    pub fn new(locks: PathLocks) -> Self {
        Self { stamps: Arc::default(), locks }
    }

    pub(super) fn note(&self, path: PathBuf, stamp: Stamp) {
        let mut stamps = self.stamps();
        stamps.by_path.insert(path.clone(), stamp);
        stamps.news.push(path);
    }

    /// Records the content of a file that this agent has written.
    pub fn note_content(&self, path: PathBuf, content: &[u8]) {
        self.note(path, Stamp::of(content));
    }

    /// Returns the files that were recorded since the last call of this method. Each entry has a
    /// hash of the content that the agent knows.
    pub fn take_news(&self) -> Vec<FileSeen> {
        let mut stamps = self.stamps();
        let news = std::mem::take(&mut stamps.news);
        let seen = |path: PathBuf| {
            let sha256 = stamps.by_path.get(&path)?.to_hex();
            Some(FileSeen { path, sha256 })
        };
        news.into_iter().filter_map(seen).collect()
    }

    /// Restores an entry from an earlier run of this agent. If the hash in the entry is invalid,
    /// the entry is ignored, and the file counts as not read.
    pub fn restore(&self, seen: &FileSeen) {
        if let Some(stamp) = Stamp::from_hex(&seen.sha256) {
            self.stamps().by_path.insert(seen.path.clone(), stamp);
        }
    }

    /// Checks that this agent last read or wrote exactly `content`, which is the current content of
    /// the file.
    pub(super) fn check(&self, path: &Path, content: &[u8]) -> Result<(), FileError> {
        match self.stamps().by_path.get(path) {
            None => Err(FileError::NotRead { path: path.to_owned() }),
            Some(seen) if *seen != Stamp::of(content) => {
                Err(FileError::Changed { path: path.to_owned() })
            }
            Some(_) => Ok(()),
        }
    }

    /// Waits until no other agent of this process is changing the file. Returns a guard that keeps
    /// the file locked.
    pub(super) fn take_turn(&self, path: &Path) -> Option<MutexGuard<'_, ()>> {
        self.locks.take_turn(path)
    }

    fn stamps(&self) -> MutexGuard<'_, Stamps> {
        self.stamps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
