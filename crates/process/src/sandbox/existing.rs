//! The protected files that existed when a command in the sandbox profile *work* started, and the
//! check that they are still the same.
//!
//! A read-only mount protects each of these files. But the kernel removes a mount when a program
//! outside the sandbox replaces or removes the file, and then the command can write at the path.
//! Therefore pitcrew compares the files with their state from before, after the command has ended.
//! It cannot tell which program wrote a file that was replaced, so it keeps both contents.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::decided::{Decided, digest};
use super::quarantine::Appeared;
use super::uncovered::sift;
use super::way::{Step, Way};
use crate::given_file::contents;
use crate::own_mode;

/// Maximum size of a file whose content is kept, in bytes.
const MOST_BYTES: u64 = 256 << 10;

/// Maximum number of entries of a folder whose content is compared.
const MOST_ENTRIES: usize = 200;

/// Maximum size of all files in a folder whose content is compared, in bytes.
const MOST_BYTES_OF_FOLDER: usize = 1 << 20;

/// The folder beside the records that contains the kept contents.
const CONTENTS: &str = "contents";

/// A protected file or folder that existed when a command started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Existing {
    /// The writable folder that contains the file.
    open: PathBuf,
    /// The path of the file, relative to `open`.
    place: PathBuf,
    device: u64,
    inode: u64,
    /// The time at which the file was made. It tells the file from a later one with the same
    /// number. Not every file system has it.
    born: Option<(u64, u32)>,
    mode: u32,
    /// The digest of the content. `None` if the file or folder is too large.
    sha256: Option<String>,
}

/// The contents of protected files, from before the running commands. The name of each file is the
/// digest of its content.
#[derive(Debug)]
pub(super) struct Contents(PathBuf);

impl Contents {
    /// Returns the contents beside the records in a folder.
    pub(super) fn beside(records: &Path) -> Self {
        Self(records.join(CONTENTS))
    }

    /// Keeps a content, if it is not too large.
    pub(super) fn keep(&self, content: &[u8]) {
        let is_short = u64::try_from(content.len()).is_ok_and(|length| length <= MOST_BYTES);
        if is_short && let Err(problem) = self.try_keep(content) {
            tracing::warn!(%problem, "the content of a protected file is not kept");
        }
    }

    /// Keeps the content of the file at a path, if it is a plain file and not too large.
    pub(super) fn keep_file(&self, path: &Path) {
        if let Some(content) = plain(path) {
            self.keep(&content);
        }
    }

    fn try_keep(&self, content: &[u8]) -> io::Result<()> {
        let path = self.0.join(digest(content));
        if fs::symlink_metadata(&path).is_ok() {
            return Ok(());
        }
        own_mode::create_folders(&self.0)?;
        let part = path.with_extension("part");
        let mut file =
            own_mode::file_options().write(true).create(true).truncate(true).open(&part)?;
        file.write_all(content)?;
        drop(file);
        fs::rename(&part, &path)
    }

    fn get(&self, sha256: &str) -> Option<Vec<u8>> {
        let content = contents(File::open(self.0.join(sha256)).ok()?, MOST_BYTES).ok()?;
        (digest(&content) == sha256).then_some(content)
    }

    /// Removes the contents that no record names any more.
    pub(super) fn keep_only(&self, is_named: impl Fn(&str) -> bool) {
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            if !entry.file_name().to_str().is_some_and(&is_named) {
                let _already_gone = fs::remove_file(entry.path());
            }
        }
        // The folder stays as long as something is in it.
        let _not_empty = fs::remove_dir(&self.0);
    }
}

impl Existing {
    /// Returns the state of the file at a path, and keeps its content in `kept`. Returns `None` if
    /// nothing is there, or if the path is not below the writable folder `open`.
    pub(super) fn at(open: &Path, path: &Path, kept: Option<&Contents>) -> Option<Self> {
        let metadata = fs::symlink_metadata(path).ok()?;
        let content = plain(path);
        if let (Some(kept), Some(content)) = (kept, &content) {
            kept.keep(content);
        }
        Some(Self {
            open: open.to_path_buf(),
            place: path.strip_prefix(open).ok()?.to_path_buf(),
            device: metadata.dev(),
            inode: metadata.ino(),
            born: born(&metadata),
            mode: metadata.mode() & 0o7777,
            sha256: content
                .map_or_else(|| digest_of_folder(path), |content| Some(digest(&content))),
        })
    }

    pub(super) fn path(&self) -> PathBuf {
        self.open.join(&self.place)
    }

    /// Returns the digest of the content from before.
    pub(super) fn sha256(&self) -> Option<&str> {
        self.sha256.as_deref()
    }

    /// Returns true if a change of the file at the path changes this file or folder.
    pub(super) fn has(&self, file: &Path) -> bool {
        let path = self.path();
        file.starts_with(&path) || path.starts_with(file)
    }

