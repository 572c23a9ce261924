//! Lists what pitcrew leaves alone in the worktrees of a repository, for a person who decides.
//!
//! Earlier versions of pitcrew kept a record and a marker in the repository's `.git` folder. Others
//! can write there, so these files are only hints: they are shown, and nothing is done by them.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::record::{Repository, Stage};
use super::recovery::is_gone;
use super::registrations::{Registrations, read_in};
use super::{RECORDS, Worktree, WorktreeError, Worktrees};

/// The file in the git folder in which earlier versions recorded their unfinished work.
const EARLIER_LOCK: &str = "pitcrew-worktrees.lock";

/// The file by which earlier versions recognized their worktrees, in git's data about a worktree.
const EARLIER_MARKER: &str = "pitcrew-worktree";

/// Maximum size in bytes of a file of an earlier version.
const MOST_BYTES: u64 = 16 * 1024;

/// Maximum number of characters that are shown of a name or path in such a file.
const SHOWN_CHARS: usize = 200;

/// Something that pitcrew does not remove by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leftover {
    /// The process that created or removed this worktree has died. [`Worktrees::recover`] cleans
    /// up.
    Unfinished(Worktree),
    /// Git lists a worktree in pitcrew's folder of which pitcrew has no record. An earlier version
    /// may have created it.
    Unrecorded {
        /// The folder of the worktree.
        path: PathBuf,
        /// What a marker of an earlier version claims, if there is one.
        claim: Option<String>,
    },
    /// Pitcrew created this worktree. Git does not list it any more, and something is in its place.
    Unlisted(Worktree),
    /// A file of an earlier version in the repository's `.git` folder.
    Earlier {
        /// The file.
        path: PathBuf,
        /// What the file claims, or why it is not read.
        claim: String,
    },
    /// A record of pitcrew that cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why the file cannot be read.
        why: String,
    },
}

/// The record of an earlier version about its unfinished work.
#[derive(Deserialize)]
struct EarlierWork {
    path: String,
    branch: String,
}

/// The marker of an earlier version.
#[derive(Deserialize)]
struct EarlierMarker {
    team: String,
    member: String,
    branch: String,
}

impl Worktrees {
    /// Lists everything in the repository that pitcrew leaves alone.
    ///
    /// # Errors
    /// `NotARepository`, `Git` or `Io`.
    pub async fn leftovers(&self) -> Result<Vec<Leftover>, WorktreeError> {
        let repository = self.repository().await?;
        let listed = Registrations::read(repository.common())?;
        // Look before the records are read as well: the process may end between the two.
        let was_locked = repository.is_locked();
        let records = repository.all()?;
        let mut found = Vec::new();
        for record in records.readable.iter().filter(|record| self.is_place(&record.path)) {
            if record.stage != Stage::Made {
                if !was_locked && !repository.is_locked() {
                    found.push(Leftover::Unfinished(record.worktree()));
                }
            } else if listed.naming(&record.path).is_empty() && !is_gone(&record.path) {
                found.push(Leftover::Unlisted(record.worktree()));
            }
        }
        for entry in listed.all() {
            if records.readable.iter().any(|record| record.path == entry.path) {
                continue;
            }
            let claim = claim_of_marker(&entry.admin);
            if self.is_place(&entry.path) {
                found.push(Leftover::Unrecorded { path: entry.path.clone(), claim });
            } else if let Some(claim) = claim {
                let path = entry.admin.join(EARLIER_MARKER);
                found.push(Leftover::Earlier { path, claim });
            }
        }
        if let Some(claim) = claim_of_lock(repository.common()) {
            let path = repository.common().join(EARLIER_LOCK);
            found.push(Leftover::Earlier { path, claim });
        }
        let unreadable = records.unreadable.into_iter();
        found.extend(
            unreadable.map(|(path, why)| Leftover::Unreadable { path, why: why.to_string() }),
        );
        Ok(found)
    }

    /// Lists the worktrees that still exist and whose repository is gone or was replaced by another
    /// one. Each comes with the git folder of its repository.
    #[must_use]
    pub fn without_repository(&self) -> Vec<(Worktree, PathBuf)> {
        let records = Repository::records_of_gone(&self.folder.with_file_name(RECORDS));
        let there =
            records.into_iter().filter(|(_, it)| self.is_place(&it.path) && !is_gone(&it.path));
        there.map(|(repository, it)| (it.worktree(), repository)).collect()
    }
}

/// Returns what the lock file of an earlier version claims. That file is empty if no work was
/// interrupted.
fn claim_of_lock(common: &Path) -> Option<String> {
    match read_in(common, EARLIER_LOCK, MOST_BYTES) {
        Ok(None) => None,
        Ok(Some(bytes)) if bytes.is_empty() => None,
        Ok(Some(bytes)) => Some(match serde_json::from_slice(&bytes) {
            Ok(EarlierWork { path, branch }) => format!(
                "it claims that the worktree {} on branch {} is not finished",
                shown(&path),
                shown(&branch)
            ),
            Err(_) => "it is no record of an earlier version".to_owned(),
        }),
        Err(why) => Some(format!("it is not read: {why}")),
    }
}

/// Returns what the marker of an earlier version claims.
fn claim_of_marker(admin: &Path) -> Option<String> {
    match read_in(admin, EARLIER_MARKER, MOST_BYTES) {
        Ok(None) => None,
        Ok(Some(bytes)) => Some(match serde_json::from_slice(&bytes) {
            Ok(EarlierMarker { team, member, branch }) => format!(
                "its marker claims that it is on branch {}, of {} in team {}",
                shown(&branch),
                shown(&member),
                shown(&team)
            ),
            Err(_) => "its marker cannot be understood".to_owned(),
        }),
        Err(why) => Some(format!("its marker is not read: {why}")),
    }
}

/// Returns a text of somebody else's file, quoted and not longer than a line.
fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(SHOWN_CHARS).collect::<String>())
}
