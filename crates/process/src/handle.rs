//! Opens files and folders by their resolved paths, and fails if any part of the path is a symbolic
//! link.
//!
//! A caller resolves and checks a path, and opens the file a moment later. In between, a running
//! command can replace a folder on the path by a symbolic link. This module opens exactly the
//! checked file or returns an error, and does not open the target of the link. The only exception
//! is [`Folder::file_behind`], which follows links. Each file is opened relative to the descriptor
//! of its folder. No function of this module waits for a FIFO or opens a device.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

/// Flags to open the folders on the path to a file. On Linux and Android, because of the flag
/// `OFlags::PATH`, the process does not need permission to list these folders.
#[cfg(any(target_os = "linux", target_os = "android"))]
const WAY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const WAY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Flags to open a file for reading. With these flags, opening a FIFO or device does not block, and
/// opening a terminal does not make it the controlling terminal of this process.
pub const READ: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Flags to create a file. Opening with these flags fails if anything with that name exists, even a
/// symbolic link.
const MAKE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::CLOEXEC);

/// Flags to open a file whose end grows. The file is created if it is missing.
const APPEND: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::APPEND)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Reason why a file was not opened.
#[derive(Debug, thiserror::Error)]
pub enum Unopened {
    /// The path is not a plain file.
    #[error("it is not a regular file")]
    NotPlain(FileType),
    /// A system call failed with this error.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for Unopened {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// Returns true if opening failed because a part of the resolved path is now a symbolic link.
pub fn is_link_in_the_way(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// An open folder. This value still refers to the same folder if another folder takes over its
/// path.
#[derive(Debug)]
pub struct Folder(OwnedFd);

impl Folder {
    /// Opens a folder by its absolute path, which must not contain symbolic links.
    ///
    /// # Errors
    /// If the system call fails. If a part of the path is a symbolic link, the error is `ELOOP`,
    /// which [`is_link_in_the_way`] recognizes.
    pub fn open(real: &Path) -> io::Result<Self> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            use rustix::fs::ResolveFlags;
            let no_links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            match rustix::fs::openat2(CWD, real, WAY, Mode::empty(), no_links) {
                // Old kernels do not have `openat2` and return `ENOSYS`. Some containers return
                // `EPERM` for every system call that they do not know.
                Err(Errno::NOSYS | Errno::PERM) => {}
                opened => return Ok(Self(opened?)),
            }
        }
        Self::walk_to(real)
    }

    /// Opens the folder like [`Folder::open`], but one path component at a time, for kernels
    /// without `openat2`.
    fn walk_to(real: &Path) -> io::Result<Self> {
        let mut folder = Self(rustix::fs::openat(CWD, "/", WAY, Mode::empty())?);
        for part in real.components() {
            match part {
                Component::RootDir | Component::CurDir => {}
                Component::Normal(name) => folder = folder.folder(name)?,
                Component::ParentDir | Component::Prefix(_) => return Err(Errno::INVAL.into()),
            }
        }
        Ok(folder)
    }

    /// Opens a subfolder of this folder.
    ///
    /// # Errors
    /// The errors of [`Folder::open`].
    pub fn folder(&self, name: &OsStr) -> io::Result<Self> {
        let problem = match rustix::fs::openat(&self.0, name, WAY | OFlags::NOFOLLOW, Mode::empty())
        {
            Ok(opened) => return Ok(Self(opened)),
            Err(problem) => problem,
        };
        // The system reports `ENOTDIR` for a symbolic link, because the flags ask for a folder.
        // Report `ELOOP` instead.
        let is_link = problem == Errno::NOTDIR
            && self.stat(name).is_ok_and(|stat| kind(&stat) == FileType::Symlink);
        Err(if is_link { Errno::LOOP } else { problem }.into())
    }