    /// Returns true if the file may have been changed by a command. This function changes nothing.
    pub(super) fn is_changed(&self, decided: &Decided) -> bool {
        let path = self.path();
        let Ok(metadata) = fs::symlink_metadata(&path) else { return false };
        !self.is_same(&metadata)
            && match decided.holds(&path, || opened(&path)) {
                Some(is_decided) => !is_decided,
                None => !self.has_same_content(&path),
            }
    }

    /// Puts the content from before at the path, if the file was replaced by one with a content that
    /// nobody decided. The new file gets a quarantine name.
    pub(super) fn restore(&self, decided: &Decided, kept: &Contents) -> Appeared {
        let mut appeared = Appeared::default();
        if let Err(problem) = self.put_back(decided, kept, &mut appeared) {
            appeared.note_left(&self.path(), &problem);
        }
        appeared
    }

    fn put_back(
        &self,
        decided: &Decided,
        kept: &Contents,
        appeared: &mut Appeared,
    ) -> io::Result<()> {
        let Some(mut way) = Way::from(&self.open)? else { return Ok(()) };
        let (Some(folder), Some(name)) = (self.place.parent(), self.place.file_name()) else {
            return Ok(());
        };
        let mut at = self.open.clone();
        for name in folder.iter() {
            match way.step(name)? {
                Step::Folder => at.push(name),
                // A link would lead programs to another file at the path.
                Step::Other => return sift(&mut way, &at, name, decided, appeared),
                Step::Nothing => return Ok(()),
            }
        }
        let Some(metadata) = way.metadata(name)? else { return Ok(()) };
        if self.is_same(&metadata) {
            return Ok(());
        }
        let path = at.join(name);
        match decided.holds(&path, || way.file(name)) {
            Some(true) => return Ok(()),
            Some(false) => {}
            None if self.has_same_content(&path) => return Ok(()),
            None if decided.is_inside(&path) => {
                return sift(&mut way, &at, name, decided, appeared);
            }
            None => {}
        }
        let aside = way.rename(&at, name)?;
        // If a person decided the content meanwhile, that content is the one from before.
        let sha256 = decided.digest_of(&path).or(self.sha256.as_deref());
        let content = sha256.and_then(|sha256| kept.get(sha256));
        appeared.note_replaced(&path, &aside, content.is_some());
        let Some(content) = content else { return Ok(()) };
        let mut file = way.create(name)?;
        file.write_all(&content)?;
        file.set_permissions(Permissions::from_mode(self.mode))
    }

    /// Returns true if this is the file from before. Then no other program replaced it, so the mount
    /// protected it. If the file system does not know when files were made, a file of the same
    /// number may be a later one, and the content decides if it is known.
    fn is_same(&self, metadata: &Metadata) -> bool {
        let is_certain = self.born.is_some() || self.sha256.is_none() || metadata.is_dir();
        is_certain
            && (self.device, self.inode, self.born)
                == (metadata.dev(), metadata.ino(), born(metadata))
    }

    fn has_same_content(&self, path: &Path) -> bool {
        let now = plain(path).map(|content| digest(&content)).or_else(|| digest_of_folder(path));
        now.is_some() && now == self.sha256
    }
}

fn born(metadata: &Metadata) -> Option<(u64, u32)> {
    let born = metadata.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some((born.as_secs(), born.subsec_nanos()))
}

/// Opens the file at a path, if it is a plain file.
fn opened(path: &Path) -> Option<File> {
    let (folder, name) = (path.parent()?, path.file_name()?);
    Way::from(folder).ok()??.file(name)
}

/// Returns the content of a plain file that is not too large.
fn plain(path: &Path) -> Option<Vec<u8>> {
    contents(opened(path)?, MOST_BYTES).ok()
}

/// Returns a digest of the names, kinds, modes and contents of everything in a folder. Returns
/// `None` if something cannot be read, or if it is too much.
fn digest_of_folder(folder: &Path) -> Option<String> {
    let is_folder = fs::symlink_metadata(folder).ok()?.is_dir();
    let mut todo = is_folder.then(|| folder.to_path_buf()).into_iter().collect::<Vec<_>>();
    let mut all = Sha256::new();
    let mut count = 0;
    let mut bytes = 0;
    while let Some(folder) = todo.pop() {
        let mut entries: Vec<PathBuf> = fs::read_dir(folder)
            .ok()?
            .map(|entry| entry.map(|it| it.path()))
            .collect::<Result<_, _>>()
            .ok()?;
        entries.sort();
        count += entries.len();
        if count > MOST_ENTRIES {
            return None;
        }
        for path in entries {
            let metadata = fs::symlink_metadata(&path).ok()?;
            let content = if metadata.is_dir() {
                Vec::new()
            } else if metadata.is_symlink() {
                fs::read_link(&path).ok()?.as_os_str().as_bytes().to_vec()
            } else {
                plain(&path)?
            };
            bytes += content.len();
            if bytes > MOST_BYTES_OF_FOLDER {
                return None;
            }
            let name = digest(path.file_name()?.as_bytes());
            all.update(format!("{name} {:o} {} ", metadata.mode(), digest(&content)));
            if metadata.is_dir() {
                todo.push(path);
            }
        }
        all.update("\n");
    }
    is_folder.then(|| all.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
