//! Finds the repository that git uses in a folder, and the first thing in it that makes git run a
//! program or read another repository.

use std::path::{Path, PathBuf};

use pitcrew_process::sandbox::git_folder::GitFolder;

use super::git_programs::{Hooks, Search, Verbs, in_bare_repository, in_repository};
use super::judge::Gate;
use super::programs::is_bare_repository;

/// The repository of the working folder, with which all others are compared.
#[derive(Debug)]
pub(super) struct Surroundings<'a> {
    gate: &'a Gate,
    own: Option<GitFolder>,
    verbs: &'a Verbs,
    /// True if git may do more than read.
    writes: bool,
}

impl<'a> Surroundings<'a> {
    pub(super) fn of(gate: &'a Gate, cwd: &Path, verbs: &'a Verbs, writes: bool) -> Self {
        Self { gate, own: GitFolder::as_git_sees(cwd), verbs, writes }
    }

    /// Returns what git would do in this folder because of the repository that it finds there.
    pub(super) fn names_from(&self, folder: &Path) -> Option<String> {
        let folder = folder.canonicalize().ok()?;
        for top in folder.ancestors() {
            let entry = top.join(".git");
            if let Ok(metadata) = entry.symlink_metadata() {
                match GitFolder::as_git_sees(top).filter(|git| git.top == top) {
                    Some(git) => return self.of_checkout(&git),
                    // Git goes on from a folder `.git` that is not a repository.
                    None if metadata.is_dir() && !entry.join("commondir").exists() => {}
                    None => return Some(format!("git would obey {}", entry.display())),
                }
            }
            if is_bare_repository(top) {
                return self.of_bare(top);
            }
        }
        None
    }

    fn of_checkout(&self, git: &GitFolder) -> Option<String> {
        if let Some(outside) = self.gate.sandbox.untrusted_git(&git.top) {
            return Some(format!("git would read {}, which nobody trusts", outside.display()));
        }
        let is_own = self.own.as_ref().is_some_and(|own| own.common == git.common);
        let key = in_repository(&git.top, self.search(is_own))?;
        Some(match is_own {
            true => in_words(&key, "the repository"),
            false => in_words(&key, &git.top.display().to_string()),
        })
    }

    fn of_bare(&self, folder: &Path) -> Option<String> {
        let folders = |git: &GitFolder| [git.own.clone(), git.common.clone()];
        let is_own = self.own.iter().flat_map(folders).any(|own: PathBuf| own == folder);
        // Git writes the path to the common folder into the folder of a worktree.
        let has_own_common = is_own && folder.join("commondir").exists();
        if has_own_common {
            return None;
        }
        let key = in_bare_repository(folder, self.search(is_own))?;
        Some(in_words(&key, &folder.display().to_string()))
    }

    /// In its own repository the working folder's hooks run for the commands for which git has
    /// them. A command that reads runs none but the hook of the index.
    fn search(&self, is_own: bool) -> Search<'_> {
        let hooks = if is_own || !self.writes { Hooks::OfIndex } else { Hooks::All };
        Search { home: self.gate.home.as_deref(), hooks, verbs: self.verbs }
    }
}

fn in_words(key: &str, place: &str) -> String {
    format!("git would run what {key} of {place}'s configuration names")
}
