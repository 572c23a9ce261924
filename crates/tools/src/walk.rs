//! Lists the files in folders as ripgrep does, for Glob and Grep. Files that git ignores are left
//! out. Hidden files are included. Subfolders of version control systems, such as `.git`, are not
//! entered.
//!
//! Each folder is opened through the handle of its parent folder, and no link is followed. Every
//! found file is therefore below the path that the permission gate checked.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use ignore::gitignore::Gitignore;
use pitcrew_process::handle::{Folder, Unopened};
use rustix::fs::{FileType, Stat};
use tokio_util::sync::CancellationToken;

use super::ToolOutcome;
use super::files::FileError;
use super::ignored::{Ignored, Unread};

/// The names of the folders in which version control systems store their data.
const CONTROL_FOLDERS: [&str; 4] = [".git", ".hg", ".svn", ".jj"];

/// A file, link or other entry that the walk found. It is not a folder.
#[derive(Debug)]
pub(super) struct Entry {
    /// The path of the entry, relative to the start of the walk. The path is empty if the walk
    /// starts at this entry.
    pub(super) relative: PathBuf,
    pub(super) kind: FileType,
    folder: Rc<Folder>,
    name: OsString,
}

impl Entry {
    /// Opens the entry, if it is still a plain file.
    pub(super) fn open(&self) -> Result<(File, Stat), Unopened> {
        self.folder.file(&self.name)
    }

    /// Returns the time of the entry's last change.
    pub(super) fn modified(&self) -> SystemTime {
        let Ok(stat) = self.folder.stat(&self.name) else { return SystemTime::UNIX_EPOCH };
        let seconds = u64::try_from(stat.st_mtime).unwrap_or_default();
        let rest = u32::try_from(stat.st_mtime_nsec).unwrap_or_default();
        SystemTime::UNIX_EPOCH + Duration::new(seconds, rest)
    }
}

/// An iterator over the files below a real path, in the order of their names. If the walk is
/// cancelled, the iterator ends early. A folder is left out if it cannot be listed, or if one of
/// its ignore files is not a plain file within the size limit.
pub(super) struct Walk {
    root: PathBuf,
    levels: Vec<Level>,
    /// The entry at the start path, if the start path is not a folder.
    single: Option<Entry>,
    global: Gitignore,
    cancel: CancellationToken,
}

/// A folder between the start of the walk and the current position, including both.
struct Level {
    relative: PathBuf,
    /// The handle of the folder. It is open only while the walk lists this folder itself and not
    /// one of its subfolders. A deep tree therefore needs few handles.
    folder: Option<Rc<Folder>>,
    entries: std::vec::IntoIter<(OsString, FileType)>,
    ignored: Rc<Ignored>,
}

impl Level {
    fn open(
        folder: Folder,
        real: &Path,
        relative: PathBuf,
        above: &Rc<Ignored>,
    ) -> Result<Self, Unwalked> {
        let names = folder.list().map_err(Unopened::Io)?;
        let ignored = Ignored::of_folder(&folder, real, above, Some(&names))?;
        Ok(Self { relative, folder: Some(Rc::new(folder)), entries: names.into_iter(), ignored })
    }
}

