//! Reads files that may come from other people: settings, agent definitions and instructions.
//!
//! The author of a repository or archive decides what is at the path of a file in it. It can be a
//! FIFO without a writer, a device without an end, a link to a private key, or a file of many
//! gigabytes. Therefore this module reads only plain files of limited size. It reads a project's
//! file only if the file is below the project's folder. Every other path is refused with a reason,
//! and no function of this module blocks the thread.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode};

use crate::handle::{Folder, READ, Unopened, plain};

/// The name of git's folder. Git's configuration in it may contain passwords of remotes, so a
/// project file must not be a link into this folder.
const GIT_FOLDER: &str = ".git";

/// Reason why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The path is not a plain file.
    #[error("it is {kind}, but only regular files are read")]
    NotPlain {
        /// The actual kind of the file, with an article ("a FIFO").
        kind: &'static str,
    },
    /// The path leads out of the allowed folder, or into a `.git` folder, through a symbolic link.
    #[error("it is a link to {}, outside {}", target.display(), folder.display())]
    LeadsOut {
        /// The refused path, with its symbolic links resolved.
        target: PathBuf,
        /// The folder that the link leads out of.
        folder: PathBuf,
    },
    /// The file is larger than the limit.
    #[error("it is longer than {limit} bytes")]
    TooLong {
        /// The limit in bytes.
        limit: u64,
    },
    /// The file is not UTF-8.
    #[error("it is not UTF-8 text")]
    NotText,
    /// A system call failed with this error.
    #[error("{0}")]
    Io(#[source] io::Error),
}

impl From<Unopened> for Refused {
    fn from(unopened: Unopened) -> Self {
        match unopened {
            Unopened::NotPlain(kind) => Self::not_plain(kind),
            Unopened::Io(error) => Self::Io(error),
        }
    }
}

impl Refused {
    pub(crate) fn not_plain(kind: FileType) -> Self {
        let kind = match kind {
            FileType::Directory => "a folder",
            FileType::Symlink => "a link",
            FileType::Fifo => "a FIFO",
            FileType::Socket => "a socket",
            FileType::CharacterDevice | FileType::BlockDevice => "a device",
            FileType::RegularFile | FileType::Unknown => "something unknown",
        };
        Self::NotPlain { kind }
    }
}

/// The origin of a file. The origin decides where symbolic links on the file's path may lead.
#[derive(Clone, Copy, Debug)]
pub enum Given<'a> {
    /// The file belongs to the user or to the machine's administrator. Its symbolic links may lead
    /// anywhere.
    ByUser,
    /// The file belongs to a project. With its symbolic links resolved, the file must be below one
    /// of these folders, but not inside a `.git` folder.
    Below(&'a [PathBuf]),
}

