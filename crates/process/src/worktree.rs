//! Manages the git worktrees of teammates. Each worktree is a folder with its own branch. Only
//! pitcrew creates and removes these worktrees.
//!
//! Pitcrew puts a marker file into git's data about each worktree that it creates, below the
//! repository's `.git/worktrees`. A folder without a marker, or outside pitcrew's folder for
//! worktrees, is never removed. Work that is not committed or not merged is kept and reported.

mod changes;
mod contents;
mod error;
mod git;
mod repo_lock;
mod review;

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use contents::{Contents, Place};
use serde::{Deserialize, Serialize};

use crate::own_mode;
use crate::sandbox::Sandbox;
use crate::sandbox::git_folder::TrustedStores;

pub use changes::{Changes, NewCommits};
pub use error::{KeepReason, WorktreeError};
use git::Git;
use repo_lock::{Making, Turn, lock};
pub use review::{BranchState, FileText, Merged, Versions};

/// The name of pitcrew's marker file in the folder where git stores data about a worktree.
const MARKER: &str = "pitcrew-worktree";

/// The lock file that allows only one process at a time to change the worktrees of a repository.
const LOCK: &str = "pitcrew-worktrees.lock";

/// Maximum number of worktrees that exist at a time for one member of a team.
const MOST_KEPT: u32 = 100;

/// The folder below a configuration root for the worktrees of all teams.
pub const BELOW_ROOT: &str = "pitcrew/worktrees";

/// Maximum length in bytes of a team's or member's name in a branch name.
const NAME_BYTES: usize = 128;

/// A worktree that pitcrew created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// The worktree's folder.
    pub path: PathBuf,
    /// The branch created for the worktree, `pitcrew/TEAM/MEMBER`.
    pub branch: String,
    /// The team of the member that uses the worktree.
    pub team: String,
    /// The member that uses the worktree.
    pub member: String,
}

/// The result of [`Worktrees::finish`], which is called after the worktree's member ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Finished {
    /// The worktree contained no work that would be lost. It was removed together with its branch.
    Removed,
    /// The worktree was kept.
    Kept {
        /// The reason why the worktree was kept.
        reason: KeepReason,
    },
}

/// The content of the marker file that pitcrew stores for a worktree.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Marker {
    team: String,
    member: String,
    branch: String,
    /// The commit at which the worktree's branch started.
    start: String,
    /// The branch that was checked out in the repository's own checkout when the worktree was
    /// created, as a full reference. `None` if no branch was checked out (detached HEAD).
    base: Option<String>,
}

/// A worktree with the data that git and pitcrew stored about it.
#[derive(Debug)]
struct Record {
    worktree: Worktree,
    marker: Marker,
    /// The folder in which git stores data about the worktree.
    admin: PathBuf,
}

/// How to handle ignored files if a worktree contains no other work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IgnoredFiles {
    /// Ignored files may be valuable, so the worktree is kept.
    #[default]
    Keep,
    /// Ignored files can be created again, so they are removed with the worktree.
    Remove,
}

/// The worktrees that pitcrew created for one repository below one folder.
#[derive(Debug, Clone)]
pub struct Worktrees {
    git: Git,
    folder: PathBuf,
    ignored: IgnoredFiles,
}

impl Worktrees {
    /// Returns the folder for all teams' worktrees, which is outside every checkout.
    #[must_use]
    pub fn folder_below(root: &Path) -> PathBuf {
        root.join(BELOW_ROOT)
    }

    /// Creates the manager for the repository that contains `repo_root`. Its worktrees are below
    /// `folder`.
    ///
    /// Nothing on disk changes before the first worktree is created.
    pub fn new(repo_root: impl Into<PathBuf>, folder: impl Into<PathBuf>) -> Self {
        Self {
            git: Git::new(repo_root.into()),
            folder: folder.into(),
            ignored: IgnoredFiles::default(),
        }
    }

    /// Returns a copy of this manager for the repository that contains the folder `checkout`.
    #[must_use]
    pub fn in_repository_of(&self, checkout: PathBuf) -> Self {
        Self { git: self.git.at(checkout), ..self.clone() }
    }

    /// Returns all existing folders whose path has the form `<folder>/<team>/<member>`, for
    /// worktrees of any repository. Symbolic links are not followed.
    #[must_use]
    pub fn existing(&self) -> Vec<PathBuf> {
        let below = |folder: &Path| -> Vec<PathBuf> {
            let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
            let mut paths: Vec<PathBuf> =
                entries.map(|entry| entry.path()).filter(|path| is_real_folder(path)).collect();
            paths.sort();
            paths
        };
        below(&self.folder).iter().flat_map(|team| below(team)).collect()
    }

