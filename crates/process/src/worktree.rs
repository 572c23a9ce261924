//! Manages the git worktrees of teammates. Each worktree is a folder with its own branch. Only
//! pitcrew creates and removes these worktrees.
//!
//! Pitcrew remembers each worktree that it creates in a record of its own (`record`). The records
//! are below pitcrew's root, where no agent can write, and never in the repository. A repository's
//! author and the agents that work in it can write everything in its `.git` folder.
//!
//! Nothing is removed unless a record and git's own list (`registrations`) both name it, and it is
//! in pitcrew's folder for worktrees. Work that is not committed or not merged is kept and reported.
//! Records and markers that earlier versions kept in `.git` are shown as hints (`leftovers`), and
//! nothing is done by them.

mod changes;
mod contents;
mod error;
mod git;
mod leftovers;
mod record;
mod recovery;
mod registrations;
mod review;

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use contents::{Contents, Place};

use crate::our_git::RunningGit;
use crate::own_mode;
use crate::sandbox::Sandbox;
use crate::sandbox::git_folder::TrustedStores;

pub use changes::{Changes, NewCommits};
pub use error::{KeepReason, WorktreeError};
use git::Git;
pub use leftovers::Leftover;
use record::{Record, Repository, Stage, Turn};
use recovery::{is_empty, leads_to, sole_admin};
use registrations::Registrations;
pub use review::{BranchState, FileText, Merged, Versions};

/// Maximum number of worktrees that exist at a time for one member of a team.
const MOST_KEPT: u32 = 100;

/// The folder below a configuration root for the worktrees of all teams.
pub const BELOW_ROOT: &str = "pitcrew/worktrees";

