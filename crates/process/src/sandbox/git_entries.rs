//! Looks through the entries of a git folder without opening any of them. An archive or a command
//! can put links, FIFOs and endless files at every path of a git folder. Git follows the links, waits
//! for the FIFOs, and reads all of the files.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use crate::checkout::checkout_around;
use crate::handle::Folder;

/// Maximum size of a file in which git stores names, references or settings, in bytes. Git reads such
/// a file as a whole.
const MOST_BYTES: u64 = 1 << 30;

/// Maximum number of entries that are looked at. A git folder with more is searched no further.
const MOST_ENTRIES: usize = 500_000;

/// Entries of a git folder that are not searched: git of pitcrew's runs no hooks, and each submodule
/// and each worktree is a checkout of its own.
const APART: [&str; 3] = [HOOKS, "modules", "worktrees"];

/// The entry of a git folder with its hooks.
const HOOKS: &str = "hooks";

/// The folder of a git folder with the packs, which can be large.
const PACKS: &str = "objects/pack";

/// The files that git reads in every folder of a checkout.
const OF_CHECKOUT: [&str; 4] = [".gitattributes", ".gitignore", ".gitmodules", ".mailmap"];

/// How much of a git folder is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All but the folders of single objects, which can be many.
    Names,
    /// All of it.
    Whole,
}

/// A file that git cannot read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    /// The path of the file.
    pub path: PathBuf,
    /// What the file is, with an article.
    pub what: &'static str,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "git cannot read {}: it is {}", self.path.display(), self.what)
    }
}

impl From<Unfit> for io::Error {
    fn from(unfit: Unfit) -> Self {
        Self::other(unfit.to_string())
    }
}

/// What was found in a git folder.
#[derive(Default)]
pub(super) struct Entries {
    /// The links, as paths below the git folder, with the paths to which they lead. A link that leads
    /// nowhere has the path at which it would create a file.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    /// The first file that git cannot read.
    pub(super) unfit: Option<Unfit>,
}

impl Entries {
    /// Looks through a git folder, whose path has its links resolved.
    pub(super) fn of(git_folder: &Path, extent: Extent) -> Self {
        let mut found = Self::default();
        let (mut todo, mut count) = (vec![PathBuf::new()], 0);
        while let Some(below) = todo.pop() {
            let folder = git_folder.join(&below);
            let listed = Folder::open(&folder).and_then(|folder| folder.list()).unwrap_or_default();
            for (name, kind) in listed {
                count += 1;
                if count > MOST_ENTRIES {
                    return found;
                }
                let entry = below.join(&name);
                match kind {
                    FileType::Directory if is_searched(&entry, extent) => todo.push(entry),
                    FileType::Directory => {}
                    // Git of pitcrew's runs no hooks, wherever they are.
                    FileType::Symlink if entry == Path::new(HOOKS) => {}
                    FileType::Symlink => {
                        found
                            .links
                            .extend(led_to(&folder.join(name)).map(|target| (entry, target)));
                    }
                    kind => found.check(git_folder, &entry, kind),
                }
            }
        }
        found
    }

    fn check(&mut self, git_folder: &Path, entry: &Path, kind: FileType) {
        let path = git_folder.join(entry);
        let what = match kind {
            FileType::Fifo => Some("a FIFO"),
            FileType::Socket => Some("a socket"),
            FileType::CharacterDevice | FileType::BlockDevice => Some("a device"),
            _ => is_endless(&path, entry).then_some("longer than 1 GiB"),
        };
        if let Some(what) = what.filter(|_| self.unfit.is_none()) {
            self.unfit = Some(Unfit { path, what });
        }
    }
}

fn is_searched(entry: &Path, extent: Extent) -> bool {
    let is_apart = entry.parent() == Some(Path::new(""))
        && APART.iter().any(|name| entry.as_os_str() == *name);
    let is_of_objects = entry.parent().is_some_and(|parent| parent.ends_with("objects"))
        && entry.file_name().is_some_and(|name| name.len() == 2);
    !is_apart && (extent == Extent::Whole || !is_of_objects)
}

fn is_endless(path: &Path, entry: &Path) -> bool {
    !entry.starts_with(PACKS) && path.symlink_metadata().is_ok_and(|meta| meta.size() > MOST_BYTES)
}

/// Returns the path to which a link leads. If nothing is there, this is the path of a file that a
/// write through the link would create.
fn led_to(link: &Path) -> Option<PathBuf> {
    if let Ok(real) = fs::canonicalize(link) {
        return Some(real);
    }
    let target = link.parent()?.join(fs::read_link(link).ok()?);
    match (target.parent().map(fs::canonicalize), target.file_name()) {
        (Some(Ok(folder)), Some(name)) => Some(folder.join(name)),
        // Nothing can be created there.
        _ => None,
    }
}

/// Finds the first file of a checkout that git reads by itself and cannot read. This search takes as
/// long as git's own: it is for a git that does not end.
pub(crate) fn unfit_in_checkout(folder: &Path) -> Option<Unfit> {
    let top = checkout_around(folder)?;
    let (mut todo, mut count) = (vec![top.to_path_buf()], 0);
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            count += 1;
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.file_name();
            if kind.is_dir() && name != ".git" {
                todo.push(entry.path());
            }
            let is_read = OF_CHECKOUT.iter().any(|read| name == *read);
            if is_read && !kind.is_dir() && !kind.is_symlink() && !kind.is_file() {
                let what = if kind.is_fifo() { "a FIFO" } else { "a socket or a device" };
                return Some(Unfit { path: entry.path(), what });
            }
            if count > MOST_ENTRIES {
                return None;
            }
        }
    }
    None
}