    /// Returns a copy of this manager that runs git in the repository's main checkout. If there is
    /// no main checkout, the copy is unchanged.
    #[must_use]
    pub async fn in_main_checkout(&self) -> Self {
        let common = self.git.common_folder().await.ok();
        let main = common
            .filter(|common| common.ends_with(".git"))
            .and_then(|common| Some(common.parent()?.to_owned()));
        main.map_or_else(|| self.clone(), |main| self.in_repository_of(main))
    }

    /// Returns the git folder that all worktrees of the repository share. The path of this folder
    /// identifies the repository.
    ///
    /// # Errors
    /// `NotARepository`, `Git` or `Io`.
    pub async fn common_folder(&self) -> Result<PathBuf, WorktreeError> {
        self.git.common_folder().await
    }

    /// Sets how ignored files are handled.
    #[must_use]
    pub fn with_ignored(self, ignored: IgnoredFiles) -> Self {
        Self { ignored, ..self }
    }

    /// Returns a manager whose git trusts the git folders that the sandbox's options name. Git runs
    /// confined without a sandbox too, by the mechanisms of this machine.
    #[must_use]
    pub fn confined(self, sandbox: Sandbox) -> Self {
        Self { git: self.git.confined(sandbox), ..self }
    }

    /// Returns a manager that works in checkouts that borrow these stores. Without it, git does not
    /// run in a checkout whose git folder or object store is another repository's.
    #[must_use]
    pub fn trusting(self, stores: TrustedStores) -> Self {
        Self { git: self.git.trusting(stores), ..self }
    }

    /// Returns a manager that runs git by this runner.
    #[cfg(test)]
    pub(crate) fn run_by(self, ours: crate::our_git::OurGit) -> Self {
        Self { git: self.git.run_by(ours), ..self }
    }

    /// Creates a worktree with a new branch that starts at the checkout's current commit.
    ///
    /// If a worktree or branch with the same name was kept earlier, the names of the new worktree
    /// and branch get a number.
    ///
    /// # Errors
    /// Any [`WorktreeError`] except `NotOurs` and `Locked`. After an error, nothing of the new
    /// worktree is left on disk.
    pub async fn create(&self, team: &str, member: &str) -> Result<Worktree, WorktreeError> {
        for name in [team, member] {
            if !is_branch_part(name) {
                return Err(WorktreeError::Name { name: name.to_owned() });
            }
        }
        let common = self.git.common_folder().await?;
        let start = self.git.commit("HEAD").await?;
        let start = start
            .ok_or_else(|| WorktreeError::NoCommit { path: self.git.checkout().to_owned() })?;
        let base = self.git.head_reference().await?;
        let folder = self.prepare_folder(team).await?;
        let turn = self.turn(&common).await?;
        let (path, branch) = self.free_name(&folder, team, member).await?;
        // Record on disk that a worktree is about to be created, so that crash recovery can remove
        // an unfinished one.
        turn.say(&Making { path: path.clone(), branch: branch.clone(), removed: None })?;
        let marker = Marker {
            team: team.to_owned(),
            member: member.to_owned(),
            branch: branch.clone(),
            start: start.clone(),
            base,
        };
        let made = match self.git.add_worktree(&path, &branch, &start).await {
            Ok(()) => self.mark(&path, &marker).await,
            Err(problem) => Err(problem),
        };
        if let Err(problem) = made {
            self.undo(&path, &branch).await;
            turn.done()?;
            return Err(problem);
        }
        turn.done()?;
        Ok(Worktree { path, branch, team: marker.team, member: marker.member })
    }

    /// Finds the worktree at a path. Pitcrew calls this function before it cleans up a member's
    /// worktree.
    ///
    /// # Errors
    /// `NotOurs` if pitcrew did not create the worktree.
    pub async fn open(&self, path: &Path) -> Result<Worktree, WorktreeError> {
        Ok(self.record(path).await?.worktree)
    }

