//! What an agent has read, so that it never overwrites what it has not seen.
//!
//! Between processes a check and the rename after it cannot be made one step; between the agents of
//! one process they are, by [`PathLocks`].

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pitcrew_agent::FileSeen;
use sha2::{Digest, Sha256};

use super::files::FileError;

/// How many files can be changed at the same moment. Two paths may share a lock, which only costs
/// time, so that the table never grows.
const STRIPES: usize = 64;

/// The turns of those who change files, one process wide. Cheap to clone; clones are the same turns.
#[derive(Debug, Clone)]
pub struct PathLocks {
    stripes: Arc<[Mutex<()>; STRIPES]>,
}

impl PathLocks {
    /// Makes the locks of a process; every agent of it must be given a clone.
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

/// The files one agent has read or written, as it last saw them. Clones are the same log.
#[derive(Debug, Clone)]
pub struct ReadLog {
    /// Held for a look-up only, never while a file is touched.
    stamps: Arc<Mutex<Stamps>>,
    locks: PathLocks,
}

#[derive(Debug, Default)]
struct Stamps {
    by_path: HashMap<PathBuf, Stamp>,
    news: Vec<PathBuf>,
}

/// A file's content at one moment. Its hash alone decides: two writes within one tick of the file
/// system's clock leave the same time, and a touched file is not a changed one.
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
    /// Starts the log of an agent that has read nothing yet.
    pub fn new(locks: PathLocks) -> Self {
        Self { stamps: Arc::default(), locks }
    }

    pub(super) fn note(&self, path: PathBuf, stamp: Stamp) {
        let mut stamps = self.stamps();
        stamps.by_path.insert(path.clone(), stamp);
        stamps.news.push(path);
    }

    /// Notes what a file holds that this agent is known to have written.
    pub fn note_content(&self, path: PathBuf, content: &[u8]) {
        self.note(path, Stamp::of(content));
    }

    /// The files that were noted since this was asked last, as they are known now.
    pub fn take_news(&self) -> Vec<FileSeen> {
        let mut stamps = self.stamps();
        let news = std::mem::take(&mut stamps.news);
        let seen = |path: PathBuf| {
            let sha256 = stamps.by_path.get(&path)?.to_hex();
            Some(FileSeen { path, sha256 })
        };
        news.into_iter().filter_map(seen).collect()
    }

    /// Takes over what an earlier run of this agent has seen. A hash that is none is passed over: then the file counts as
    /// not read.
    pub fn restore(&self, seen: &FileSeen) {
        if let Some(stamp) = Stamp::from_hex(&seen.sha256) {
            self.stamps().by_path.insert(seen.path.clone(), stamp);
        }
    }

    /// Makes sure that `content`, what the file holds now, is what this agent saw last.
    pub(super) fn check(&self, path: &Path, content: &[u8]) -> Result<(), FileError> {
        match self.stamps().by_path.get(path) {
            None => Err(FileError::NotRead { path: path.to_owned() }),
            Some(seen) if *seen != Stamp::of(content) => {
                Err(FileError::Changed { path: path.to_owned() })
            }
            Some(_) => Ok(()),
        }
    }

    /// Waits until nobody else of this process is changing the file.
    pub(super) fn take_turn(&self, path: &Path) -> Option<MutexGuard<'_, ()>> {
        self.locks.take_turn(path)
    }

    fn stamps(&self) -> MutexGuard<'_, Stamps> {
        self.stamps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
