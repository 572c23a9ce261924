//! The modes of what we create below a root: only its user reads, writes or lists it, whatever the umask is.
//!
//! Conversations, outputs and settings may hold secrets. What another client created keeps the mode it has: a rewrite
//! carries it over.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The mode of a folder that we create.
pub const FOLDER_MODE: u32 = 0o700;

/// The mode of a file that we create.
pub const FILE_MODE: u32 = 0o600;

/// Creates one folder, whose parent must exist.
///
/// # Errors
/// As [`std::fs::create_dir`].
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(FOLDER_MODE).create(path)
}

/// Creates a folder and the missing ones above it. A folder that exists keeps its mode.
///
/// # Errors
/// As [`std::fs::create_dir_all`].
pub fn create_folders(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(FOLDER_MODE).recursive(true).create(path)
}

/// Options that give a file our mode where they create it.
#[must_use]
pub fn file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE_MODE);
    options
}
