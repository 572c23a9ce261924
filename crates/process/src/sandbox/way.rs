//! Opens the folders on the way to a protected place, and gives files a quarantine name.
//!
//! Each folder is opened relative to its parent folder and never through a symbolic link, because
//! other commands may run meanwhile. A folder without permissions gets them for as long as they are
//! needed.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, fstat, openat, renameat, statat};
use rustix::io::Errno;

use crate::own_mode::FILE_MODE;

/// A part of the new name of a renamed file. It marks the file as quarantined.
const MARK: &str = ".quarantined-";

/// The number of letters after the mark.
const UNIQUE_LETTERS: usize = 8;

/// Mode bits that allow the user to list, change and enter a folder.
const ALL_OF_USER: u32 = 0o700;

/// Maximum length of the name of an entry, in bytes. Linux file systems have this limit.
const LONGEST_NAME: usize = 255;

/// Returns a new quarantine name for an entry. If the name would be too long, its end is cut off.
fn quarantine_name(name: &str) -> String {
    let unique = uuid::Uuid::new_v4().simple().to_string();
    let longest = LONGEST_NAME - MARK.len() - UNIQUE_LETTERS;
    let end = (0..=longest.min(name.len())).rev().find(|end| name.is_char_boundary(*end));
    let name = end.and_then(|end| name.get(..end)).unwrap_or_default();
    format!("{name}{MARK}{}", unique.get(..UNIQUE_LETTERS).unwrap_or(&unique))
}

/// Returns true if an entry has a quarantine name.
pub(super) fn is_quarantined(name: &str) -> bool {
    name.rsplit_once(MARK).is_some_and(|(_, unique)| {
        unique.len() == UNIQUE_LETTERS && unique.bytes().all(|it| it.is_ascii_hexdigit())
    })
}

/// The kind of entry that a folder has under a certain name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Folder,
    Other,
    Nothing,
}

/// A folder that is reached step by step from a writable folder. Dropping this value restores the
/// original permissions of the folders on the way.
pub(super) struct Way {
    folder: OwnedFd,
    lent: Vec<(OwnedFd, u32)>,
}

impl Way {
    const FLAGS: OFlags =
        OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

