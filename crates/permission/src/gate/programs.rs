//! Determines which programs a command runs, and which repository git would use.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pitcrew_process::checkout::checkout_around;

use super::judge::Gate;
use super::paths::Target;

/// Folders in which programs are searched if the gate has no search path (`PATH`).
const USUAL: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// Folders whose programs count as programs of the system, even if the working folder is `/`.
const OF_THE_SYSTEM: [&str; 7] = [
    "/usr/local/bin",
    "/usr/bin",
    "/bin",
    "/usr/local/sbin",
    "/usr/sbin",
    "/sbin",
    "/opt/homebrew/bin",
];

/// Returns true if the name may run a program from the working folders instead of a program of the
/// system.
pub(super) fn is_of_the_project(gate: &Gate, cwd: &Path, folders: &[PathBuf], name: &str) -> bool {
    // A name with a slash is not searched in `PATH`, so it can be any file.
    if name.contains('/') {
        return true;
    }
    let usual = USUAL.iter().map(Path::new).filter(|_| gate.search_path.is_empty());
    for entry in gate.search_path.iter().map(PathBuf::as_path).chain(usual) {
        if OF_THE_SYSTEM.iter().any(|folder| entry == Path::new(folder))
            && is_program(&entry.join(name))
        {
            return false;
        }
        // An entry of `PATH` can be a relative folder, and `cd` changes where it leads. Therefore
        // search the entry from each folder in which the command may run.
        let places = folders.iter().map(|folder| folder.join(entry).join(name));
        let found: Vec<PathBuf> = places.filter(|place| is_program(place)).collect();
        let is_inside = |place: &PathBuf| gate.is_inside(cwd, &Target::new(cwd, place));
        if found.iter().any(is_inside) || !found.is_empty() && !entry.is_absolute() {
            return true;
        }
        if !found.is_empty() {
            return false;
        }
    }
    false
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Returns true if git may use a repository other than the working folder's repository. The user
/// trusts only the working folder's repository, because the user cloned or created it.
pub(super) fn may_leave_repository(cwd: &Path, folders: &[PathBuf], moves: bool) -> bool {
    let home = checkout_around(cwd);
    folders.iter().any(|folder| is_loose_repository(folder) || checkout_around(folder) != home)
        || moves && home.is_none()
}

/// Returns true if git may treat the folder, or a folder above it, as a repository although it has
/// no `.git`. A few plain files are enough for that, so an agent could create such a repository.
fn is_loose_repository(folder: &Path) -> bool {
    let is_there = |folder: &Path, name: &str| folder.join(name).symlink_metadata().is_ok();
    let below_top = folder.ancestors().take_while(|folder| !is_there(folder, ".git"));
    below_top
        .into_iter()
        .any(|folder| ["HEAD", "objects", "refs"].iter().all(|name| is_there(folder, name)))
}
