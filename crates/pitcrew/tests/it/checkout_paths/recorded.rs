//! The paths below a checkout that a run touches, as `strace` recorded them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Calls that only bubblewrap makes. Their relative paths belong to a file system of its own.
const OF_MOUNTS: [&str; 5] = ["mount(", "umount2(", "pivot_root(", "symlink(", "mkdir(\"newroot"];

/// A checkout in which files are planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Checkout {
    /// The user's working folder, from an archive.
    Work,
    /// The worktree of a teammate.
    Worktree,
}

/// A path below a checkout.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) checkout: Checkout,
    pub(super) below: PathBuf,
}

impl Place {
    /// Whether an archive can have a file there. Otherwise a command puts it there, while the run's
    /// worktree exists.
    pub(super) fn is_of_archive(&self) -> bool {
        let of_worktree =
            [".git/worktrees/", ".git/refs/heads/pitcrew", ".git/logs/refs/heads/pitcrew"];
        let below = self.below.display().to_string();
        self.checkout == Checkout::Work && !of_worktree.iter().any(|it| below.starts_with(it))
    }
}

/// Reads the files that `strace -ff -o FILE -y -e trace=%file` wrote, one for each process.
pub(super) fn places(traces: &Path, work: &Path, worktree: &Path) -> BTreeSet<Place> {
    let mut found = BTreeSet::new();
    for trace in fs::read_dir(traces).unwrap() {
        let text = fs::read(trace.unwrap().path()).unwrap();
        let mut folder = work.to_owned();
        for line in String::from_utf8_lossy(&text).lines() {
            for path in paths(line, &mut folder) {
                found.extend(place(&path, work, worktree));
            }
        }
    }
    found
}

/// Returns the paths in one line of a trace. `folder` is the working folder of the process.
fn paths(line: &str, folder: &mut PathBuf) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if OF_MOUNTS.iter().any(|call| line.starts_with(call)) {
        return found;
    }
    let mut base = None;
    let mut rest = line;
    while let Some(at) = rest.find(['<', '"']) {
        let (is_folder, end) = match rest.as_bytes()[at] {
            b'<' => (true, '>'),
            _ => (false, '"'),
        };
        let from = &rest[at + 1..];
        let Some(length) = from.find(end) else { break };
        let text = &from[..length];
        if is_folder && !text.starts_with('/') {
            // A pipe or a socket.
        } else if is_folder {
            base = Some(PathBuf::from(text));
            if line.contains(&format!("AT_FDCWD<{text}>")) {
                *folder = PathBuf::from(text);
            }
        } else if !text.contains('\\') {
            found.push(base.take().unwrap_or_else(|| folder.clone()).join(text));
        }
        rest = &from[length + 1..];
    }
    // The other texts of this call are the arguments of a program.
    if line.starts_with("execve(") {
        found.truncate(1);
    }
    found
}

fn place(path: &Path, work: &Path, worktree: &Path) -> Option<Place> {
    let path = plain(path);
    let of = |checkout, top: &Path| {
        let below = path.strip_prefix(top).ok()?.to_owned();
        let is_chosen = !below.as_os_str().is_empty() && is_steady(&below);
        is_chosen.then_some(Place { checkout, below })
    };
    of(Checkout::Work, work).or_else(|| of(Checkout::Worktree, worktree))
}

/// Removes `.` and `..` from a path.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => _ = plain.pop(),
            part => plain.push(part),
        }
    }
    plain
}

/// Whether the next run touches the same path. Objects and temporary files have other names there.
fn is_steady(below: &Path) -> bool {
    let text = below.display().to_string();
    let is_hash = |part: &str| {
        part.len() == 2
            && part.bytes().all(|byte| byte.is_ascii_hexdigit())
            && text.contains("objects/")
    };
    let is_passing = |part: &str| {
        is_hash(part)
            || part == "newroot"
            || part == "oldroot"
            || part == "usr"
            || part.starts_with("tmp_")
            || part.starts_with(".tmp")
            || part.contains(".quarantined-")
            || part.chars().any(|char| char.is_control())
    };
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    digits < 8 && !text.split('/').any(is_passing) && text.len() < 200
}