    /// Opens a subfolder of this folder. Creates the subfolder with `mode` if it is missing.
    ///
    /// # Errors
    /// The errors of [`Folder::open`], or an error if the subfolder cannot be created.
    pub fn folder_made(&self, name: &OsStr, mode: u32) -> io::Result<Self> {
        match rustix::fs::mkdirat(&self.0, name, Mode::from_raw_mode(mode)) {
            // An existing entry may be a symbolic link. `folder` refuses links.
            Ok(()) | Err(Errno::EXIST) => self.folder(name),
            Err(problem) => Err(problem.into()),
        }
    }

    /// Opens a plain file in this folder for reading.
    ///
    /// # Errors
    /// If there is no such file, or if it is not a plain file (such as a symbolic link).
    pub fn file(&self, name: &OsStr) -> Result<(File, Stat), Unopened> {
        // Check the kind before opening, because opening a device may have an effect.
        plain(self.stat(name)?)?;
        let file = match rustix::fs::openat(&self.0, name, READ | OFlags::NOFOLLOW, Mode::empty()) {
            Err(Errno::LOOP) => return Err(Unopened::NotPlain(FileType::Symlink)),
            file => File::from(file?),
        };
        let stat = plain(rustix::fs::fstat(&file)?)?;
        Ok((file, stat))
    }

    /// Opens a plain file by a path relative to this folder, and follows symbolic links. Use this
    /// function only for files that control the behavior of pitcrew and whose content is never
    /// shown to an agent or a user.
    ///
    /// # Errors
    /// If there is no such file, or if it is not a plain file.
    pub fn file_behind(&self, name: &Path) -> Result<(File, Stat), Unopened> {
        plain(rustix::fs::statat(&self.0, name, AtFlags::empty())?)?;
        let file = File::from(rustix::fs::openat(&self.0, name, READ, Mode::empty())?);
        let stat = plain(rustix::fs::fstat(&file)?)?;
        Ok((file, stat))
    }

    /// Returns the metadata of an entry. If the entry is a symbolic link, returns the metadata of
    /// the link itself.
    ///
    /// # Errors
    /// If there is no such entry, or if the system call fails.
    pub fn stat(&self, name: &OsStr) -> rustix::io::Result<Stat> {
        rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Returns the names of all entries, sorted, each with its kind.
    ///
    /// # Errors
    /// If the folder cannot be listed.
    pub fn list(&self) -> io::Result<Vec<(OsString, FileType)>> {
        use std::os::unix::ffi::OsStrExt as _;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut found = Vec::new();
        for entry in Dir::new(rustix::fs::openat(&self.0, ".", flags, Mode::empty())?)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not report the kind in a listing, so read the metadata of
                // the entry.
                FileType::Unknown => self.stat(name).map_or(FileType::Unknown, |stat| kind(&stat)),
                known => known,
            };
            found.push((name.to_owned(), kind));
        }
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(found)
    }

    /// Creates a file in this folder. The name must be free.
    ///
    /// # Errors
    /// If the name is in use, or if the system call fails.
    pub fn make_file(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        Ok(File::from(rustix::fs::openat(&self.0, name, MAKE, Mode::from_raw_mode(mode))?))
    }

    /// Opens a plain file in this folder, so that each write adds to its end. Creates the file with
    /// `mode` if it is missing.
    ///
    /// # Errors
    /// If the entry is not a plain file (such as a symbolic link), or if the system call fails.
    pub fn file_to_append(&self, name: &OsStr, mode: u32) -> Result<File, Unopened> {
        // Check the kind before opening, because opening a device may have an effect.
        match self.stat(name) {
            Ok(stat) => _ = plain(stat)?,
            Err(Errno::NOENT) => {}
            Err(problem) => return Err(problem.into()),
        }
        let mode = Mode::from_raw_mode(mode);
        let file = match rustix::fs::openat(&self.0, name, APPEND, mode) {
            Err(Errno::LOOP) => return Err(Unopened::NotPlain(FileType::Symlink)),
            file => File::from(file?),
        };
        plain(rustix::fs::fstat(&file)?)?;
        Ok(file)
    }

    /// Renames a file in this folder. A file with the new name is replaced.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
    }

    /// Renames a file in this folder. No entry with the new name may exist.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is in use, or another error if the system call fails.
    pub fn rename_to_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match rustix::fs::renameat_with(&self.0, from, &self.0, to, RenameFlags::NOREPLACE) {
            // Some file systems do not support `RENAME_NOREPLACE`. Instead, create a hard link with
            // the new name and remove the old name.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(&self.0, from, &self.0, to, AtFlags::empty())?;
                self.remove_file(from)
            }
            renamed => Ok(renamed?),
        }
    }

    /// Removes an entry of this folder. The entry must not be a folder.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Returns the metadata unchanged if the metadata describes a plain file.
