//! Shows the work in a worktree to a person who decides about it: the state of its branch, and both
//! versions of each changed file. Merges the work if the person accepts it.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use pitcrew_protocol::{counted, counted_is};

use super::git::{Names, TooLarge};
use super::{Record, WorktreeError, Worktrees, in_background, real};
use crate::given_file::{Refused, contents, open_real};
use crate::handle::is_link_in_the_way;

/// Maximum size in bytes of a version that is shown.
const MOST_BYTES: usize = 1 << 20;

/// The state of a worktree's branch against the branch from which it started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchState {
    /// The branch of the worktree.
    pub branch: String,
    /// The newest commit of the worktree.
    pub tip: String,
    /// The branch from which the worktree started, or `HEAD` if that branch is gone.
    pub base: String,
    /// The number of commits that the base does not have.
    pub ahead: usize,
    /// The number of commits of the base that the branch does not have.
    pub behind: usize,
    /// The files that differ from the commit at which branch and base parted, committed or not.
    pub files: BTreeSet<String>,
    /// The files that are changed or new and not committed.
    pub uncommitted: BTreeSet<String>,
    /// Whether further files are left out of both lists, because git's list of them is too long.
    pub has_more_files: bool,
}

/// A file before and after the work in a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versions {
    /// The file before the work.
    pub before: FileText,
    /// The file after the work.
    pub after: FileText,
}

/// One version of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileText {
    /// There is no such file.
    Missing,
    /// The content of the file.
    Text(String),
    /// The content cannot be shown, for this reason.
    NotShown(String),
}

/// The result of [`Worktrees::merge`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Merged {
    /// The base has the work now.
    Done {
        /// The branch that has the work now.
        base: String,
    },
    /// Nothing was changed, for this reason.
    Refused {
        /// The reason, for a person.
        why: String,
    },
}

impl Worktrees {
    /// Returns the state of the branch of the worktree at a path.
    ///
    /// # Errors
    /// `NotOurs` if pitcrew did not create the worktree, `Git` and `Io` for other failures.
    pub async fn branch_state(&self, path: &Path) -> Result<BranchState, WorktreeError> {
        let record = self.record(path).await?;
        let (tip, is_there) = self.tip_of(&record).await?;
        let tip = tip.ok_or_else(|| WorktreeError::NoCommit { path: path.to_owned() })?;
        let (base, parted) = self.base_of(&record, &tip).await?;
        let uncommitted = match is_there {
            true => self.git.uncommitted_names(path).await?,
            false => Names::default(),
        };
        let committed = self.git.files_since(&parted, &tip).await?;
        let has_more_files = committed.has_more || uncommitted.has_more;
        let (mut files, uncommitted) = (committed.list, uncommitted.list);
        files.extend(uncommitted.iter().cloned());
        Ok(BranchState {
            branch: record.branch,
            ahead: self.git.commits_beyond(&tip, std::slice::from_ref(&base)).await?,
            behind: self.git.commits_beyond(&base, std::slice::from_ref(&tip)).await?,
            base: short(&base),
            tip,
            files,
            uncommitted,
            has_more_files,
        })
    }

    /// Returns both versions of a file in the worktree at a path. `file` is its path in the
    /// worktree.
    ///
    /// # Errors
    /// `NotOurs` if pitcrew did not create the worktree, `Git` and `Io` for other failures.
    pub async fn versions(&self, path: &Path, file: &str) -> Result<Versions, WorktreeError> {
        let record = self.record(path).await?;
        let (tip, is_there) = self.tip_of(&record).await?;
        let tip = tip.ok_or_else(|| WorktreeError::NoCommit { path: path.to_owned() })?;
        let (_, parted) = self.base_of(&record, &tip).await?;
        let before = self.committed(&parted, file).await?;
        let after = match is_there {
            true => on_disk(path, file).await?,
            false => self.committed(&tip, file).await?,
        };
        Ok(Versions { before, after })
    }

    /// Returns a file of the checkout as its newest commit has it, and as it is now. `file` is its
    /// path below the folder of this manager. Outside of a repository, only the present version is
    /// known.
    ///
    /// # Errors
    /// `Git` and `Io`.
    pub async fn versions_in_checkout(&self, file: &str) -> Result<Versions, WorktreeError> {
        let before = match self.git.top_folder().await {
            // For git, a path after `./` begins at the folder and not at the top of the checkout.
            Ok(_) => self.committed("HEAD", &format!("./{file}")).await?,
            Err(WorktreeError::NotARepository { .. }) => {
                FileText::NotShown("the folder is in no git repository".to_owned())
            }
            Err(error) => return Err(error),
        };
        Ok(Versions { before, after: on_disk(self.git.checkout(), file).await? })
    }