    /// Finds the worktree at a path, for a member that continues. If the worktree's folder exists,
    /// returns false. If the folder is gone, creates the worktree again on its existing branch and
    /// returns true.
    ///
    /// # Errors
    /// `NotOurs` if pitcrew did not create the worktree or git has no data about it any more,
    /// `Replaced` if the path contains something other than the worktree.
    pub async fn reopen(&self, path: &Path) -> Result<bool, WorktreeError> {
        let record = self.record(path).await?;
        match self.place_of(&record).await? {
            Place::There => Ok(false),
            Place::Replaced => Err(WorktreeError::Replaced { path: path.to_owned() }),
            Place::Gone => {
                let turn = self.turn(&self.git.common_folder().await?).await?;
                self.git.add_worktree_again(path, &record.marker.branch).await?;
                self.mark(path, &record.marker).await?;
                drop(turn);
                Ok(true)
            }
        }
    }

    /// Removes a worktree and its branch if no work would be lost. Otherwise returns the reason why
    /// the worktree was kept.
    ///
    /// No work is lost if three conditions hold:
    ///
    /// - The worktree has no changed, new or ignored files. With [`IgnoredFiles::Remove`], ignored
    ///   files do not count.
    /// - Every commit of the worktree is also in the current state of the branch from which the
    ///   worktree started.
    /// - Every commit of a submodule is also in one of the submodule's remotes.
    ///
    /// If another folder has taken the worktree's place, that folder is never changed.
    ///
    /// # Errors
    /// `NotOurs` if pitcrew did not create the worktree, `Git` and `Io` for other failures.
    pub async fn finish(&self, worktree: &Worktree) -> Result<Finished, WorktreeError> {
        let record = self.record(&worktree.path).await?;
        let turn = self.turn(&self.git.common_folder().await?).await?;
        let has_submodules = match self.look_into(&record).await? {
            Contents::Own(reason) => return Ok(Finished::Kept { reason }),
            Contents::Nothing { has_submodules } => has_submodules,
        };
        let (path, branch) = (record.worktree.path.clone(), record.worktree.branch.clone());
        // Record on disk that the worktree is about to be removed. If this process crashes, the
        // next process that takes the lock deletes the branch too.
        turn.say(&Making { path, branch, removed: Some(record.marker.clone()) })?;
        let finished = self.remove(&record, has_submodules).await;
        turn.done()?;
        finished
    }

    async fn remove(
        &self,
        record: &Record,
        has_submodules: bool,
    ) -> Result<Finished, WorktreeError> {
        let path = &record.worktree.path;
        // Git does not remove a worktree whose folder is empty, but it removes a worktree whose
        // folder is missing. Therefore remove an empty folder first.
        if is_real_folder(path)
            && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
        {
            fs::remove_dir(path).map_err(WorktreeError::io("remove", path))?;
        }
        // Git removes a worktree with submodules only by force. Even with force, git keeps a locked
        // worktree.
        match self.git.remove_worktree(path, has_submodules).await {
            Ok(()) => {}
            Err(WorktreeError::Git { answer, .. }) => {
                let reason = KeepReason::Refused { answer };
                return Ok(Finished::Kept { reason });
            }
            Err(problem) => return Err(problem),
        }
        self.delete_branch_if_merged(record).await?;
        self.tidy(&record.worktree.path);
        Ok(Finished::Removed)
    }

    /// Lists the worktrees created by pitcrew that no member uses any more. The worktrees at the
    /// paths in `live` are still in use.
    ///
    /// # Errors
    /// `NotARepository`, `Git` or `Io`.
    pub async fn orphans(&self, live: &[PathBuf]) -> Result<Vec<Worktree>, WorktreeError> {
        let live: Vec<_> = live.iter().map(|path| real(path)).collect();
        let records = self.records().await?;
        Ok(records
            .into_iter()
            .map(|record| record.worktree)
            .filter(|worktree| !live.contains(&real(&worktree.path)))
            .collect())
    }

    /// Cleans up after a process that died while it created or removed a worktree. An unfinished
    /// creation is undone, and an unfinished removal is completed.
    ///
    /// # Errors
    /// `NotARepository`, `Git` or `Io`.
    pub async fn recover(&self) -> Result<(), WorktreeError> {
        self.turn(&self.git.common_folder().await?).await.map(drop)
    }

    /// Waits for the lock on the worktrees of the repository, and returns the lock. If the previous
    /// holder of the lock died while it created a worktree, this function undoes the creation. If
    /// the holder died while it removed a worktree, this function completes the removal.
    async fn turn(&self, common: &Path) -> Result<Turn, WorktreeError> {
        let turn = lock(common).await?;
        if let Some(Making { path, branch, removed }) = turn.said() {
            // Do not trust the content of the lock file, because another process may have written
            // it.
            if self.can_be_ours(&path) && branch.starts_with("pitcrew/") {
                match removed {
                    None => self.undo(&path, &branch).await,
                    // Delete the branch only if the worktree's folder is gone. If the folder still
                    // exists, a member may need the worktree again, and a later removal checks the
                    // worktree anew.
                    Some(marker) if !path.exists() => {
                        self.forget_branch(path, branch, marker).await
                    }
                    Some(_) => {}
                }
            }
            turn.done()?;
        }
        Ok(turn)
    }