///
/// # Errors
/// If the metadata describes another kind of file.
pub fn plain(stat: Stat) -> Result<Stat, Unopened> {
    match kind(&stat) {
        FileType::RegularFile => Ok(stat),
        other => Err(Unopened::NotPlain(other)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    type Open = fn(&Path) -> io::Result<Folder>;

    #[test]
    fn no_part_of_a_path_may_be_a_link_with_openat2_or_without() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(base.join("a/b")).unwrap();
        fs::write(base.join("plain"), "x").unwrap();
        symlink("a", base.join("link")).unwrap();
        symlink("b", base.join("a/last")).unwrap();
        for open in [Folder::open as Open, Folder::walk_to as Open] {
            open(&base.join("a/b")).unwrap();
            for name in ["link", "link/b", "a/last"] {
                let problem = open(&base.join(name)).unwrap_err();
                assert!(is_link_in_the_way(&problem), "{name}: {problem}");
            }
            for (name, expected) in
                [("gone", Errno::NOENT), ("plain/x", Errno::NOTDIR), ("plain", Errno::NOTDIR)]
            {
                let problem = open(&base.join(name)).unwrap_err();
                assert_eq!(problem.raw_os_error(), Some(expected.raw_os_error()), "{name}");
            }
        }
    }

    #[test]
    fn only_a_plain_file_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        fs::write(base.join("plain"), "x").unwrap();
        fs::create_dir(base.join("folder")).unwrap();
        symlink("plain", base.join("link")).unwrap();
        rustix::fs::mknodat(CWD, base.join("fifo"), FileType::Fifo, 0o600.into(), 0).unwrap();
        let folder = Folder::open(&base).unwrap();
        folder.file(OsStr::new("plain")).unwrap();
        folder.file_behind(Path::new("link")).unwrap();
        for (name, kind) in
            [("folder", FileType::Directory), ("link", FileType::Symlink), ("fifo", FileType::Fifo)]
        {
            let refused = folder.file(OsStr::new(name)).unwrap_err();
            assert!(
                matches!(refused, Unopened::NotPlain(found) if found == kind),
                "{name}: {refused}"
            );
        }
    }

    #[test]
    fn a_file_grows_at_its_end_and_a_link_in_its_place_is_refused() {
        use std::io::Write as _;
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        let folder = Folder::open(&base).unwrap();
        for text in ["one ", "two"] {
            let mut file = folder.file_to_append(OsStr::new("log"), 0o600).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(base.join("log")).unwrap(), "one two");
        assert_eq!(folder.stat(OsStr::new("log")).unwrap().st_mode & 0o777, 0o600);
        symlink("log", base.join("link")).unwrap();
        let refused = folder.file_to_append(OsStr::new("link"), 0o600).unwrap_err();
        assert!(matches!(refused, Unopened::NotPlain(FileType::Symlink)), "{refused}");
    }

    #[test]
    fn a_folder_stays_the_same_when_a_link_takes_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        for name in ["in", "out"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        let folder = Folder::open(&base.join("in")).unwrap();
        fs::rename(base.join("in"), base.join("moved")).unwrap();
        symlink("out", base.join("in")).unwrap();
        drop(folder.make_file(OsStr::new("a"), 0o600).unwrap());
        folder.folder_made(OsStr::new("b"), 0o700).unwrap();
        let names: Vec<_> = folder.list().unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(fs::read_dir(base.join("out")).unwrap().count(), 0);
    }
}