/// The reason why a walk cannot start.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unwalked {
    #[error(transparent)]
    Unopened(#[from] Unopened),
    #[error(transparent)]
    Unread(#[from] Unread),
}

impl Walk {
    /// Starts a walk at a real path.
    ///
    /// # Errors
    /// When the path does not exist, when it contains a link, or when an ignore file of the folder
    /// or of one of its parent folders is not a plain file within the size limit.
    pub(super) fn start(root: &Path, cancel: &CancellationToken) -> Result<Self, Unwalked> {
        let mut walk = Self {
            root: root.to_owned(),
            levels: Vec::new(),
            single: None,
            global: Gitignore::global().0,
            cancel: cancel.clone(),
        };
        let folder = match (root.parent(), root.file_name()) {
            (Some(above), Some(name)) => {
                let above = Folder::open(above).map_err(Unopened::Io)?;
                let kind =
                    FileType::from_raw_mode(above.stat(name).map_err(Unopened::from)?.st_mode);
                if matches!(kind, FileType::Directory | FileType::Symlink) {
                    above.folder(name)
                } else {
                    // If the path is a single file, the file is shown even if an ignore rule
                    // matches it. If an ignore file of its parent folders cannot be used, this is
                    // still an error.
                    Ignored::above(root)?;
                    let (folder, name) = (Rc::new(above), name.to_owned());
                    walk.single = Some(Entry { relative: PathBuf::new(), kind, folder, name });
                    return Ok(walk);
                }
            }
            _ => Folder::open(root),
        };
        let level = Level::open(
            folder.map_err(Unopened::Io)?,
            root,
            PathBuf::new(),
            &Ignored::above(root)?,
        )?;
        walk.levels.push(level);
        Ok(walk)
    }

    /// Whether the walk starts at a folder, not at a single file.
    pub(super) fn is_of_folder(&self) -> bool {
        self.single.is_none()
    }

    /// Enters a subfolder of the current folder. If the subfolder cannot be used, it is left out.
    fn enter(&mut self, folder: &Folder, name: &OsStr, relative: PathBuf, above: &Rc<Ignored>) {
        if name.to_str().is_some_and(|name| CONTROL_FOLDERS.contains(&name)) {
            return;
        }
        let opened = folder.folder(name).map_err(|problem| Unwalked::from(Unopened::Io(problem)));
        match opened.and_then(|folder| {
            Level::open(folder, &self.root.join(&relative), relative.clone(), above)
        }) {
            Ok(level) => {
                if let Some(last) = self.levels.last_mut() {
                    // Close the handle of the parent folder. The folder is opened again when the
                    // walk comes back to it.
                    last.folder = None;
                }
                self.levels.push(level);
            }
            Err(problem) => {
                tracing::debug!(path = %relative.display(), %problem, "a folder was left out of a search")
            }
        }
    }
}

impl Iterator for Walk {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        if let Some(single) = self.single.take() {
            return Some(single);
        }
        loop {
            if self.cancel.is_cancelled() {
                return None;
            }
            let level = self.levels.last_mut()?;
            let Some((name, kind)) = level.entries.next() else {
                self.levels.pop();
                continue;
            };
            let folder = match &level.folder {
                Some(folder) => folder.clone(),
                // The walk has come back from a subfolder. Open this folder again.
                None => match Folder::open(&self.root.join(&level.relative)) {
                    Ok(folder) => level.folder.insert(Rc::new(folder)).clone(),
                    // While the walk was in a subfolder, this folder was removed or replaced by a
                    // link. Leave out the rest of it.
                    Err(_gone) => {
                        self.levels.pop();
                        continue;
                    }
                },
            };
            let relative = level.relative.join(&name);
            let is_folder = kind == FileType::Directory;
            let ignored = level.ignored.clone();
            if ignored.matches(&self.root.join(&relative), is_folder, &self.global) {
                continue;
            }
            if !is_folder {
                return Some(Entry { relative, kind, folder, name });
            }
            self.enter(&folder, &name, relative, &ignored);
        }
    }
}

/// Starts a walk for a tool. If the path cannot be opened, returns the outcome from `missing`. If
/// the path contains a link or an ignore file cannot be used, returns an outcome with this reason.
pub(super) fn walk(
    real: &Path,
    cancel: &CancellationToken,
    missing: impl FnOnce() -> ToolOutcome,
) -> Result<Walk, ToolOutcome> {
    Walk::start(real, cancel).map_err(|problem| match problem {
        Unwalked::Unread(unread) => ToolOutcome::refused(unread),
        Unwalked::Unopened(Unopened::Io(source)) => match FileError::io("search", real)(source) {
            FileError::Io { .. } => missing(),
            swapped => swapped.into(),
        },
        Unwalked::Unopened(Unopened::NotPlain(_)) => missing(),
    })
}
