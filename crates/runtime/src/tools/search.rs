//! Walks folders the way ripgrep does, for Glob and Grep: what git ignores is left out, hidden files
//! are not, and the folders of version control are never entered.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ignore::{Walk, WalkBuilder};

use super::ToolOutcome;
use crate::given_file::check_plain;

/// Folders of version control.
const CONTROL_FOLDERS: [&str; 4] = [".git", ".hg", ".svn", ".jj"];

/// The files in a folder that say what is ignored there and below.
const IGNORE_FILES: [&str; 3] = [".gitignore", ".ignore", ".git/info/exclude"];

/// No honest one is longer.
const IGNORE_LIMIT_BYTES: u64 = 4 * 1024 * 1024;

/// Walks what is below `root`, in the order of the names. A folder below whose ignore file is no plain file is left out: to
/// read a FIFO would take for ever, and a device without an end all memory. Those of `root` and above are checked by [`check`].
pub(super) fn walk(root: &Path) -> Walk {
    WalkBuilder::new(root)
        .hidden(false)
        .require_git(false)
        .follow_links(false)
        .sort_by_file_name(std::ffi::OsStr::cmp)
        .filter_entry(|entry| {
            let is_control = entry.file_name().to_str().is_some_and(|name| CONTROL_FOLDERS.contains(&name));
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            !(is_control || is_folder && check_ignore_files(entry.path()).is_err())
        })
        .build()
}

/// Refuses a walk that would read an ignore file of `root` or of a folder above that is no plain file.
pub(super) fn check(root: &Path) -> Result<(), ToolOutcome> {
    let above = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
    above.ancestors().try_for_each(check_ignore_files)
}

fn check_ignore_files(folder: &Path) -> Result<(), ToolOutcome> {
    for file in IGNORE_FILES.map(|name| folder.join(name)) {
        if let Err(refused) = check_plain(&file, IGNORE_LIMIT_BYTES) {
            let said = format_args!("{} is not read, and nothing is searched below it: {refused}", file.display());
            return Err(ToolOutcome::refused(said));
        }
    }
    Ok(())
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
