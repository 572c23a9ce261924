//! Determines which programs a command runs, and which repository git would use.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pitcrew_process::checkout::checkout_around;
use pitcrew_process::sandbox::git_folder::GitFolder;

use super::judge::Gate;
use super::paths::Target;
use super::shell::is_known_name;

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

/// Returns true if a program of the working folders would run although the name is that of a
/// program of the system whose effect the gate knows. A rule for such a name is meant for the
/// program of the system.
pub(super) fn replaces_known(gate: &Gate, cwd: &Path, folders: &[PathBuf], name: &str) -> bool {
    let is_of_the_system =
        || OF_THE_SYSTEM.iter().any(|folder| is_program(&Path::new(folder).join(name)));
    !name.contains('/')
        && is_known_name(name)
        && is_of_the_system()
        && is_of_the_project(gate, cwd, folders, name)
}

/// Returns true if the path leads to a plain file that is executable.
pub(super) fn is_program(path: &Path) -> bool {
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

/// Returns true if git may treat the folder, or a folder above it, as a repository although it is
/// not called `.git`. A few plain files are enough for that, so an agent could create such a
/// repository. Git finds it also beside a `.git` that is not a repository.
fn is_loose_repository(folder: &Path) -> bool {
    let folder = fs::canonicalize(folder).unwrap_or_else(|_not_there| folder.to_path_buf());
    let top = GitFolder::as_git_sees(&folder).map(|git| git.top);
    let below_top = folder.ancestors().take_while(|folder| top.as_deref() != Some(folder));
    below_top.into_iter().any(is_bare_repository)
}

/// Returns true if git may treat the folder itself as a repository although it is not called
/// `.git`.
pub(super) fn is_bare_repository(folder: &Path) -> bool {
    let has = |name: &str| is_there(folder, name);
    has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}

fn is_there(folder: &Path, name: &str) -> bool {
    folder.join(name).symlink_metadata().is_ok()
}
