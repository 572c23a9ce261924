//! Opens files and folders by their real paths, so that no part of a path can be a link.
//!
//! A path is resolved, judged, and opened a moment later. A command that runs meanwhile can put a link in the place of a
//! folder on the way. Whoever opens the judged path through this module gets what was judged, or an error: never the
//! target of a link. Everything below is reached through the handle of its folder. Nothing here waits for a FIFO, and no
//! device is opened.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

/// How folders on the way to a file are opened. `PATH` needs no right to list them.
#[cfg(any(target_os = "linux", target_os = "android"))]
const WAY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const WAY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// How a file is read: a FIFO, a device or a terminal does not make us wait or become ours.
pub const READ: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// How a new file is made: under a name that nothing has, a link neither.
const MAKE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::CLOEXEC);

/// Says why no file was opened.
#[derive(Debug, thiserror::Error)]
pub enum Unopened {
    /// Something else than a plain file has the name.
    #[error("it is no plain file")]
    NotPlain(FileType),
    /// The system said no.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for Unopened {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// Whether a real path was not opened since a link is part of it now.
pub fn is_link_in_the_way(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// A folder, by handle: it stays the same folder whatever its path means meanwhile.
#[derive(Debug)]
pub struct Folder(OwnedFd);

impl Folder {
    /// Opens the folder of an absolute path without links.
    ///
    /// # Errors
    /// When the system says no; with `ELOOP` ([`is_link_in_the_way`]) when a part of the path is a link.
    pub fn open(real: &Path) -> io::Result<Self> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            use rustix::fs::ResolveFlags;
            let no_links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            match rustix::fs::openat2(CWD, real, WAY, Mode::empty(), no_links) {
                // Some containers answer calls that they do not know with EPERM.
                Err(Errno::NOSYS | Errno::PERM) => {}
                opened => return Ok(Self(opened?)),
            }
        }
        Self::walk_to(real)
    }

    /// As [`Folder::open`], for kernels without `openat2`: one part after the other.
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

    /// Opens a folder in it.
    ///
    /// # Errors
    /// As [`Folder::open`].
    pub fn folder(&self, name: &OsStr) -> io::Result<Self> {
        let problem = match rustix::fs::openat(&self.0, name, WAY | OFlags::NOFOLLOW, Mode::empty())
        {
            Ok(opened) => return Ok(Self(opened)),
            Err(problem) => problem,
        };
        // Of a link that must be a folder the system says that it is none.
        let is_link = problem == Errno::NOTDIR
            && self.stat(name).is_ok_and(|stat| kind(&stat) == FileType::Symlink);
        Err(if is_link { Errno::LOOP } else { problem }.into())
    }

    /// Opens a folder in it, which is made if there is none.
    ///
    /// # Errors
    /// As [`Folder::open`], and when it cannot be made.
    pub fn folder_made(&self, name: &OsStr, mode: u32) -> io::Result<Self> {
        match rustix::fs::mkdirat(&self.0, name, Mode::from_raw_mode(mode)) {
            Ok(()) | Err(Errno::EXIST) => self.folder(name),
            Err(problem) => Err(problem.into()),
        }
    }

    /// Opens a plain file in it for reading.
    ///
    /// # Errors
    /// When there is none, or something else has the name, such as a link.
    pub fn file(&self, name: &OsStr) -> Result<(File, Stat), Unopened> {
        // Looked at before it is opened: opening a device may do something.
        plain(self.stat(name)?)?;
        let file = match rustix::fs::openat(&self.0, name, READ | OFlags::NOFOLLOW, Mode::empty()) {
            Err(Errno::LOOP) => return Err(Unopened::NotPlain(FileType::Symlink)),
            file => File::from(file?),
        };
        let stat = plain(rustix::fs::fstat(&file)?)?;
        Ok((file, stat))
    }

    /// Opens what a name in it leads to, links followed, if that is a plain file. For what only steers us, and is not shown.
    ///
    /// # Errors
    /// When there is none, or something else is at the end.
    pub fn file_behind(&self, name: &Path) -> Result<(File, Stat), Unopened> {
        plain(rustix::fs::statat(&self.0, name, AtFlags::empty())?)?;
        let file = File::from(rustix::fs::openat(&self.0, name, READ, Mode::empty())?);
        let stat = plain(rustix::fs::fstat(&file)?)?;
        Ok((file, stat))
    }

    /// What has a name in it, a link itself.
    ///
    /// # Errors
    /// When there is nothing, or the system says no.
    pub fn stat(&self, name: &OsStr) -> rustix::io::Result<Stat> {
        rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// The names in it, sorted, each with its kind.
    ///
    /// # Errors
    /// When it cannot be listed.
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
                FileType::Unknown => self.stat(name).map_or(FileType::Unknown, |stat| kind(&stat)),
                known => known,
            };
            found.push((name.to_owned(), kind));
        }
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(found)
    }

    /// Makes a file in it, under a name that nothing has.
    ///
    /// # Errors
    /// When something has the name, or the system says no.
    pub fn make_file(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        Ok(File::from(rustix::fs::openat(&self.0, name, MAKE, Mode::from_raw_mode(mode))?))
    }

    /// Renames a file in it, and replaces what has the new name.
    ///
    /// # Errors
    /// When the system says no.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
    }

    /// Renames a file in it to a name that nothing has.
    ///
    /// # Errors
    /// With `AlreadyExists` when something has it; and when the system says no.
    pub fn rename_to_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match rustix::fs::renameat_with(&self.0, from, &self.0, to, RenameFlags::NOREPLACE) {
            // Some file systems know no such rename.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(&self.0, from, &self.0, to, AtFlags::empty())?;
                self.remove_file(from)
            }
            renamed => Ok(renamed?),
        }
    }

    /// Removes a name in it that is no folder's.
    ///
    /// # Errors
    /// When the system says no.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Passes on what a plain file is.
///
/// # Errors
/// When it is something else.
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