    /// Merges the work in the worktree at a path into the branch from which it started. `reviewed`
    /// is the commit that the person has accepted. The merge only moves the base on to this commit,
    /// so nothing that nobody has seen comes into the base.
    ///
    /// # Errors
    /// `NotOurs` if pitcrew did not create the worktree, `Git` and `Io` for other failures.
    pub async fn merge(&self, path: &Path, reviewed: &str) -> Result<Merged, WorktreeError> {
        let refused = |why: String| Ok(Merged::Refused { why });
        let state = self.branch_state(path).await?;
        let BranchState { branch, base, behind, .. } = &state;
        if state.tip != reviewed {
            return refused(format!("{branch} has changed since it was shown"));
        }
        if !state.uncommitted.is_empty() {
            let files = counted_is(state.uncommitted.len(), "file");
            return refused(format!("{files} changed or new and not committed"));
        }
        if *behind > 0 {
            let commits = counted(*behind, "commit");
            return refused(format!(
                "{base} has {commits} that {branch} does not have; its author must merge {base} first"
            ));
        }
        let main = self.in_main_checkout().await;
        let current = main.git.head_reference().await?.map(|current| short(&current));
        if current.as_ref() != Some(base) {
            let checkout = main.git.checkout().display();
            return refused(format!("{base} is not checked out in {checkout}"));
        }
        let branch = format!("refs/heads/{base}");
        match main.git.fast_forward(&branch, reviewed).await {
            Ok(()) => Ok(Merged::Done { base: base.clone() }),
            Err(WorktreeError::Git { answer, .. }) => refused(format!("git refused: {answer}")),
            Err(error) => Err(error),
        }
    }

    /// Returns the branch from which a worktree started, and the commit at which both parted.
    async fn base_of(&self, record: &Record, tip: &str) -> Result<(String, String), WorktreeError> {
        let known = self.known_commits(record).await?;
        let base = known.into_iter().next().unwrap_or_else(|| "HEAD".to_owned());
        let parted = self.git.merge_base(&base, tip).await?;
        Ok((base, parted.unwrap_or_else(|| record.start.clone())))
    }

    async fn committed(&self, commit: &str, file: &str) -> Result<FileText, WorktreeError> {
        Ok(match self.git.blob(commit, file, MOST_BYTES).await? {
            Ok(Some(bytes)) => text_of(bytes),
            Ok(None) => FileText::Missing,
            Err(TooLarge) => too_large(),
        })
    }
}

/// Returns the name of a branch without the folder of all branches.
fn short(reference: &str) -> String {
    reference.strip_prefix("refs/heads/").unwrap_or(reference).to_owned()
}

/// Reads a file below a folder. Links on the path are not followed.
async fn on_disk(folder: &Path, file: &str) -> Result<FileText, WorktreeError> {
    let is_below = Path::new(file).components().all(|part| matches!(part, Component::Normal(_)));
    if !is_below {
        return Ok(FileText::NotShown("its path leads out of the folder".to_owned()));
    }
    let path = real(folder).join(file);
    let read = {
        let path: PathBuf = path.clone();
        move || Ok(open_real(&path).and_then(|file| contents(file, MOST_BYTES as u64)))
    };
    Ok(match in_background("read", &path, read).await? {
        Ok(bytes) => text_of(bytes),
        Err(Refused::Io(error)) if error.kind() == ErrorKind::NotFound => FileText::Missing,
        Err(Refused::Io(error)) if is_link_in_the_way(&error) => {
            FileText::NotShown("its path contains a link".to_owned())
        }
        Err(Refused::TooLong { .. }) => too_large(),
        Err(refused) => FileText::NotShown(refused.to_string()),
    })
}

fn text_of(bytes: Vec<u8>) -> FileText {
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => FileText::Text(text),
        Ok(_) | Err(_) => FileText::NotShown("it is no text".to_owned()),
    }
}

fn too_large() -> FileText {
    FileText::NotShown(format!("it is larger than {} MiB", MOST_BYTES >> 20))
}
