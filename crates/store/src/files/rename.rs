//! Renames that also work on file systems with limited functions. FUSE, NFS and 9p have no rename
//! that refuses to replace an existing entry. Overlayfs is not able to rename a folder of its lower
//! layer.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::own_mode;

/// Moves a folder to a path that must be free.
///
/// If the file system has a rename that refuses to replace, nothing is replaced. Otherwise a plain
/// rename is used, which is atomic too. The operating system refuses it if a file, a link or a
/// folder with content is at the path. It replaces only an *empty folder*, so no team and no data
/// is lost.
///
/// # Errors
/// `EXIST` if the path is not free, and other errors of the operating system.
pub(crate) fn folder_to_free_place(from: &Path, to: &Path) -> Result<(), Errno> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(error) if is_missing(error) => {}
        done => return done,
    }
    match rustix::fs::rename(from, to) {
        // If the path is not free, a plain rename returns one of these errors instead of `EXIST`.
        Err(Errno::NOTEMPTY | Errno::NOTDIR) => Err(Errno::EXIST),
        done => done,
    }
}

/// Moves a lock that was moved aside back to its path, if the path is free.
///
/// On most file systems, the rename fails if another process has taken a new lock at the path. Some
/// file systems have no such rename. On these file systems, the path is checked before the rename.
/// Another process can take a new lock between the check and the rename, and the rename then
/// replaces this new lock. No harm is done: the holder of the new lock checks the path before it
/// writes. It finds that its lock is gone, and starts again.
///
/// # Errors
/// `EXIST` if the path is not free, and other errors of the operating system.
pub(crate) fn lock_to_its_place(from: &Path, to: &Path) -> Result<(), Errno> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(error) if is_missing(error) => {}
        done => return done,
    }
    if fs::symlink_metadata(to).is_ok() {
        return Err(Errno::EXIST);
    }
    rustix::fs::rename(from, to)
}

/// Moves the folder of a team, or the folder of its tasks. A folder in the lower layer of an
/// overlay cannot be renamed. In that case a new folder is created and the entries are moved one by
/// one.
///
/// # Errors
/// The error of the operating system.
pub(crate) fn folder(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        // Overlayfs returns this error for the rename of a folder in its lower layer.
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
        done => return done,
    }
    own_mode::create_folder(to)?;
    // The config is moved first. A folder without a config is not a team, so the team is gone at
    // once, as after a rename of the whole folder.
    let config = from.join("config.json");
    if fs::symlink_metadata(&config).is_ok() {
        fs::rename(&config, to.join("config.json"))?;
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let place = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            folder(&entry.path(), &place)?;
        } else {
            fs::rename(entry.path(), place)?;
        }
    }
    fs::remove_dir(from)
}

/// Whether the error means that the file system does not support the operation.
pub(crate) fn is_missing(error: Errno) -> bool {
    [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP, Errno::NOTSUP].contains(&error)
}
