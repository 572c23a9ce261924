//! Files that Glob and Grep found, and how they are listed.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::FileType;

use super::ToolContext;
use super::walk::Entry;
use pitcrew_permission::gate;

/// A place that is searched: as it was named, and the real path that was judged.
pub(super) struct Place {
    pub(super) written: PathBuf,
    pub(super) real: PathBuf,
}

impl Place {
    /// The path of something that was found, as it is told.
    pub(super) fn path_of(&self, entry: &Entry) -> PathBuf {
        below(&self.written, &entry.relative)
    }

    /// Whether the agent may know of it. Of a link its end counts too, although it is not followed.
    pub(super) fn shows(&self, entry: &Entry, context: &ToolContext) -> bool {
        let real = below(&self.real, &entry.relative);
        let end = if entry.kind == FileType::Symlink {
            gate::resolve(&self.real, &real)
        } else {
            Some(real)
        };
        let written = self.path_of(entry);
        end.is_some_and(|end| !context.gate.is_read_denied(&context.cwd, &written, end))
    }
}

fn below(folder: &Path, relative: &Path) -> PathBuf {
    // To join with nothing would make a folder of a file's path.
    if relative.as_os_str().is_empty() { folder.to_owned() } else { folder.join(relative) }
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
