//! The modes of files and folders that pitcrew creates below a root. Only the user is able to read,
//! write or list them. The umask does not matter.
//!
//! The reason is that conversations, outputs and settings can contain secrets. If another client
//! created a file, the file keeps its mode, even when pitcrew rewrites it.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The mode of a folder that pitcrew creates.
pub const FOLDER_MODE: u32 = 0o700;

/// The mode of a file that pitcrew creates.
pub const FILE_MODE: u32 = 0o600;

/// Mode bits that give any access to other users.
pub(crate) const OF_OTHERS: u32 = 0o077;

/// Creates one folder. Its parent folder must exist.
///
/// # Errors
/// The errors of [`std::fs::create_dir`].
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(FOLDER_MODE).create(path)
}

/// Creates a folder and its missing parent folders. A folder that already exists keeps its mode.
///
/// # Errors
/// The errors of [`std::fs::create_dir_all`].
pub fn create_folders(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(FOLDER_MODE).recursive(true).create(path)
}

/// Returns options for opening a file. If the open creates a file, the file gets the mode
/// [`FILE_MODE`].
#[must_use]
pub fn file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE_MODE);
    options
}
