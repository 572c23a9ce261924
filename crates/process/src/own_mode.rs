//! Sets the permission bits of the files and folders that pitcrew creates below a configuration
//! root. Only the user can read, write or list them, whatever the umask is.
//!
//! Conversations, outputs and settings may contain secrets. A file that another client created
//! keeps its permission bits, even when pitcrew rewrites the file.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The permission bits of a folder that pitcrew creates.
pub const FOLDER_MODE: u32 = 0o700;

/// The permission bits of a file that pitcrew creates.
pub const FILE_MODE: u32 = 0o600;

/// Creates one folder. Its parent folder must exist.
///
/// # Errors
/// The errors of [`std::fs::create_dir`].
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(FOLDER_MODE).create(path)
}

/// Creates a folder and its missing parent folders, all with the permission bits `FOLDER_MODE`. A
/// folder that already exists keeps its permission bits.
///
/// # Errors
/// The errors of [`std::fs::create_dir_all`].
pub fn create_folders(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(FOLDER_MODE).recursive(true).create(path)
}

/// Returns open options that give a newly created file the permission bits `FILE_MODE`.
#[must_use]
pub fn file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE_MODE);
    options
}
