//! Checks whether a git command may show earlier contents of files that rules forbid to read. File
//! permissions cannot prevent this, because git stores the contents in its own objects.

use std::path::Path;

use pitcrew_process::sandbox::git_folder::GitFolder;

use super::git_index;
use super::judge::Gate;
use super::paths::Target;
use super::rules::{Access, Rule};
use super::shell::{History, ShellWord, git_path, is_blob};

/// Maximum number of folders that are tried as the top of the repository: the working folder and
/// the folders above it.
const TOPS: usize = 16;

/// The permission gate and the folders for which a command is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) gate: &'a Gate,
    pub(super) cwd: &'a Path,
    /// The folders in which the command may be running.
    pub(super) folders: &'a [std::path::PathBuf],
}

impl Place<'_> {
    /// Returns true if the word names a file in git's history that the rule matches. The path in
    /// the word may be relative to any folder from the working folder up to the repository's top.
    pub(super) fn names(&self, rule: &Rule, word: &ShellWord) -> bool {
        // In `revision:path`, the path itself may contain colons. Therefore try the text after each
        // colon.
        let behind = word.text.match_indices(':').filter_map(|(at, _)| word.text.get(at + 1..));
        let paths: Vec<&str> =
            behind.chain(git_path(&word.text)).filter(|path| !path.is_empty()).collect();
        let tops = self.folders.iter().flat_map(|folder| folder.ancestors().take(TOPS));
        let touches = |top: &Path, path: &&str| {
            rule.touches(Access::Read, self.cwd, &self.gate.target(top, path))
        };
        tops.into_iter().any(|top| paths.iter().any(|path| touches(top, path)))
    }

    /// Returns true if the contents that git shows may include a file that the rule matches.
    pub(super) fn may_show(&self, rule: &Rule, history: &History) -> bool {
        if !rule.is_about(Access::Read) {
            return false;
        }
        // A clone or a new worktree contains every tracked file, so check whether git tracks a file
        // that the rule matches.
        if history.copies {
            return self.tracks(rule);
        }
        if !history.limits.is_empty() {
            return history.limits.iter().any(|limit| self.may_lie_in(rule, limit));
        }
        let is_file = |word: &ShellWord| {
            let exists =
                |folder: &std::path::PathBuf| folder.join(&word.text).symlink_metadata().is_ok();
            word.exact().is_some_and(|text| !text.is_empty()) && self.folders.iter().any(exists)
        };
        let (blobs, others): (Vec<&ShellWord>, Vec<&ShellWord>) =
            history.operands.iter().partition(|word| is_blob(word));
        let (files, revisions): (Vec<&ShellWord>, Vec<&ShellWord>) =
            others.into_iter().partition(|word| is_file(word));
        if !files.is_empty() {
            return files.into_iter().any(|file| self.may_lie_in(rule, file));
        }
        // No operand is a file. If there is a revision, or no operand at all, git may show every
        // tracked file.
        if !revisions.is_empty() || blobs.is_empty() {
            return true;
        }
        blobs.into_iter().any(|blob| self.names(rule, blob))
    }

    /// Returns true if the repository tracks a file that the rule matches. Also returns true if the
    /// repository's index cannot be read.
    fn tracks(&self, rule: &Rule) -> bool {
        let Some(pattern) = rule.path_pattern() else { return true };
        let bases = pattern.bases(self.cwd);
        let repositories = self.folders.iter().filter_map(|folder| GitFolder::as_git_sees(folder));
        repositories.into_iter().any(|git| match git_index::entries(&git.own) {
            Ok(entries) => {
                entries.iter().any(|entry| pattern.speaks_of(&bases, &git.top.join(&entry.path)))
            }
            // If the index cannot be read, any file may be tracked.
            Err(_unknown) => true,
        })
    }

    fn may_lie_in(&self, rule: &Rule, limit: &ShellWord) -> bool {
        let Some(path) = limit.exact().filter(|path| !path.contains(['*', '?', '[', ':', '\\']))
        else {
            return true;
        };
        self.folders.iter().any(|folder| {
            let target: Target = self.gate.target(folder, path);
            let is_file = target.resolved.as_ref().is_some_and(|path| path.is_file());
            match is_file {
                true => rule.touches(Access::Read, self.cwd, &target),
                false => rule.may_lie_below(Access::Read, self.cwd, &target),
            }
        })
    }
}
