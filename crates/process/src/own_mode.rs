//! Sets the permission bits of the files and folders that pitcrew creates below a configuration
//! root. Only the user can read, write or list them, whatever the umask is.
//!
//! Conversations, outputs and settings may contain secrets. A file that another client created
//! keeps its permission bits, even when pitcrew rewrites the file.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

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

/// Returns a folder below the configuration root, which `names` lead to. Creates missing folders.
///
/// # Errors
/// If a folder cannot be created, or if something else is in its place.
pub fn folder_below(root: &Path, names: &[&str]) -> io::Result<PathBuf> {
    create_folders(root)?;
    let mut folder = fs::canonicalize(root)?;
    for name in names {
        folder.push(name);
        make_folder(&folder)?;
    }
    Ok(folder)
}

/// Creates a folder if it does not exist. A symbolic link in its place is an error.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    match create_folder(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    if fs::symlink_metadata(folder)?.is_dir() {
        return Ok(());
    }
    Err(io::Error::other(format!("{}: this is not a folder, but must be one", folder.display())))
}

/// Returns open options that give a newly created file the permission bits `FILE_MODE`.
#[must_use]
pub fn file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE_MODE);
    options
}
