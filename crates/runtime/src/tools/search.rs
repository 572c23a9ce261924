//! Walks folders the way ripgrep does, for Glob and Grep: what git ignores is left out, hidden files
//! are not, and the folders of version control are never entered.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ignore::{Walk, WalkBuilder};

/// Folders of version control.
const CONTROL_FOLDERS: [&str; 4] = [".git", ".hg", ".svn", ".jj"];

/// Walks what is below `root`, in the order of the names.
pub(super) fn walk(root: &Path) -> Walk {
    WalkBuilder::new(root)
        .hidden(false)
        .require_git(false)
        .follow_links(false)
        .sort_by_file_name(std::ffi::OsStr::cmp)
        .filter_entry(|entry| !entry.file_name().to_str().is_some_and(|name| CONTROL_FOLDERS.contains(&name)))
        .build()
}

/// A file that was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) modified: SystemTime,
}

/// Sorts files by their last change, newest first, and by path where that is equal.
pub(super) fn newest_first(files: &mut [Found]) {
    files.sort_by(|one, other| (other.modified, &one.path).cmp(&(one.modified, &other.path)));
}

/// The path as a model is told it: from the working folder when it is below that.
pub(super) fn shown(path: &Path, cwd: &Path) -> String {
    let shown = path.strip_prefix(cwd).unwrap_or(path);
    let shown = if shown.as_os_str().is_empty() { path } else { shown };
    shown.display().to_string()
}
