//! Writes a document into a file, whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use super::shown;
use crate::failure::{Explained, Failure, FailureKind};

/// The beginning of the name of a file that is not complete.
const UNFINISHED: &str = ".pitcrew-";

/// Decides about a file that exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays as it is. The text tells the user how to replace it.
    Kept(Option<&'static str>),
    /// The document replaces it.
    Replaced,
}

/// Whether a document was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Placed {
    Yes,
    /// The file exists, and stays.
    Exists,
}

/// Writes a document that only the user can read. Only an ordinary file is ever replaced.
pub(super) fn place(path: &Path, text: &str, existing: Existing) -> Result<Placed, Failure> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => {
            let said = format!("{} is no ordinary file, and is not replaced", shown(path));
            return Err(Failure::new(FailureKind::Conflict, said).hint("name another file"));
        }
        Ok(_) if existing != Existing::Replaced => return Ok(Placed::Exists),
        Ok(_) | Err(_) => {}
    }
    match written(path, text, existing) {
        Ok(()) => Ok(Placed::Yes),
        // Somebody made the file meanwhile.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Placed::Exists),
        Err(error) => {
            let said = format!("{} cannot be written", shown(path));
            Err(Failure::unusable(Explained::new(said, error)))
        }
    }
}

fn written(path: &Path, text: &str, existing: Existing) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut unfinished = Unfinished::in_folder(folder)?;
    let file = unfinished.file();
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    unfinished.finish(path, existing)
}

/// A file that is not complete, with the rights 0600. It is removed after an error.
enum Unfinished {
    /// It has no name. The system removes it if this process is killed.
    Nameless(File, PathBuf),
    /// Not every file system has files without a name.
    Named(NamedTempFile),
}

impl Unfinished {
    fn in_folder(folder: &Path) -> io::Result<Self> {
        match nameless(folder) {
            Some(file) => Ok(Self::Nameless(file, folder.to_owned())),
            None => Builder::new().prefix(UNFINISHED).tempfile_in(folder).map(Self::Named),
        }
    }

    fn file(&mut self) -> &mut File {
        match self {
            Self::Nameless(file, _) => file,
            Self::Named(file) => file.as_file_mut(),
        }
    }

    /// Gives the complete file its name.
    fn finish(self, path: &Path, existing: Existing) -> io::Result<()> {
        match (self, existing) {
            (Self::Nameless(file, _), Existing::Kept(_)) => link(&file, path),
            (Self::Nameless(file, folder), Existing::Replaced) => {
                // A new name never replaces a file, but a rename does.
                let mut names = Builder::new();
                let complete =
                    names.prefix(UNFINISHED).make_in(folder, |name| link(&file, name))?;
                complete.persist(path).map_err(|error| error.error)
            }
            (Self::Named(file), Existing::Kept(_)) => {
                file.persist_noclobber(path).map(drop).map_err(|error| error.error)
            }
            (Self::Named(file), Existing::Replaced) => {
                file.persist(path).map(drop).map_err(|error| error.error)
            }
        }
    }
}

/// Opens a file without a name. Returns `None` if the system has none.
#[cfg(target_os = "linux")]
fn nameless(folder: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags};

    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR).ok().map(File::from)?;
    path_of(&file).exists().then_some(file)
}

/// Gives a file without a name this new name.
#[cfg(target_os = "linux")]
fn link(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};

    Ok(linkat(CWD, path_of(file), CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(target_os = "linux")]
fn path_of(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd as _;

    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

#[cfg(not(target_os = "linux"))]
fn nameless(_folder: &Path) -> Option<File> {
    None
}

#[cfg(not(target_os = "linux"))]
fn link(_file: &File, _path: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_in(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_document_that_is_not_complete_is_in_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let mut unfinished = Unfinished::in_folder(folder.path()).unwrap();
        unfinished.file().write_all(b"half").unwrap();
        // A process that is killed now leaves this.
        assert_eq!(names_in(folder.path()), [""; 0]);
        unfinished.finish(&folder.path().join("a.md"), Existing::Kept(None)).unwrap();
        assert_eq!(names_in(folder.path()), ["a.md"]);
    }

    #[test]
    fn both_kinds_of_files_replace_only_where_they_may() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.md");
        let named =
            || Unfinished::Named(Builder::new().prefix(UNFINISHED).tempfile_in(&folder).unwrap());
        let either = || Unfinished::in_folder(folder.path()).unwrap();
        for (n, make) in [&named as &dyn Fn() -> Unfinished, &either].into_iter().enumerate() {
            for (existing, is_written) in [
                (Existing::Replaced, true),
                (Existing::Kept(None), false),
                (Existing::Replaced, true),
            ] {
                let text = format!("{n} {existing:?}");
                let mut unfinished = make();
                unfinished.file().write_all(text.as_bytes()).unwrap();
                assert_eq!(unfinished.finish(&path, existing).is_ok(), is_written, "{text}");
                assert_eq!(fs::read_to_string(&path).unwrap() == text, is_written);
            }
        }
        assert_eq!(names_in(folder.path()), ["a.md"]);
    }
}
