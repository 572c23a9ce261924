//! Checks the paths that git opens or writes before git does.
//!
//! An archive can contain links and special files in a git folder, and confined commands make them.
//! Git follows a link at `logs/HEAD`, at `packed-refs` or at the folder `refs`, and appends to or
//! replaces the file at its end. It waits for ever when it opens a FIFO.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirEntry, FileType, Metadata};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use super::OurGitError;
use crate::checkout::checkout_around;
use crate::given_file::{Given, check_plain};
use crate::sandbox::git_folder::GitFolder;
use crate::sandbox::trail;

/// Files in a git folder that git opens at every command. An archive can contain a FIFO in place of
/// such a file, and git would wait forever when it opens the FIFO.
const GIT_FILES: [&str; 9] = [
    "HEAD",
    "commondir",
    "config",
    "config.worktree",
    "gitdir",
    "index",
    "info/attributes",
    "info/exclude",
    "packed-refs",
];

/// Files in a checkout that git opens at every command. They must be plain files, for the same
/// reason as the files in `GIT_FILES`.
const CHECKOUT_FILES: [&str; 3] = [".gitattributes", ".gitignore", ".gitmodules"];

/// Maximum size of a `.git` file in bytes. Real `.git` files are much smaller.
const POINTER_BYTES: u64 = 16 * 1024;

/// Entries of a git folder that our commands write, or below which they write. Other entries, such
/// as `hooks`, may be links: git only reads them.
const WRITTEN: [&str; 22] = [
    "AUTO_MERGE",
    "COMMIT_EDITMSG",
    "FETCH_HEAD",
    "HEAD",
    "MERGE_HEAD",
    "MERGE_MODE",
    "MERGE_MSG",
    "MERGE_RR",
    "ORIG_HEAD",
    "SQUASH_MSG",
    "config",
    "config.worktree",
    "gc.pid",
    "index",
    "info",
    "logs",
    "objects",
    "packed-refs",
    "packed-refs.new",
    "refs",
    "reftable",
    "worktrees",
];

/// Ends of the names of other files that git writes in every folder.
const LOCK: &str = ".lock";

/// Entries of the folder `info` that git writes.
const WRITTEN_OF_INFO: [&str; 2] = ["refs", "sparse-checkout"];

/// Maximum number of entries of one folder that are examined.
const MOST_ENTRIES: usize = 20_000;

/// What a git command writes beside the git folder itself.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Written<'a> {
    /// The checkouts whose files the command writes.
    pub(crate) folders: &'a [&'a Path],
    /// A folder from which the command removes a checkout.
    pub(crate) emptied: Option<&'a Path>,
    /// The full names of the references that the command writes.
    pub(crate) references: &'a [&'a str],
    /// Whether the command changes modes.
    pub(crate) changes_modes: bool,
}

/// Returns an error if git would open a file in the checkout or its git folder that is not a plain
/// file. `words` are the arguments of the command. They can name references.
pub(super) fn check_files(folder: &Path, words: &[OsString]) -> io::Result<()> {
    let Some(top) = checkout_around(folder) else { return Ok(()) };
    let link = top.join(".git");
    let pointed = Given::ByUser.read_text(&link, POINTER_BYTES).ok().flatten();
    // In a worktree or a submodule, `.git` is a file that names the git folder. Otherwise `.git` is
    // the git folder itself.
    let own = pointed
        .and_then(|text| Some(top.join(text.strip_prefix("gitdir:")?.trim())))
        .unwrap_or(link);
    let common = own
        .ancestors()
        .nth(2)
        .filter(|_| own.parent().is_some_and(|folder| folder.ends_with("worktrees")));
    let of_git = [Some(own.as_path()), common].into_iter().flatten();
    let of_git = of_git.flat_map(|folder| GIT_FILES.map(|name| folder.join(name)));
    let mut files = of_git.chain(CHECKOUT_FILES.map(|name| top.join(name)));
    files.try_for_each(|file| {
        let said = |refused| io::Error::other(format!("{} is not read: {refused}", file.display()));
        check_plain(&file, u64::MAX).map_err(said)
    })?;
    let head = Given::ByUser.read_text(&own.join("HEAD"), POINTER_BYTES).ok().flatten();
    let head = head.as_deref().and_then(|text| text.strip_prefix("ref:")).map(str::trim);
    let named = words.iter().filter_map(|word| reference_in(word.to_str()?));
    let mut references = named.chain(head).map(|name| common.unwrap_or(&own).join(name));
    references.try_for_each(|file| match fs::metadata(&file) {
        Ok(metadata) if is_special(metadata.file_type()) => {
            Err(io::Error::other(format!("{} is not read: it is no plain file", file.display())))
        }
        // Git reports every other problem itself.
        Ok(_) | Err(_) => Ok(()),
    })
}

