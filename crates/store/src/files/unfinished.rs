//! Finds and removes the temporary files of dead writers.
//!
//! A writer holds a kernel lock on its temporary file until it renames the file. If another process
//! is able to lock a temporary file, its writer is dead. On a file system without such locks, the
//! file stays until the command `doctor` finds it by its age.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::disk::is_absent;
use super::look::{Stands, list};
use super::ours::{FileMeaning, Place, meaning};
use super::plain;

/// Opens a new temporary file and locks it. Returns `None` if another process removed the file
/// before the lock was taken.
pub(crate) fn guard(path: &Path) -> io::Result<Option<File>> {
    // The file is opened for reading only. Closing a file that was opened for writing would make
    // watchers report a change.
    let file = match File::open(path) {
        Err(error) if is_absent(&error) => return Ok(None),
        opened => opened?,
    };
    if let Err(error) = file.lock() {
        tracing::debug!(path = %path.display(), %error, "a temporary file cannot be locked");
    }
    // While this call waited for the lock, another process may have removed the file.
    let is_there = file.metadata()?.nlink() > 0;
    Ok(is_there.then_some(file))
}

/// Removes the temporary files of dead writers in these folders.
pub(crate) fn sweep(folders: &[(PathBuf, Place)]) {
    for (folder, place) in folders {
        let is_temporary = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with('.') && meaning(*place, name) == FileMeaning::Temporary
        };
        // A link may have replaced the folder since an earlier check. Therefore the folder and its
        // parent are checked again.
        if !folder.ancestors().take(2).all(|it| matches!(Stands::at(it), Ok(Stands::Folder))) {
            continue;
        }
        // An error here is ignored: if the folder cannot be listed, a later operation reports the
        // error.
        for path in list(folder).unwrap_or_default().into_iter().filter(is_temporary) {
            if let Err(error) = remove_if_dead(&path)
                && !is_absent(&error)
            {
                tracing::warn!(path = %path.display(), %error, "a temporary file stays behind");
            }
        }
    }
}

fn remove_if_dead(path: &Path) -> io::Result<()> {
    let Ok(file) = plain::open(path) else { return Ok(()) };
    match file.try_lock() {
        Ok(()) => fs::remove_file(path),
        Err(_locked_or_unsupported) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_dead_writers_are_swept() {
        let dir = tempfile::tempdir().unwrap();
        let name = |digit: &str| dir.path().join(format!(".pitcrew-{}.tmp", digit.repeat(32)));
        let (dead, alive, foreign) = (name("a"), name("b"), dir.path().join(".pitcrew-notes.tmp"));
        for path in [&dead, &alive, &foreign] {
            fs::write(path, "half").unwrap();
        }
        let writer = guard(&alive).unwrap().unwrap();
        let folders =
            [(dir.path().to_owned(), Place::Inboxes), (dir.path().join("none"), Place::Tasks)];
        sweep(&folders);
        assert_eq!([&dead, &alive, &foreign].map(|path| path.exists()), [false, true, true]);
        drop(writer);
        sweep(&folders);
        assert!(!alive.exists(), "its writer is dead now");
    }

    #[test]
    fn a_file_that_was_swept_before_it_was_locked_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        assert!(guard(&dir.path().join("swept")).unwrap().is_none());
    }
}
