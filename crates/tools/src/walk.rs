//! Walks folders the way ripgrep does, for Glob and Grep: what git ignores is left out, hidden files
//! are not, and the folders of version control are never entered.
//!
//! Each folder is opened by its handle, and no link is followed: what is found lies below the judged path.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use ignore::gitignore::Gitignore;
use rustix::fs::{FileType, Stat};
use tokio_util::sync::CancellationToken;

use super::ToolOutcome;
use super::files::FileError;
use super::ignored::{Ignored, Unread};
use pitcrew_process::handle::{Folder, Unopened};

/// Folders of version control.
const CONTROL_FOLDERS: [&str; 4] = [".git", ".hg", ".svn", ".jj"];

/// Something that a walk came to, which is no folder.
#[derive(Debug)]
pub(super) struct Entry {
    /// Its path from where the walk started; empty when it is that itself.
    pub(super) relative: PathBuf,
    pub(super) kind: FileType,
    folder: Rc<Folder>,
    name: OsString,
}

impl Entry {
    /// Opens it, if it is still a plain file.
    pub(super) fn open(&self) -> Result<(File, Stat), Unopened> {
        self.folder.file(&self.name)
    }

    /// When it was changed last.
    pub(super) fn modified(&self) -> SystemTime {
        let Ok(stat) = self.folder.stat(&self.name) else { return SystemTime::UNIX_EPOCH };
        let seconds = u64::try_from(stat.st_mtime).unwrap_or_default();
        let rest = u32::try_from(stat.st_mtime_nsec).unwrap_or_default();
        SystemTime::UNIX_EPOCH + Duration::new(seconds, rest)
    }
}

/// A walk through what is below a real path, in the order of the names, until it is cancelled. A folder that cannot be
/// listed is left out, and one whose ignore file is no plain file.
pub(super) struct Walk {
    root: PathBuf,
    levels: Vec<Level>,
    /// The root itself, when it is no folder.
    single: Option<Entry>,
    global: Gitignore,
    cancel: CancellationToken,
}

/// A folder on the way.
struct Level {
    relative: PathBuf,
    /// Open while the walk is in this very folder: however deep a tree is, it takes few handles.
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

/// Why there is nothing to walk through.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unwalked {
    #[error(transparent)]
    Unopened(#[from] Unopened),
    #[error(transparent)]
    Unread(#[from] Unread),
}

impl Walk {
    /// Starts at a real path.
    ///
    /// # Errors
    /// When there is nothing, when a link stands in the path, or when an ignore file of the folder or of one above is no
    /// plain file.
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

    /// Whether it goes through a folder, and not to a file alone.
    pub(super) fn is_of_folder(&self) -> bool {
        self.single.is_none()
    }

    /// Goes into a folder of the deepest level.
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
                // The walk came back from a folder in it.
                None => match Folder::open(&self.root.join(&level.relative)) {
                    Ok(folder) => level.folder.insert(Rc::new(folder)).clone(),
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

/// Starts a walk for a tool; what cannot be walked through is told to the model, unless `refused` has words for it.
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
