//! The files at protected places whose content a person decided while sandboxed commands ran: the
//! commands did not make them, so they stay.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::given_file::read_plain;

/// Maximum number of files that one command decides.
const MOST_FILES: usize = 1000;

/// Maximum size of a file that a command decides, in bytes.
const MOST_BYTES: u64 = 16 << 20;

/// The files whose content a person decided, in the order of the decisions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Decided {
    files: Vec<DecidedFile>,
    /// Files and folders that a running command changes because a person or a rule allowed it.
    /// Their content is not known before this command has ended.
    #[serde(skip)]
    pending: Vec<PathBuf>,
}

/// A file whose content a person decided. A command that started before the decision can change the
/// file, because no mount covers it. Therefore the content is recorded too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct DecidedFile {
    path: PathBuf,
    bytes: u64,
    sha256: String,
}

impl Decided {
    /// Creates the record of one decision.
    pub(super) fn one(path: &Path, content: &[u8]) -> Self {
        let file = DecidedFile {
            path: path.to_owned(),
            bytes: u64::try_from(content.len()).unwrap_or(u64::MAX),
            sha256: digest(content),
        };
        Self { files: vec![file], pending: Vec::new() }
    }

    /// Returns the decisions about the plain files at a path and below it, as they are now.
    pub(super) fn found_at(path: &Path) -> Self {
        let mut found = Self::default();
        let mut todo = vec![path.to_owned()];
        while let Some(path) = todo.pop() {
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if metadata.is_dir() {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                todo.extend(entries.map(|entry| entry.path()));
            } else if found.files.len() < MOST_FILES
                && let Ok(content) = read_plain(&path, MOST_BYTES)
            {
                found.add(&Self::one(&path, content.as_bytes()));
            }
        }
        found
    }

    /// Adds the files and folders that running commands are allowed to change.
    #[must_use]
    pub(super) fn with_pending(self, pending: Vec<PathBuf>) -> Self {
        Self { pending, ..self }
    }

    /// Adds later decisions. A later decision about a file replaces an earlier one.
    pub(super) fn add(&mut self, later: &Self) {
        self.files.retain(|file| later.files.iter().all(|it| it.path != file.path));
        self.files.extend(later.files.iter().cloned());
    }

    /// Returns true if the file at the path has the content that a person decided, and false if it
    /// has another content. Returns `None` if nobody decided anything about the path. `open` opens
    /// the file if it is a plain file.
    pub(super) fn holds(&self, path: &Path, open: impl FnOnce() -> Option<File>) -> Option<bool> {
        if self.pending.iter().any(|pending| path.starts_with(pending)) {
            return Some(true);
        }
        let decided = self.files.iter().find(|file| file.path == path)?;
        Some(open().is_some_and(|file| decided.is_content_of(file)))
    }

    /// Returns the digest of the content that a person decided for the file at the path.
    pub(super) fn digest_of(&self, path: &Path) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.sha256.as_str())
    }

    /// Returns the files whose content a person decided.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    /// Returns true if the content with this digest is that of a decision.
    pub(super) fn names(&self, sha256: &str) -> bool {
        self.files.iter().any(|file| file.sha256 == sha256)
    }

    /// Returns true if a person decided the content of a file inside the folder.
    pub(super) fn is_inside(&self, folder: &Path) -> bool {
        let mut paths = self.files.iter().map(|file| &file.path).chain(&self.pending);
        paths.any(|path| path != folder && path.starts_with(folder))
    }

    /// Returns the path if nobody decided what is there. If somebody decided the content of files
    /// inside it, returns the paths of everything else in it.
    pub(super) fn others_at(&self, path: PathBuf) -> Vec<PathBuf> {
        let mut others = Vec::new();
        let mut todo = vec![path];
        while let Some(path) = todo.pop() {
            let plain = || {
                let is_plain = fs::symlink_metadata(&path).is_ok_and(|it| it.is_file());
                File::open(&path).ok().filter(|_| is_plain)
            };
            match self.holds(&path, plain) {
                Some(true) => {}
                None if self.is_inside(&path) && path.is_dir() && !path.is_symlink() => {
                    let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                    todo.extend(entries.map(|entry| entry.path()));
                }
                Some(false) | None => others.push(path),
            }
        }
        others
    }
}

impl DecidedFile {
    fn is_content_of(&self, file: File) -> bool {
        // If the file has a second name, a later command could change it under that name, where no
        // mount covers it.
        let is_same_size =
            file.metadata().is_ok_and(|it| it.len() == self.bytes && it.nlink() == 1);
        let mut content = Vec::new();
        is_same_size
            && file.take(self.bytes.saturating_add(1)).read_to_end(&mut content).is_ok()
            && digest(&content) == self.sha256
    }
}

pub(super) fn digest(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}
