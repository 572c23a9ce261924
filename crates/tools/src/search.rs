//! Helpers for Glob and Grep: the place to search, the check which found files the agent is allowed
//! to see, and the order and paths of files in the results.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pitcrew_permission::gate;
use rustix::fs::FileType;

use super::ToolContext;
use super::walk::Entry;

/// A place to search: its path as the model gave it, and the real path that the permission gate
/// checked.
pub(super) struct Place {
    pub(super) written: PathBuf,
    pub(super) real: PathBuf,
}

impl Place {
    /// Returns the path of a found file, as it is shown to the model.
    pub(super) fn path_of(&self, entry: &Entry) -> PathBuf {
        below(&self.written, &entry.relative)
    }

    /// Whether the agent is allowed to see the entry. For a link, the path of the target is also
    /// checked, although the search does not follow the link.
    pub(super) fn shows(&self, entry: &Entry, context: &ToolContext) -> bool {
        let real = below(&self.real, &entry.relative);
        let end = if entry.kind == FileType::Symlink {
            gate::resolve(&self.real, &real)
        } else {
            Some(real)
        };
        // A permission rule can contain the path as the model gave it, or the real path. Check both
        // paths.
        let written = self.path_of(entry);
        end.is_some_and(|end| !context.gate.is_read_denied(&context.cwd, &written, end))
    }
}

fn below(folder: &Path, relative: &Path) -> PathBuf {
    // Joining an empty path would add a slash at the end. The path of a file would then look like a
    // folder.
    if relative.as_os_str().is_empty() { folder.to_owned() } else { folder.join(relative) }
}

/// A file that a search found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) modified: SystemTime,
}

/// Sorts files by the time of the last change, the newest first. Files with the same time are
/// sorted by path.
pub(super) fn newest_first(files: &mut [Found]) {
    files.sort_by(|one, other| (other.modified, &one.path).cmp(&(one.modified, &other.path)));
}

/// Returns the path of a file as it is shown to the model: relative to the working folder if the
/// file is inside it, otherwise unchanged.
pub(super) fn shown(path: &Path, cwd: &Path) -> String {
    let shown = path.strip_prefix(cwd).unwrap_or(path);
    let shown = if shown.as_os_str().is_empty() { path } else { shown };
    shown.display().to_string()
}