    /// Opens the writable folder `open`, from which other folders are reached. Returns `None` if
    /// the folder was removed meanwhile.
    pub(super) fn from(open: &Path) -> io::Result<Option<Self>> {
        match openat(CWD, open, Self::FLAGS, Mode::empty()) {
            Ok(folder) => Ok(Some(Self { folder, lent: Vec::new() })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Enters the subfolder `name` of the current folder. If `name` is not a folder, stays in the
    /// current folder and returns what `name` is.
    pub(super) fn step(&mut self, name: &OsStr) -> io::Result<Step> {
        match self.with_rights(|folder| openat(folder, name, Self::FLAGS, Mode::empty())) {
            Ok(next) => {
                self.folder = next;
                Ok(Step::Folder)
            }
            Err(Errno::NOENT) => Ok(Step::Nothing),
            Err(Errno::NOTDIR | Errno::LOOP) => Ok(Step::Other),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn has(&mut self, name: &OsStr) -> io::Result<bool> {
        match self.with_rights(|folder| statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the metadata of the entry `name` of the current folder. Does not follow a link.
    pub(super) fn metadata(&mut self, name: &OsStr) -> io::Result<Option<Metadata>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match self.with_rights(|folder| openat(folder, name, flags, Mode::empty())) {
            Ok(entry) => File::from(entry).metadata().map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates the file `name` in the current folder. Only the user can read it.
    pub(super) fn create(&mut self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(FILE_MODE);
        Ok(File::from(self.with_rights(|folder| openat(folder, name, flags, mode))?))
    }

    /// Gives the entry `name` of the current folder a quarantine name. `at` is the path of the
    /// current folder. Returns the new path of the entry.
    pub(super) fn rename(&mut self, at: &Path, name: &OsStr) -> io::Result<PathBuf> {
        let aside = quarantine_name(&name.to_string_lossy());
        self.with_rights(|folder| renameat(folder, name, folder, aside.as_str()))?;
        Ok(at.join(aside))
    }

    /// Moves the entry `name` of the current folder into the folder `target`, with a quarantine name
    /// that begins with `label`. Returns the new name.
    pub(super) fn move_to(
        &mut self,
        name: &OsStr,
        target: &mut Self,
        label: &str,
    ) -> io::Result<String> {
        let aside = quarantine_name(label);
        let moved =
            self.with_rights(|folder| renameat(folder, name, &target.folder, aside.as_str()));
        match moved {
            // The folder that gets the entry may have lost its permissions too.
            Err(Errno::ACCESS | Errno::PERM) => {
                let from = &self.folder;
                target.with_rights(|folder| renameat(from, name, folder, aside.as_str()))?;
            }
            done => done?,
        }
        Ok(aside)
    }

    /// Returns a second way at the same folder.
    pub(super) fn fork(&self) -> io::Result<Self> {
        Ok(Self { folder: self.folder.try_clone()?, lent: Vec::new() })
    }

    /// Returns the names of the entries of the current folder.
    pub(super) fn names(&mut self) -> io::Result<Vec<OsString>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listed = self.with_rights(|folder| openat(folder, c".", flags, Mode::empty()))?;
        let names =
            Dir::read_from(&listed)?.flatten().map(|entry| entry.file_name().to_bytes().to_vec());
        let is_own = |name: &Vec<u8>| name.as_slice() != b"." && name.as_slice() != b"..";
        Ok(names.filter(is_own).map(OsString::from_vec).collect())
    }

    /// Opens the plain file `name` of the current folder, without waiting. Returns `None` if it is
    /// something else or cannot be read.
    pub(super) fn file(&self, name: &OsStr) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.folder, name, flags, Mode::empty()).ok()?);
        file.metadata().is_ok_and(|metadata| metadata.is_file()).then_some(file)
    }

    /// Runs `work` in the current folder. If the system denies permission, gives the user all
    /// permissions for the folder and runs `work` again.
    pub(super) fn with_rights<T>(
        &mut self,
        work: impl Fn(BorrowedFd<'_>) -> rustix::io::Result<T>,
    ) -> rustix::io::Result<T> {
        match work(self.folder.as_fd()) {
            Err(Errno::ACCESS | Errno::PERM) => {}
            done => return done,
        }
        let mode = fstat(&self.folder)?.st_mode & 0o7777;
        if set_mode(&self.folder, mode | ALL_OF_USER).is_ok()
            && let Ok(folder) = self.folder.try_clone()
        {
            // Store the folder with its original mode. The mode is restored on drop.
            self.lent.push((folder, mode));
        }
        work(self.folder.as_fd())
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        while let Some((folder, mode)) = self.lent.pop() {
            if let Err(problem) = set_mode(&folder, mode) {
                tracing::warn!(%problem, "a folder keeps the rights that were given to it");
            }
        }
    }
}

/// Sets the permission bits of a folder that was opened with `O_PATH`. `fchmod` does not accept
/// such a descriptor, so this function uses the descriptor's path in `/proc`.
fn set_mode(folder: &OwnedFd, mode: u32) -> io::Result<()> {
    fs::set_permissions(
        format!("/proc/self/fd/{}", folder.as_raw_fd()),
        Permissions::from_mode(mode),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarantine_name_is_never_too_long_and_is_cut_between_characters() {
        for name in ["a".repeat(255), "\u{e9}".repeat(127), "\u{20ac}".repeat(85), "a".to_owned()] {
            let aside = quarantine_name(&name);
            assert!(aside.len() <= LONGEST_NAME && is_quarantined(&aside), "{aside}");
            let kept = aside.split(MARK).next().unwrap();
            assert!(name.starts_with(kept) && name.len() - kept.len() < 25, "{aside}");
        }
    }
}
