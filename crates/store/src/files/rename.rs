//! Renames, also on file systems that lack some: FUSE, NFS and 9p know no rename that replaces nothing, and an overlay
//! renames no folder of its lower layer.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::own_mode;

/// Moves a folder to a place where nothing is.
///
/// Where the file system offers it nothing at all is replaced. Elsewhere an *empty folder* at the place is: a plain rename
/// of a folder is atomic as well, and the system refuses it for a file, a link, and a folder that holds anything. So a team
/// is never replaced, and an empty folder loses nothing.
///
/// # Errors
/// `EXIST` when something is there, and what else the system said.
pub(crate) fn folder_to_free_place(from: &Path, to: &Path) -> Result<(), Errno> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(error) if is_missing(error) => {}
        done => return done,
    }
    match rustix::fs::rename(from, to) {
        Err(Errno::NOTEMPTY | Errno::NOTDIR) => Err(Errno::EXIST),
        done => done,
    }
}

/// Puts a lock that was moved aside back to its place, unless something is there.
///
/// Where no rename replaces nothing, a lock that is taken in the moment between the look and the rename is replaced. Its
/// holder finds another lock in its place before it writes, and takes the lock again.
///
/// # Errors
/// `EXIST` when something is there, and what else the system said.
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

/// Moves the folder of a team, or of tasks. Where it cannot be renamed as a whole (the lower layer of an overlay) its
/// entries are, one by one, the config first: from then on there is no team, as after a rename.
///
/// # Errors
/// What the system said.
pub(crate) fn folder(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
        done => return done,
    }
    own_mode::create_folder(to)?;
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

/// Whether the file system says that it knows no such thing.
pub(crate) fn is_missing(error: Errno) -> bool {
    [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP, Errno::NOTSUP].contains(&error)
}