/// The folder beside the folder for worktrees that contains the records of all repositories.
/// Commands can write into the folder for worktrees, but not into this one.
const RECORDS: &str = "repositories";

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
    /// `folder`, and their records are in the folder `repositories` beside `folder`.
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

    /// Returns a manager whose git commands `running` ends.
    #[must_use]
    pub fn ended_by(self, running: RunningGit) -> Self {
        Self { git: self.git.ended_by(running), ..self }
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
        let repository = self.repository().await?;
        let start = self.git.commit("HEAD").await?;
        let start = start
            .ok_or_else(|| WorktreeError::NoCommit { path: self.git.checkout().to_owned() })?;
        let base = self.git.head_reference().await?;
        let folder = self.prepare_folder(team).await?;
        let turn = self.turn(repository).await?;
        let (path, branch) = self.free_name(&turn, &folder, team, member).await?;
        // Record on disk that a worktree is about to be created, so that crash recovery can remove
        // an unfinished one.
        let mut record = Record {
            stage: Stage::Creating,
            path,
            team: team.to_owned(),
            member: member.to_owned(),
            branch,
            start,
            base,
            admin: None,
        };
        turn.write(&record)?;
        let made = match self.git.add_worktree(&record.path, &record.branch, &record.start).await {
            Ok(()) => Self::made(&turn, &mut record),
            Err(problem) => Err(problem),
        };
        if let Err(problem) = made {
            // If this fails too, the record stays, and the next process tries again.
            if let Err(error) = self.undo(&turn, &record).await {
                tracing::warn!(path = %record.path.display(), %error, "an unfinished worktree stays");
            }
            return Err(problem);
        }
        Ok(record.worktree())
    }

    /// Records that git has created a worktree, and where git stores data about it.
    fn made(turn: &Turn, record: &mut Record) -> Result<(), WorktreeError> {
        let admin = sole_admin(turn.repository().common(), &record.path)?;
        let path = || record.path.clone();
        record.admin = Some(admin.ok_or_else(|| WorktreeError::Replaced { path: path() })?);
        record.stage = Stage::Made;
        turn.write(record)
    }

    /// Finds the worktree at a path. Pitcrew calls this function before it cleans up a member's
    /// worktree.
    ///
    /// # Errors
    /// `NotOurs` if pitcrew did not create the worktree, `Unrecorded` if pitcrew has no record of
    /// it.
    pub async fn open(&self, path: &Path) -> Result<Worktree, WorktreeError> {
        Ok(self.record(path).await?.worktree())
    }

    /// Finds the worktree at a path, for a member that continues. If the worktree's folder exists,
    /// returns false. If the folder is gone, creates the worktree again on its existing branch and
    /// returns true.
    ///
    /// A worktree without a record, which an earlier version of pitcrew created, can be used on as
    /// long as it exists.
    ///
    /// # Errors
    /// `NotOurs` if pitcrew did not create the worktree or git has no data about it any more,
    /// `Replaced` if the path contains something other than the worktree, `Unrecorded` if pitcrew
    /// has no record from which it could create the worktree again.
    pub async fn reopen(&self, path: &Path) -> Result<bool, WorktreeError> {
        let record = match self.record(path).await {
            Err(WorktreeError::Unrecorded { .. }) if self.is_there(path).await? => {
                return Ok(false);
            }
            record => record?,
        };
        match self.place_of(&record).await? {
            Place::There => Ok(false),
            Place::Replaced => Err(WorktreeError::Replaced { path: path.to_owned() }),
            Place::Gone => {
                let turn = self.turn(self.repository().await?).await?;
                let mut record = self.record_in(turn.repository(), path)?;
                if !self.is_agreed(&record).await? {
                    return Err(WorktreeError::Replaced { path: path.to_owned() });
                }
                self.git.add_worktree_again(path, &record.branch).await?;
                Self::made(&turn, &mut record)?;
                Ok(true)
            }
        }
    }

    /// Whether the folder at a path is the worktree that git lists there.
    async fn is_there(&self, path: &Path) -> Result<bool, WorktreeError> {
        let admin = sole_admin(self.repository().await?.common(), &placed(path))?;
        Ok(admin.is_some_and(|admin| is_real_folder(path) && leads_to(path, &admin)))
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
    /// `NotOurs` if pitcrew did not create the worktree, `Unrecorded` if pitcrew has no record of
    /// it, `Git` and `Io` for other failures.
    pub async fn finish(&self, worktree: &Worktree) -> Result<Finished, WorktreeError> {
        let repository = self.repository().await?;
        // Without a record, not even a lock file is created.
        self.record_in(&repository, &worktree.path)?;
        let turn = self.turn(repository).await?;
        let mut record = self.record_in(turn.repository(), &worktree.path)?;
        let has_submodules = match self.look_into(&record).await? {
            Contents::Own(reason) => return Ok(Finished::Kept { reason }),
            Contents::Nothing { has_submodules } => has_submodules,
        };
        // Record on disk that the worktree is about to be removed. If this process crashes, the
        // next process that takes the lock deletes the branch too.
        record.stage = Stage::Removing;
        turn.write(&record)?;
        let finished = self.remove(&record, has_submodules).await;
        if let Ok(Finished::Removed) = finished {
            turn.forget(&record)?;
        } else {
            record.stage = Stage::Made;
            turn.write(&record)?;
        }
        finished
    }

    async fn remove(
        &self,
        record: &Record,
        has_submodules: bool,
    ) -> Result<Finished, WorktreeError> {
        let path = &record.path;
        // Git does not remove a worktree whose folder is empty, but it removes a worktree whose
        // folder is missing. Therefore remove an empty folder first.
        if is_empty(path) {
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
        self.tidy(path);
        Ok(Finished::Removed)
    }

    /// Lists the worktrees created by pitcrew that no member uses any more. The worktrees at the
    /// paths in `live` are still in use.
    ///
    /// # Errors
    /// `NotARepository`, `Git` or `Io`.
    pub async fn orphans(&self, live: &[PathBuf]) -> Result<Vec<Worktree>, WorktreeError> {
        let live: Vec<_> = live.iter().map(|path| placed(path)).collect();
        let repository = self.repository().await?;
        let listed = Registrations::read(repository.common())?;
        let records = repository.all()?.readable.into_iter();
        Ok(records
            .filter(|record| record.stage == Stage::Made && self.is_place(&record.path))
            .filter(|record| !listed.naming(&record.path).is_empty())
            .map(|record| record.worktree())
            .filter(|worktree| !live.contains(&worktree.path))
            .collect())
    }

    /// Returns the records of the repository.
    async fn repository(&self) -> Result<Repository, WorktreeError> {
        let common = self.git.common_folder().await?;
        Repository::of(&self.folder.with_file_name(RECORDS), &common)
    }

    /// Returns true if the path has the form `<folder>/<team>/<member>` of pitcrew's worktrees, and
    /// nothing above its last part is a symbolic link. Commands can create links in this folder.
    fn is_place(&self, path: &Path) -> bool {
        let names = path
            .strip_prefix(real(&self.folder))
            .map(|below| below.components().collect::<Vec<_>>());
        let is_name = |part: &Component<'_>| matches!(part, Component::Normal(_));
        names.is_ok_and(|names| names.len() == 2 && names.iter().all(is_name))
            && placed(path) == path
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
        turn: &Turn,
        folder: &Path,
        team: &str,
        member: &str,
    ) -> Result<(PathBuf, String), WorktreeError> {
        let listed = Registrations::read(turn.repository().common())?;
        for number in 1..=MOST_KEPT {
            let name = match number {
                1 => member.to_owned(),
                _ => format!("{member}-{number}"),
            };
            let branch = format!("pitcrew/{team}/{name}");
            let path = folder.join(team).join(name);
            let is_taken = path.symlink_metadata().is_ok()
                || !listed.naming(&path).is_empty()
                || self.git.commit(&format!("refs/heads/{branch}")).await?.is_some();
            if !is_taken {
                return Ok((path, branch));
            }
        }
        let branch = format!("pitcrew/{team}/{member}");
        Err(WorktreeError::Taken { branch })
    }

    /// Returns the record of the worktree at a path. Fails if pitcrew did not create the worktree,
    /// or if git does not list it.
    async fn record(&self, path: &Path) -> Result<Record, WorktreeError> {
        self.record_in(&self.repository().await?, path)
    }

    fn record_in(&self, repository: &Repository, path: &Path) -> Result<Record, WorktreeError> {
        let wanted = placed(path);
        let listed = Registrations::read(repository.common())?;
        let records = repository.all()?.readable;
        let found = records
            .into_iter()
            .find(|record| record.path == wanted && record.stage != Stage::Creating);
        match (found, self.is_place(&wanted) && !listed.naming(&wanted).is_empty()) {
            (Some(record), true) => Ok(record),
            (None, true) => Err(WorktreeError::Unrecorded { path: wanted }),
            (Some(_) | None, false) => {
                Err(WorktreeError::NotOurs { path: path.to_owned(), folder: self.folder.clone() })
            }
        }
    }

    /// Whether git's list has exactly one entry for the worktree of a record, and it is the entry
    /// that git made when the worktree was created.
    async fn is_agreed(&self, record: &Record) -> Result<bool, WorktreeError> {
        let admin = sole_admin(self.repository().await?.common(), &record.path)?;
        Ok(admin.is_some() && admin == record.admin)
    }

    /// Deletes the branch of a removed worktree. Keeps the branch if it has commits that exist
    /// nowhere else. Returns true if the branch was deleted.
    async fn delete_branch_if_merged(&self, record: &Record) -> Result<bool, WorktreeError> {
        let reference = format!("refs/heads/{}", record.branch);
        if self.git.commit(&reference).await?.is_none() {
            return Ok(true);
        }
        let (commits, _) = self.own_commits(record, &reference).await?;
        if commits > 0 {
            return Ok(false);
        }
        self.git.delete_branch(&record.branch).await?;
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

/// Resolves all symbolic links in the path, except in its last part. A worktree keeps its place even
/// if somebody puts a symbolic link there.
fn placed(path: &Path) -> PathBuf {
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => real(folder).join(name),
        (None, _) | (_, None) => real(path),
    }
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
