//! Finds git's lock files. A command that was killed, or that wants to, leaves one behind. As long as
//! it exists, git refuses to write the file that it stands for.

use std::path::{Path, PathBuf};

use super::git_folder::GitFolder;
use crate::given_file::read_plain;

/// Maximum size of a `HEAD` file, in bytes.
const MOST_BYTES: u64 = 4096;

/// The place of a lock file.
enum Place {
    /// The checkout's own git folder.
    Own,
    /// The git folder that all worktrees share.
    Common,
}

/// Git's lock files, with what git refuses as long as they exist.
const LOCKS: [(Place, &str, &str); 7] = [
    (Place::Own, "index.lock", "nobody can add, commit or merge in this checkout"),
    (Place::Own, "HEAD.lock", "nobody can commit or change the branch in this checkout"),
    (Place::Common, "config.lock", "nobody can change the repository's settings"),
    (Place::Common, "packed-refs.lock", "nobody can delete a branch, so no worktree is cleaned up"),
    (Place::Common, "shallow.lock", "nobody can fetch into a shallow clone"),
    (Place::Common, "objects/info/commit-graph.lock", "git cannot write its graph of commits"),
    (Place::Common, "objects/maintenance.lock", "git does not tidy the repository up"),
];

/// What it costs that the lock file of the current branch exists.
const OF_BRANCH: &str = "nobody can commit on this branch or merge into it";

/// A lock file of git.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitLock {
    /// The path of the lock file.
    pub path: PathBuf,
    /// What nobody can do as long as it exists.
    pub costs: &'static str,
}

impl GitLock {
    /// Returns the lock files in the git folders of the checkout around a folder. A git that runs
    /// right now has such files too.
    #[must_use]
    pub fn all_in(folder: &Path) -> Vec<Self> {
        let Some(git) = GitFolder::as_git_sees(folder) else { return Vec::new() };
        let named = LOCKS.iter().map(|(place, name, costs)| match place {
            Place::Own => (git.own.join(name), *costs),
            Place::Common => (git.common.join(name), *costs),
        });
        let of_branch = branch(&git).map(|path| (path, OF_BRANCH));
        let found = named.chain(of_branch).map(|(path, costs)| Self { path, costs });
        found.filter(|lock| lock.path.symlink_metadata().is_ok()).collect()
    }

    /// Returns a sentence about the lock file, for a person or a model.
    #[must_use]
    pub fn said(&self) -> String {
        format!(
            "{} is there: until it is removed, {}; if no git runs there, remove it",
            self.path.display(),
            self.costs
        )
    }
}

/// Returns the path of the lock file of the checked out branch.
fn branch(git: &GitFolder) -> Option<PathBuf> {
    let head = read_plain(&git.own.join("HEAD"), MOST_BYTES).ok()?;
    let reference = head.strip_prefix("ref:")?.trim();
    let is_branch = reference.starts_with("refs/heads/") && !reference.contains("..");
    is_branch.then(|| git.common.join(format!("{reference}.lock")))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn each_lock_file_that_stops_git_is_found_with_its_cost() {
        let dir = tempfile::tempdir().unwrap();
        let made =
            Command::new("git").args(["init", "-q", "-b", "main"]).current_dir(&dir).status();
        assert!(made.unwrap().success());
        assert_eq!(GitLock::all_in(dir.path()), []);
        let git = fs::canonicalize(dir.path()).unwrap().join(".git");
        fs::create_dir_all(git.join("objects/info")).unwrap();
        let names = LOCKS.iter().map(|(_, name, _)| *name).chain(["refs/heads/main.lock"]);
        for name in names {
            fs::write(git.join(name), "").unwrap();
            let [lock] = GitLock::all_in(dir.path()).try_into().unwrap();
            assert_eq!(lock.path, git.join(name));
            fs::remove_file(git.join(name)).unwrap();
        }
    }
}
