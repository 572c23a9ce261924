//! Reads git's own list of the worktrees of a repository: the folders below `.git/worktrees`.
//!
//! Others can write there. Therefore the list never says what belongs to pitcrew: it only has to
//! agree with a record of ours. It is read without git, because git waits forever for a FIFO.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::{WorktreeError, placed};
use crate::given_file::{Refused, contents};
use crate::handle::{Folder, Unopened, plain};

/// The folder in a git folder that contains git's data about worktrees.
pub(super) const LIST: &str = "worktrees";

/// The file with the path of a worktree's `.git` file.
const GITDIR: &str = "gitdir";

/// Other files that git opens in each entry of the list when it creates or removes a worktree.
const ALSO_OPENED: [&str; 3] = ["HEAD", "commondir", "locked"];

/// Maximum length of a path in the list, in bytes. No path of the system is longer.
const PATH_BYTES: u64 = 8192;

/// Maximum number of entries that are read.
const MOST_ENTRIES: usize = 10_000;

/// One entry of git's list.
#[derive(Debug, Clone)]
pub(super) struct Registration {
    /// The folder in which git stores data about the worktree.
    pub(super) admin: PathBuf,
    /// The folder of the worktree, as git recorded it.
    pub(super) path: PathBuf,
}

/// Git's list of the worktrees of a repository.
#[derive(Debug, Default)]
pub(super) struct Registrations(Vec<Registration>);

impl Registrations {
    /// Reads the list in the git folder `common`, in which symbolic links are resolved.
    ///
    /// # Errors
    /// If the list cannot be read, or if an entry contains something other than a plain file where
    /// git opens a file.
    pub(super) fn read(common: &Path) -> Result<Self, WorktreeError> {
        let list = common.join(LIST);
        let opened = Folder::open(&list).and_then(|folder| Ok((folder.list()?, folder)));
        let (names, folder) = match opened {
            Ok(opened) => opened,
            // The folder does not exist before the first worktree is created.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(WorktreeError::io("list", &list)(error)),
        };
        if names.len() > MOST_ENTRIES {
            let error = io::Error::other(format!("it has more than {MOST_ENTRIES} entries"));
            return Err(WorktreeError::io("list", &list)(error));
        }
        let mut entries = Vec::new();
        for (name, kind) in names {
            if kind == FileType::RegularFile {
                continue;
            }
            let admin = list.join(&name);
            let entry = folder.folder(&name).map_err(WorktreeError::io("open", &admin))?;
            let path = path_in(&entry, &admin)?;
            entries.extend(path.map(|path| Registration { admin, path }));
        }
        Ok(Self(entries))
    }

    pub(super) fn all(&self) -> &[Registration] {
        &self.0
    }

    /// Returns the entries that name a folder. Each entry has a name of its own, so more than one
    /// is a contradiction that git itself never makes.
    pub(super) fn naming(&self, path: &Path) -> Vec<&Registration> {
        self.0.iter().filter(|it| it.path == path || placed(&it.path) == path).collect()
    }
}

/// Returns the folder of the worktree that an entry names. Returns `None` if it names none.
fn path_in(entry: &Folder, admin: &Path) -> Result<Option<PathBuf>, WorktreeError> {
    for name in ALSO_OPENED {
        if let Ok(stat) = entry.stat(OsStr::new(name)) {
            plain(stat).map_err(|unopened| refused(&admin.join(name), unopened.into()))?;
        }
    }
    let read = entry
        .file(OsStr::new(GITDIR))
        .map_err(Refused::from)
        .and_then(|(file, _)| contents(file, PATH_BYTES));
    let mut bytes = match read {
        Ok(bytes) => bytes,
        Err(Refused::Io(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(refused(&admin.join(GITDIR), why)),
    };
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    // With `extensions.relativeWorktrees`, the path is relative to the entry.
    let dot_git = admin.join(OsString::from_vec(bytes));
    Ok(dot_git.parent().map(Path::to_owned))
}

fn refused(path: &Path, why: Refused) -> WorktreeError {
    WorktreeError::io("read", path)(io::Error::other(why))
}

/// Reads a file of an entry, or another file in a git folder, for [`super::leftovers`].
pub(super) fn read_in(folder: &Path, name: &str, most: u64) -> Result<Option<Vec<u8>>, Refused> {
    let opened = Folder::open(folder).map_err(Unopened::Io);
    let read = opened
        .and_then(|folder| folder.file(OsStr::new(name)))
        .map_err(Refused::from)
        .and_then(|(file, _)| contents(file, most));
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Refused::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(why),
    }
}
