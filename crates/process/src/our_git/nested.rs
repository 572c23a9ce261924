//! Lists what the index of a checkout says about files that `git status` does not report, and about
//! repositories inside the checkout.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use super::{Access, OurGit, OurGitError, Programs};

/// Maximum size of one entry of git's list in bytes. A path has at most 4096 bytes.
const ENTRY_BYTES: usize = 8 * 1024;

/// Maximum number of repositories inside a checkout.
const MOST_NESTED: usize = 10_000;

/// The mode of an entry that is another repository.
const REPOSITORY: &[u8] = b"160000";

/// What the index of a checkout says about unusual entries.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// The number of files that exist and that git was told not to look at (`--skip-worktree`,
    /// `--assume-unchanged`).
    pub(crate) unseen: usize,
    /// The folders of other repositories that are checked out, such as submodules.
    pub(crate) nested: Vec<PathBuf>,
}

impl OurGit {
    /// Lists the unusual entries in the index of a checkout.
    pub(crate) async fn listed(&self, top: &Path) -> Result<Listed, OurGitError> {
        let top = &fs::canonicalize(top).map_err(OurGitError::io("open", top))?;
        let mut listed = Listed::default();
        let mut entry = Vec::new();
        let mut is_too_long = false;
        let words = ["ls-files", "-v", "--stage", "-z"];
        let take = |bytes: &[u8]| {
            for byte in bytes {
                match byte {
                    0 => listed.add(top, &std::mem::take(&mut entry)),
                    _ if entry.len() < ENTRY_BYTES => entry.push(*byte),
                    _ => is_too_long = true,
                }
            }
        };
        let answer = self.run(top, words, Access::Look, Programs::default(), take).await?;
        if answer.is_success && !is_too_long && listed.nested.len() <= MOST_NESTED {
            return Ok(listed);
        }
        let answer = match answer.is_success {
            true => "the index has an entry that is too long, or too many repositories".to_owned(),
            false => String::from_utf8_lossy(&answer.stderr).trim().to_owned(),
        };
        Err(OurGitError::Git { command: "ls-files".to_owned(), answer })
    }
}

impl Listed {
    /// Adds an entry of the form `FLAG MODE ID STAGE<tab>PATH`.
    fn add(&mut self, top: &Path, entry: &[u8]) {
        let Some(tab) = entry.iter().position(|byte| *byte == b'\t') else { return };
        let path = entry.get(tab + 1..).unwrap_or_default();
        let mut fields = entry.get(..tab).unwrap_or_default().split(|byte| *byte == b' ');
        let (Some(flag), Some(mode)) = (fields.next(), fields.next()) else { return };
        let path = Path::new(OsStr::from_bytes(path));
        // Git's index has no other paths. A forged one must not lead out of the checkout.
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return;
        }
        let path = top.join(path);
        let is_unseen = flag == b"S" || flag.first().is_some_and(u8::is_ascii_lowercase);
        if is_unseen && mode != REPOSITORY && path.symlink_metadata().is_ok() {
            self.unseen += 1;
        }
        // Behind a link is no part of the checkout.
        let is_checked_out = || {
            path.join(".git").symlink_metadata().is_ok()
                && fs::canonicalize(&path).is_ok_and(|real| real == path)
        };
        if mode == REPOSITORY && self.nested.len() <= MOST_NESTED && is_checked_out() {
            self.nested.push(path);
        }
    }
}
