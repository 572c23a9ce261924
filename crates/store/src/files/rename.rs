//! Renames that also work on limited file systems. FUSE, NFS and 9p have no rename that refuses to
//! replace, and overlayfs cannot rename a folder of its lower layer.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::own_mode;

/// Moves a folder to a path that must be free.
///
/// If the file system supports it, the rename replaces nothing at all. Otherwise a plain rename can
/// replace an *empty folder* at the path. It is atomic too, and the operating system refuses it for
/// a file, a link, and a folder with content. So a team is never replaced, and replacing an empty
/// folder loses nothing.
///
/// # Errors
/// `EXIST` if the path is not free, and other errors of the operating system.
pub(crate) fn folder_to_free_place(from: &Path, to: &Path) -> Result<(), Errno> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(error) if is_missing(error) => {}
        done => return done,
    }
    match rustix::fs::rename(from, to) {
        // A plain rename reports a path that is not free with other error codes.
        Err(Errno::NOTEMPTY | Errno::NOTDIR) => Err(Errno::EXIST),
        done => done,
    }
}

/// Moves a lock that was set aside back to its path, if that is free.
///
/// Without a rename that refuses to replace, a lock that is taken between the check and the rename
/// is replaced. Its holder notices another lock at the path before it writes, and takes the lock
/// again.
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

/// Moves the folder of a team or of tasks. If it cannot be renamed as a whole (lower layer of an
/// overlay), its entries are moved one by one. The config goes first, because without it there is
/// no team, as after a rename.
///
/// # Errors
/// The error of the operating system.
pub(crate) fn folder(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        // An overlay reports this error for a folder of its lower layer.
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
        done => return done,
    }
    own_mode::create_folder(to)?;
    // The config goes first: without it there is no team, as after a rename of the whole folder.
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