/// Returns the full name of the reference in an argument such as `^refs/heads/main` or
/// `refs/heads/main^{commit}`.
fn reference_in(word: &str) -> Option<&str> {
    let name = word.strip_prefix('^').unwrap_or(word);
    let name = name.strip_suffix("^{commit}").unwrap_or(name);
    name.starts_with("refs/").then_some(name)
}

fn is_special(kind: FileType) -> bool {
    kind.is_fifo() || kind.is_socket() || kind.is_block_device() || kind.is_char_device()
}

/// Checks that no path which git writes in a git folder is a special file, or a link that leaves the
/// folder. Returns the targets of links that lead into a folder that the user trusts.
pub(super) fn check(
    git: &GitFolder,
    written: &Written<'_>,
    trusted: &[PathBuf],
) -> Result<Vec<PathBuf>, OurGitError> {
    let mut walk = Walk { git, trusted, targets: BTreeSet::new() };
    let folders: BTreeSet<&Path> = [git.common.as_path(), &git.own].into();
    for folder in folders {
        walk.entries(folder, |name| WRITTEN.iter().any(|it| name.eq_ignore_ascii_case(it)))?;
        walk.entries(&folder.join("info"), |name| WRITTEN_OF_INFO.contains(&name))?;
        // The name `HEAD` has a reflog in each git folder.
        for reference in written.references.iter().copied().chain(["HEAD"]) {
            walk.way(folder, &folder.join(reference))?;
            walk.way(folder, &folder.join("logs").join(reference))?;
        }
    }
    walk.entries(&git.common.join("objects"), |_| true)?;
    walk.entries(&git.common.join("worktrees"), |_| true)?;
    Ok(walk.targets.into_iter().collect())
}

struct Walk<'a> {
    git: &'a GitFolder,
    trusted: &'a [PathBuf],
    targets: BTreeSet<PathBuf>,
}

impl Walk<'_> {
    /// Checks the entries of a folder that git writes, and all lock files.
    fn entries(
        &mut self,
        folder: &Path,
        is_written: impl Fn(&str) -> bool,
    ) -> Result<(), OurGitError> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            // Git creates a missing folder. Something else in its place was checked before.
            Err(_not_a_folder) => return Ok(()),
        };
        for (count, entry) in entries.filter_map(Result::ok).enumerate() {
            if count >= MOST_ENTRIES {
                let why = format!("it has more than {MOST_ENTRIES} entries");
                return Err(OurGitError::Written { path: folder.to_owned(), why });
            }
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if is_written(&name) || name.ends_with(LOCK) {
                self.entry(&entry.path(), DirEntry::file_type(&entry).ok())?;
            }
        }
        Ok(())
    }

    /// Checks each part of a path below a git folder, and the lock file beside its end.
    fn way(&mut self, folder: &Path, path: &Path) -> Result<(), OurGitError> {
        let parts = path.ancestors().take_while(|part| *part != folder);
        let mut lock = path.to_owned().into_os_string();
        lock.push(LOCK);
        let lock = PathBuf::from(lock);
        for part in parts.collect::<Vec<_>>().into_iter().rev().chain([lock.as_path()]) {
            self.entry(part, fs::symlink_metadata(part).ok().as_ref().map(Metadata::file_type))?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, kind: Option<FileType>) -> Result<(), OurGitError> {
        let Some(kind) = kind else { return Ok(()) };
        let refused = |why: String| Err(OurGitError::Written { path: path.to_owned(), why });
        if is_special(kind) {
            return refused("this is no plain file".to_owned());
        }
        if !kind.is_symlink() {
            return Ok(());
        }
        // The end of a link need not exist yet: git would create it.
        let (Some(end), _) = trail(path) else {
            return refused("this is a link that leads round in a circle".to_owned());
        };
        let is_below = |folder: &PathBuf| end.starts_with(folder);
        if [&self.git.common, &self.git.own].into_iter().any(is_below) {
            return Ok(());
        }
        if self.trusted.iter().any(is_below) {
            self.targets.insert(end);
            return Ok(());
        }
        refused(format!("this is a link that leads out of the git folder, to {}", end.display()))
    }
}