impl Given<'_> {
    /// Reads a plain file of at most `limit` bytes. Returns `None` if there is no such file.
    ///
    /// # Errors
    /// If the path is not a plain file, leads out of the allowed folder, or cannot be read, or if
    /// the file is larger than `limit`.
    pub fn read(self, path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Refused> {
        match self.open(path) {
            Ok(file) => contents(file, limit).map(Some),
            Err(Refused::Io(error)) if is_absent(&error) => Ok(None),
            Err(refused) => Err(refused),
        }
    }

    /// Reads a text file like [`Given::read`].
    ///
    /// # Errors
    /// The errors of [`Given::read`], or if the file is not UTF-8.
    pub fn read_text(self, path: &Path, limit: u64) -> Result<Option<String>, Refused> {
        let bytes = self.read(path, limit)?;
        bytes.map(|bytes| String::from_utf8(bytes).map_err(|_| Refused::NotText)).transpose()
    }

    /// Returns the paths of the entries in a folder whose names have the extension `ending`,
    /// sorted. Returns at most `most` paths, and a flag that is true if the folder has more entries
    /// with this extension. Returns no paths if the folder does not exist.
    ///
    /// # Errors
    /// If the path is not a folder, leads out of the allowed folder, or cannot be read.
    pub fn list(
        self,
        folder: &Path,
        ending: &str,
        most: usize,
    ) -> Result<(Vec<PathBuf>, bool), Refused> {
        let real = match self.real(folder) {
            Ok(real) => real,
            Err(Refused::Io(error)) if is_absent(&error) => return Ok((Vec::new(), false)),
            Err(refused) => return Err(refused),
        };
        let mut files = Vec::new();
        let names = Folder::open(&real).and_then(|folder| folder.list()).map_err(Refused::Io)?;
        for (name, _kind) in names {
            if Path::new(&name).extension().is_some_and(|extension| extension == ending) {
                files.push(folder.join(name));
            }
        }
        files.sort();
        let has_more = files.len() > most;
        files.truncate(most);
        Ok((files, has_more))
    }

    /// Reads the last `most` bytes of a plain file as text. Bytes that are not UTF-8 are replaced
    /// by the replacement character. Returns `None` if there is no such file.
    ///
    /// # Errors
    /// If the path is not a plain file, leads out of the allowed folder, or cannot be read.
    pub fn read_end(self, path: &Path, most: u64) -> Result<Option<String>, Refused> {
        let mut file = match self.open(path) {
            Ok(file) => file,
            Err(Refused::Io(error)) if is_absent(&error) => return Ok(None),
            Err(refused) => return Err(refused),
        };
        let length = file.metadata().map_err(Refused::Io)?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(most))).map_err(Refused::Io)?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes).map_err(Refused::Io)?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Reads at most `most` bytes of a plain file, starting at `offset`. Returns `None` if there is
    /// no such file.
    ///
    /// # Errors
    /// If the path is not a plain file, leads out of the allowed folder, or cannot be read.
    pub fn read_from(
        self,
        path: &Path,
        offset: u64,
        most: u64,
    ) -> Result<Option<Vec<u8>>, Refused> {
        let mut file = match self.open(path) {
            Ok(file) => file,
            Err(Refused::Io(error)) if is_absent(&error) => return Ok(None),
            Err(refused) => return Err(refused),
        };
        file.seek(SeekFrom::Start(offset)).map_err(Refused::Io)?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes).map_err(Refused::Io)?;
        Ok(Some(bytes))
    }

    /// Returns the paths of all entries of a folder, of any kind, sorted. Returns an empty list if
    /// the folder does not exist.
    ///
    /// # Errors
    /// If the path is not a folder, leads out of the allowed folder, or cannot be read.
    pub fn entries(self, folder: &Path) -> Result<Vec<PathBuf>, Refused> {
        let real = match self.real(folder) {
            Ok(real) => real,
            Err(Refused::Io(error)) if is_absent(&error) => return Ok(Vec::new()),
            Err(refused) => return Err(refused),
        };
        let names = Folder::open(&real).and_then(|folder| folder.list()).map_err(Refused::Io)?;
        let mut entries: Vec<PathBuf> =
            names.into_iter().map(|(name, _kind)| folder.join(name)).collect();
        entries.sort();
        Ok(entries)
    }

    fn open(self, path: &Path) -> Result<File, Refused> {
        let file = match self {
            Self::ByUser => {
                plain(rustix::fs::stat(path).map_err(system)?)?;
                File::from(rustix::fs::open(path, READ, Mode::empty()).map_err(system)?)
            }
            Self::Below(_) => open_real(&self.real(path)?)?,
        };
        // Check the kind of file again after opening, because the file may have been replaced
        // meanwhile.
        plain(rustix::fs::fstat(&file).map_err(system)?)?;
        Ok(file)
    }

    /// Returns the path with symbolic links resolved, or an error if the origin does not allow the
    /// resolved path.
    pub fn real(self, path: &Path) -> Result<PathBuf, Refused> {
        let real = fs::canonicalize(path).map_err(Refused::Io)?;
        match self {
            Self::ByUser => Ok(real),
            Self::Below(folders) => {
                let is_git =
                    |part: Component<'_>| part.as_os_str().eq_ignore_ascii_case(GIT_FOLDER);
                let is_below = |folder: &PathBuf| {
                    real.strip_prefix(folder).is_ok_and(|below| !below.components().any(is_git))
                };
                if folders.iter().any(is_below) { Ok(real) } else { Err(leads_out(&real, folders)) }
            }
        }
    }
}

fn leads_out(target: &Path, folders: &[PathBuf]) -> Refused {
    let folder = folders.first().cloned().unwrap_or_default();
    Refused::LeadsOut { target: target.to_path_buf(), folder }
}

/// Checks that another program can safely open the path. The path must lead to a plain file of at
/// most `limit` bytes, and symbolic links are followed. A path that does not exist passes the
/// check, and so does a path whose metadata cannot be read.
///
/// # Errors
/// If the path leads to another kind of file, or to a larger file.
pub fn check_plain(path: &Path, limit: u64) -> Result<(), Refused> {
    let stat = match rustix::fs::stat(path).map_err(system) {
        Err(Refused::Io(_)) => return Ok(()),
        stat => stat?,
    };
    let stat = plain(stat)?;
    if u64::try_from(stat.st_size).is_ok_and(|size| size <= limit) {
        Ok(())
    } else {
        Err(Refused::TooLong { limit })
    }
}

/// Opens a plain file by its path. The caller has already resolved all symbolic links in the path.
/// Fails if a part of the path has been replaced by a symbolic link since then.
pub fn open_real(real: &Path) -> Result<File, Refused> {
    let (Some(folder), Some(name)) = (real.parent(), real.file_name()) else {
        return Err(Refused::not_plain(FileType::Directory));
    };
    let (file, _stat) = Folder::open(folder).map_err(Refused::Io)?.file(name)?;
    Ok(file)
}

/// Reads a plain UTF-8 file of at most `limit` bytes. Folders on the path may be symbolic links,
/// but the file itself must not be one.
///
/// # Errors
/// If the file does not exist, is not a plain file, is too large, or is not UTF-8.
pub fn read_plain(path: &Path, limit: u64) -> Result<String, Refused> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Refused::not_plain(FileType::Directory));
    };
    let folder = fs::canonicalize(folder).map_err(Refused::Io)?;
    let bytes = contents(open_real(&folder.join(name))?, limit)?;
    String::from_utf8(bytes).map_err(|_| Refused::NotText)
}