    /// Returns true if the path has the form `<folder>/<team>/<member>` of pitcrew's worktrees.
    /// This check is needed because any process may have written the path into the lock file.
    fn can_be_ours(&self, path: &Path) -> bool {
        let names = path
            .strip_prefix(real(&self.folder))
            .map(|below| below.components().collect::<Vec<_>>());
        let is_name = |part: &Component<'_>| matches!(part, Component::Normal(_));
        names.is_ok_and(|names| names.len() == 2 && names.iter().all(is_name)) && real(path) == path
    }

    /// Deletes the branch of a worktree whose removal was interrupted.
    async fn forget_branch(&self, path: PathBuf, branch: String, marker: Marker) {
        let worktree =
            Worktree { path, branch, team: marker.team.clone(), member: marker.member.clone() };
        let record = Record { worktree, marker, admin: PathBuf::new() };
        match self.delete_branch_if_merged(&record).await {
            Ok(is_deleted) => {
                tracing::debug!(branch = record.worktree.branch, is_deleted, "ended a removal")
            }
            Err(error) => tracing::warn!(branch = record.worktree.branch, %error, "a branch stays"),
        }
        self.tidy(&record.worktree.path);
    }

    /// Creates the folder for a team's worktrees. The folder must not be inside the checkout.
    /// Returns the parent folder, which contains the worktrees of all teams.
    async fn prepare_folder(&self, team: &str) -> Result<PathBuf, WorktreeError> {
        let checkout = self.git.top_folder().await?;
        let folder = real(&self.folder);
        if folder.starts_with(&checkout) {
            return Err(WorktreeError::InsideCheckout { folder, checkout });
        }
        own_mode::create_folders(&folder.join(team))
            .map_err(WorktreeError::io("create", &folder))?;
        Ok(folder)
    }

    async fn free_name(
        &self,
        folder: &Path,
        team: &str,
        member: &str,
    ) -> Result<(PathBuf, String), WorktreeError> {
        for number in 1..=MOST_KEPT {
            let name = match number {
                1 => member.to_owned(),
                _ => format!("{member}-{number}"),
            };
            let branch = format!("pitcrew/{team}/{name}");
            let path = folder.join(team).join(name);
            let is_taken = path.symlink_metadata().is_ok()
                || self.git.commit(&format!("refs/heads/{branch}")).await?.is_some();
            if !is_taken {
                return Ok((path, branch));
            }
        }
        let branch = format!("pitcrew/{team}/{member}");
        Err(WorktreeError::Taken { branch })
    }

    /// Removes everything that a failed or interrupted creation left. The path and the branch did
    /// not exist before that creation.
    async fn undo(&self, path: &Path, branch: &str) {
        // The failed creation may have stopped before the worktree or the branch existed. In that
        // case, removing the worktree or the branch fails. Only log such failures, because the
        // caller already reports why the creation failed.
        let mut removed = self.git.remove_worktree(path, true).await;
        if removed.is_err() && remove_folder(path.to_owned()).await.is_ok() {
            // Git removes its data about a half-created worktree once the folder is gone.
            removed = self.git.remove_worktree(path, true).await;
        }
        let deleted = self.git.delete_branch(branch).await;
        tracing::debug!(branch, ?removed, ?deleted, "took back a worktree");
        self.tidy(path);
    }

    async fn mark(&self, path: &Path, marker: &Marker) -> Result<(), WorktreeError> {
        let file = self.git.admin_folder(path).await?.join(MARKER);
        let doing = "write the marker";
        let content = serde_json::to_vec(marker)
            .map_err(|problem| WorktreeError::io(doing, &file)(problem.into()))?;
        fs::write(&file, content).map_err(WorktreeError::io(doing, &file))
    }

    /// Returns the worktree at a path. Fails if pitcrew did not create it.
    async fn record(&self, path: &Path) -> Result<Record, WorktreeError> {
        let wanted = real(path);
        let records = self.records().await?;
        let found = records.into_iter().find(|record| real(&record.worktree.path) == wanted);
        found.ok_or_else(|| WorktreeError::NotOurs {
            path: path.to_owned(),
            folder: self.folder.clone(),
        })
    }

    /// Returns all worktrees of the repository that have pitcrew's marker and are below pitcrew's
    /// folder.
    async fn records(&self) -> Result<Vec<Record>, WorktreeError> {
        let folder = real(&self.folder);
        let admins = self.git.common_folder().await?.join("worktrees");
        let entries = match fs::read_dir(&admins) {
            Ok(entries) => entries,
            // Git's folder `worktrees` does not exist before the first worktree is created.
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(WorktreeError::io("list", &admins)(source)),
        };
        let mut records: Vec<_> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| Record::read(entry.path()))
            .filter(|record| {
                // Compare the folder in which the worktree was created. Do not compare the path of
                // the worktree itself, because a symbolic link may be at that path now.
                let made_in = record.worktree.path.parent().map(real);
                made_in.is_some_and(|made_in| made_in.starts_with(&folder))
            })
            .collect();
        records.sort_by(|one, other| one.worktree.path.cmp(&other.worktree.path));
        Ok(records)
    }

    /// Deletes the branch of a removed worktree. Keeps the branch if it has commits that exist
    /// nowhere else. Returns true if the branch was deleted.
    async fn delete_branch_if_merged(&self, record: &Record) -> Result<bool, WorktreeError> {
        let reference = format!("refs/heads/{}", record.marker.branch);
        if self.git.commit(&reference).await?.is_none() {
            return Ok(true);
        }
        let (commits, _) = self.own_commits(record, &reference).await?;
        if commits > 0 {
            return Ok(false);
        }
        self.git.delete_branch(&record.marker.branch).await?;
        Ok(true)
    }

    /// Removes the team's folder if the removed worktree was the last one in it.
    fn tidy(&self, path: &Path) {
        if let Some(team) = path.parent()
            && team != real(&self.folder)
        {
            // This call fails if the folder is not empty. In that case the folder must stay.
            let _ = fs::remove_dir(team);
        }
    }
}

impl Record {
    /// Reads what git and pitcrew recorded about a worktree. Returns `None` if the worktree has no
    /// marker of pitcrew.
    fn read(admin: PathBuf) -> Option<Self> {
        let marker: Marker = serde_json::from_slice(&fs::read(admin.join(MARKER)).ok()?).ok()?;
        let dot_git = fs::read_to_string(admin.join("gitdir")).ok()?;
        let dot_git = admin.join(dot_git.trim_end_matches('\n'));
        let worktree = Worktree {
            path: dot_git.parent()?.to_owned(),
            branch: marker.branch.clone(),
            team: marker.team.clone(),
            member: marker.member.clone(),
        };
        Some(Self { worktree, marker, admin })
    }
}

fn is_real_folder(path: &Path) -> bool {
    // `symlink_metadata` does not follow symbolic links, so a link to a folder is not accepted.
    path.symlink_metadata().is_ok_and(|meta| meta.is_dir())
}

async fn remove_folder(path: PathBuf) -> Result<(), WorktreeError> {
    let shown = path.clone();
    let remove = move || match fs::remove_dir_all(&path) {
        Err(problem) if problem.kind() != io::ErrorKind::NotFound => {
            Err(WorktreeError::io("remove", &path)(problem))
        }
        Ok(()) | Err(_) => Ok(()),
    };
    in_background("remove", &shown, remove).await
}

async fn in_background<T: Send + 'static>(
    doing: &'static str,
    path: &Path,
    work: impl FnOnce() -> Result<T, WorktreeError> + Send + 'static,
) -> Result<T, WorktreeError> {
    let joined = tokio::task::spawn_blocking(work).await;
    joined.map_err(|problem| WorktreeError::io(doing, path)(io::Error::other(problem)))?
}

/// Resolves all symbolic links in the existing part of the path.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.ancestors()
        .find_map(|ancestor| {
            let real = ancestor.canonicalize().ok()?;
            let missing = path.strip_prefix(ancestor).ok()?;
            Some(if missing.as_os_str().is_empty() { real } else { real.join(missing) })
        })
        .unwrap_or_else(|| path.clone())
}

/// Returns true if a name is valid as a part of a branch name and as a folder name on every system.
fn is_branch_part(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !name.is_empty()
        && name.len() <= NAME_BYTES
        && name.bytes().all(is_plain)
        && !name.starts_with(['.', '-'])
        && !name.ends_with('.')
        && !name.contains("..")
        && !name.to_ascii_lowercase().ends_with(".lock")
}

#[cfg(test)]
mod tests;