/// Reads a git configuration file. Follows symbolic links and replaces bytes that are not UTF-8.
/// Returns `None` if the file is not a plain file, is larger than `limit` bytes, or cannot be read.
pub fn read_git_config(path: &Path, limit: u64) -> Option<String> {
    let bytes = Given::ByUser.read(path, limit).ok()??;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads the whole content of an open file.
///
/// # Errors
/// If the file is larger than `limit` bytes, or cannot be read.
pub fn contents(file: File, limit: u64) -> Result<Vec<u8>, Refused> {
    if file.metadata().map_err(Refused::Io)?.len() > limit {
        return Err(Refused::TooLong { limit });
    }
    let mut bytes = Vec::new();
    // Read one byte more than allowed, to detect a file that grows meanwhile.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(Refused::Io)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        return Err(Refused::TooLong { limit });
    }
    Ok(bytes)
}

fn system(errno: rustix::io::Errno) -> Refused {
    Refused::Io(errno.into())
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn project() -> (tempfile::TempDir, Vec<PathBuf>) {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap().join("project");
        fs::create_dir_all(base.join("sub")).unwrap();
        fs::create_dir_all(base.join(".git")).unwrap();
        fs::write(base.join(".git/config"), "token").unwrap();
        fs::write(base.join("plain"), "text").unwrap();
        fs::write(dir.path().join("secret"), "key").unwrap();
        (dir, vec![base])
    }

    fn said(base: &[PathBuf], name: &str) -> String {
        let folder = base.first().unwrap();
        match Given::Below(base).read(&folder.join(name), 100) {
            Ok(None) => "absent".to_owned(),
            Ok(Some(bytes)) => format!("read {}", String::from_utf8(bytes).unwrap()),
            Err(refused) => {
                refused.to_string().replace(&folder.parent().unwrap().display().to_string(), "DIR")
            }
        }
    }

    #[test]
    fn only_plain_files_below_the_folder_are_read() {
        let (dir, base) = project();
        let at = |name: &str| base.first().unwrap().join(name);
        symlink("../plain", at("sub/inside")).unwrap();
        symlink("../secret", at("out")).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        symlink(".git/config", at("git")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        symlink(dir.path(), at("folder")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        fs::File::create(at("giant")).unwrap().set_len(5 << 30).unwrap();
        fs::write(at("long"), vec![b'x'; 101]).unwrap();
        let names = [
            "plain",
            "sub/inside",
            "nothing",
            "plain/below",
            "dangling",
            "out",
            "zero",
            "git",
            "folder/secret",
            "sub",
            "fifo",
            "socket",
            "giant",
            "long",
        ];
        let told: Vec<String> =
            names.iter().map(|name| format!("{name}: {}", said(&base, name))).collect();
        insta::assert_snapshot!(told.join("\n"), @r"
        plain: read text
        sub/inside: read text
        nothing: absent
        plain/below: absent
        dangling: absent
        out: it is a link to DIR/secret, outside DIR/project
        zero: it is a link to /dev/zero, outside DIR/project
        git: it is a link to DIR/project/.git/config, outside DIR/project
        folder/secret: it is a link to DIR/secret, outside DIR/project
        sub: it is a folder, but only regular files are read
        fifo: it is a FIFO, but only regular files are read
        socket: it is a socket, but only regular files are read
        giant: it is longer than 100 bytes
        long: it is longer than 100 bytes
        ");
    }

    #[test]
    fn a_file_of_our_own_is_no_link_and_not_waited_for() {
        let (dir, base) = project();
        let at = |name: &str| base.first().unwrap().join(name);
        symlink(at(""), dir.path().join("link")).unwrap();
        symlink("plain", at("sub/file")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(read_plain(&dir.path().join("link/plain"), 4).unwrap(), "text");
        assert!(matches!(read_plain(&at("plain"), 3), Err(Refused::TooLong { limit: 3 })));
        for name in ["sub/file", "fifo", "sub"] {
            assert!(matches!(read_plain(&at(name), 9), Err(Refused::NotPlain { .. })), "{name}");
        }
    }

    #[test]
    fn a_user_s_own_link_may_lead_anywhere_but_to_a_plain_file_only() {
        let (dir, base) = project();
        let at = |name: &str| base.first().unwrap().join(name);
        symlink(dir.path().join("secret"), at("dotfile")).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
        assert_eq!(Given::ByUser.read(&at("dotfile"), 3).unwrap().unwrap(), b"key");
        for name in ["zero", "fifo", "sub"] {
            assert!(
                matches!(Given::ByUser.read(&at(name), 3), Err(Refused::NotPlain { .. })),
                "{name}"
            );
        }
        assert!(matches!(
            Given::ByUser.read(&at("dotfile"), 2),
            Err(Refused::TooLong { limit: 2 })
        ));
    }
}
