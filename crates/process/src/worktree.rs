//! Git worktrees of teammates: each a folder and a branch of its own, made and removed by us only.
//!
//! What we made carries a marker in its folder below the repository's `.git/worktrees`. Nothing
//! without that marker, and nothing outside our folder, is ever removed. Work that is neither
//! committed nor merged is kept and reported. When a teammate gets a worktree is decided elsewhere.

mod contents;
mod error;
mod git;
mod repo_lock;

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::own_mode;
use serde::{Deserialize, Serialize};

use crate::sandbox::Sandbox;
use contents::{Contents, Place};
pub use error::{KeepReason, WorktreeError};
use git::Git;
use repo_lock::{Making, Turn, lock};

/// The marker's name in the folder git keeps for a worktree.
const MARKER: &str = "pitcrew-worktree";

/// The file whose lock serialises what we do to the worktrees of a repository.
const LOCK: &str = "pitcrew-worktrees.lock";

/// How many worktrees of one team and member can be kept beside each other.
const MOST_KEPT: u32 = 100;

/// The folder below a root that holds the worktrees of its teams.
pub const BELOW_ROOT: &str = "pitcrew/worktrees";

/// The longest name of a team or member in a branch.
const NAME_BYTES: usize = 128;

/// A worktree we made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Its folder.
    pub path: PathBuf,
    /// The branch that was made for it, `pitcrew/TEAM/MEMBER`.
    pub branch: String,
    /// The team of the member it was made for.
    pub team: String,
    /// The member it was made for.
    pub member: String,
}

/// What became of a worktree whose member ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Finished {
    /// It held nothing of its own and is gone, with its branch.
    Removed,
    /// It is where it was.
    Kept {
        /// Why.
        reason: KeepReason,
    },
}

/// What the marker of a worktree holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Marker {
    team: String,
    member: String,
    branch: String,
    /// The commit it started from.
    start: String,
    /// The branch that was checked out then, as a full reference; none for a detached head.
    base: Option<String>,
}

/// A worktree with what only we need to know of it.
#[derive(Debug)]
struct Record {
    worktree: Worktree,
    marker: Marker,
    /// The folder git keeps for it.
    admin: PathBuf,
}

/// What becomes of files that git ignores when nothing else is left of a worktree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IgnoredFiles {
    /// They are somebody's, and keep the worktree.
    #[default]
    Keep,
    /// They can be made again, and go with it.
    Remove,
}

/// The worktrees of one repository that we made below one folder.
#[derive(Debug, Clone)]
pub struct Worktrees {
    git: Git,
    folder: PathBuf,
    ignored: IgnoredFiles,
}

impl Worktrees {
    /// Where the worktrees of all teams below a root stand: outside every checkout.
    #[must_use]
    pub fn folder_below(root: &Path) -> PathBuf {
        root.join(BELOW_ROOT)
    }

    /// Names a repository by a folder of its checkout, and the folder below which worktrees are made.
    ///
    /// Nothing is touched before the first worktree is made.
    pub fn new(repo_root: impl Into<PathBuf>, folder: impl Into<PathBuf>) -> Self {
        Self {
            git: Git::new(repo_root.into()),
            folder: folder.into(),
            ignored: IgnoredFiles::default(),
        }
    }

    /// Those of the repository of another folder, below the same one.
    #[must_use]
    pub fn in_repository_of(&self, checkout: PathBuf) -> Self {
        Self { git: self.git.at(checkout), ..self.clone() }
    }

    /// The folders that stand where worktrees of any repository are made, `<folder>/<team>/<member>`. No link is followed.
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

    /// The same, worked on from the repository's own checkout; as they are where it has none.
    #[must_use]
    pub async fn in_main_checkout(&self) -> Self {
        let common = self.git.common_folder().await.ok();
        let main = common
            .filter(|common| common.ends_with(".git"))
            .and_then(|common| Some(common.parent()?.to_owned()));
        main.map_or_else(|| self.clone(), |main| self.in_repository_of(main))
    }

    /// The folder that all worktrees of the repository share, by which two repositories are told apart.
    ///
    /// # Errors
    /// `NotARepository`, `Git` or `Io`.
    pub async fn common_folder(&self) -> Result<PathBuf, WorktreeError> {
        self.git.common_folder().await
    }

    /// Says what becomes of files that git ignores.
    #[must_use]
    pub fn with_ignored(self, ignored: IgnoredFiles) -> Self {
        Self { ignored, ..self }
    }

    /// Keeps git, and the hooks it runs, out of the team's own files.
    #[must_use]
    pub fn confined(self, sandbox: Sandbox) -> Self {
        Self { git: self.git.confined(sandbox), ..self }
    }

    /// Makes a worktree with a new branch that starts at the checkout's present commit.
    ///
    /// Where an earlier worktree or branch of that name was kept, a number is added to both names.
    ///
    /// # Errors
    /// Any [`WorktreeError`] but `NotOurs` and `Locked`; nothing is left behind then.
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

    /// Finds the worktree at a path, for a team that goes on.
    ///
    /// # Errors
    /// `NotOurs` when we did not make it.
    pub async fn open(&self, path: &Path) -> Result<Worktree, WorktreeError> {
        Ok(self.record(path).await?.worktree)
    }

    /// Finds the worktree at a path for a member that goes on. One whose folder is gone is made again, on its branch; answers
    /// whether it was.
    ///
    /// # Errors
    /// `NotOurs` when we did not make it, or git has forgotten it, `Replaced` when something else stands in its place.
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

    /// Removes a worktree and its branch when nothing would be lost, and says why not otherwise.
    ///
    /// Nothing is lost when no file is changed, new or (unless [`IgnoredFiles::Remove`] is set) ignored,
    /// every commit is in the branch it started from, as that is now, and those of submodules are in
    /// a remote of theirs. A folder that was put in its place is never touched.
    ///
    /// # Errors
    /// `NotOurs` when we did not make it, `Git` and `Io` when something else failed.
    pub async fn finish(&self, worktree: &Worktree) -> Result<Finished, WorktreeError> {
        let record = self.record(&worktree.path).await?;
        let turn = self.turn(&self.git.common_folder().await?).await?;
        let has_submodules = match self.look_into(&record).await? {
            Contents::Own(reason) => return Ok(Finished::Kept { reason }),
            Contents::Nothing { has_submodules } => has_submodules,
        };
        let (path, branch) = (record.worktree.path.clone(), record.worktree.branch.clone());
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
        // Git wants a folder that is empty to be gone. One that is not empty by now stays.
        if is_real_folder(path)
            && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
        {
            fs::remove_dir(path).map_err(WorktreeError::io("remove", path))?;
        }
        // Git removes no worktree with submodules unless it is forced, which a locked one withstands.
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

    /// Lists the worktrees we made that belong to nobody any more: all but those at `live` paths.
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

    /// Takes back the worktree that somebody was making who died.
    ///
    /// # Errors
    /// `NotARepository`, `Git` or `Io`.
    pub async fn recover(&self) -> Result<(), WorktreeError> {
        self.turn(&self.git.common_folder().await?).await.map(drop)
    }

    /// Waits for the turn, and takes back what the one before was making when it died, or ends what it was removing.
    async fn turn(&self, common: &Path) -> Result<Turn, WorktreeError> {
        let turn = lock(common).await?;
        if let Some(Making { path, branch, removed }) = turn.said() {
            if self.can_be_ours(&path) && branch.starts_with("pitcrew/") {
                match removed {
                    None => self.undo(&path, &branch).await,
                    // One that still stands is looked at anew: somebody may have come to need it.
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

    /// Whether a path is one that we give worktrees, `<folder>/<team>/<member>`: the file that says it can be anybody's.
    fn can_be_ours(&self, path: &Path) -> bool {
        let names = path
            .strip_prefix(real(&self.folder))
            .map(|below| below.components().collect::<Vec<_>>());
        let is_name = |part: &Component<'_>| matches!(part, Component::Normal(_));
        names.is_ok_and(|names| names.len() == 2 && names.iter().all(is_name)) && real(path) == path
    }

    /// Deletes the branch of a worktree whose removal was cut off.
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

    /// Makes the folder for worktrees of a team, which must not be inside the checkout; gives the one of all teams.
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

    /// Takes back what a creation has left that failed or was cut off; the names were free before.
    async fn undo(&self, path: &Path, branch: &str) {
        // Each fails when its thing was never made, and the reason for the failure is told already.
        let mut removed = self.git.remove_worktree(path, true).await;
        if removed.is_err() && remove_folder(path.to_owned()).await.is_ok() {
            // Git does not take half a worktree for one, and forgets it when its folder is gone.
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

    /// The worktree at a path, when it is ours.
    async fn record(&self, path: &Path) -> Result<Record, WorktreeError> {
        let wanted = real(path);
        let records = self.records().await?;
        let found = records.into_iter().find(|record| real(&record.worktree.path) == wanted);
        found.ok_or_else(|| WorktreeError::NotOurs {
            path: path.to_owned(),
            folder: self.folder.clone(),
        })
    }

    /// Every worktree of the repository that carries our marker and is below our folder.
    async fn records(&self) -> Result<Vec<Record>, WorktreeError> {
        let folder = real(&self.folder);
        let admins = self.git.common_folder().await?.join("worktrees");
        let entries = match fs::read_dir(&admins) {
            Ok(entries) => entries,
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(WorktreeError::io("list", &admins)(source)),
        };
        let mut records: Vec<_> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| Record::read(entry.path()))
            .filter(|record| {
                // By where it was made: what stands in its place by now may be a link.
                let made_in = record.worktree.path.parent().map(real);
                made_in.is_some_and(|made_in| made_in.starts_with(&folder))
            })
            .collect();
        records.sort_by(|one, other| one.worktree.path.cmp(&other.worktree.path));
        Ok(records)
    }

    /// Deletes the branch of a worktree that is gone, unless it has commits that are nowhere else.
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

    /// Removes the team's folder when that was its last worktree.
    fn tidy(&self, path: &Path) {
        if let Some(team) = path.parent()
            && team != real(&self.folder)
        {
            // Refused when it is not empty, which is right.
            let _ = fs::remove_dir(team);
        }
    }
}

impl Record {
    /// Reads what git and we keep of a worktree; none when it has no marker.
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

/// The path with all links followed, as far as it exists.
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

/// Whether a name can be one part of a branch, and a folder, on every system.
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
mod tests {
    use super::*;

    #[test]
    fn a_name_that_leaves_the_folder_or_breaks_a_branch_is_refused() {
        for name in ["worker", "worker-2", "a.b_c"] {
            assert!(is_branch_part(name), "{name}");
        }
        let long = "x".repeat(300);
        for name in [
            "",
            ".",
            "..",
            "a/b",
            "-f",
            "a..b",
            "a.lock",
            "a ",
            "a\0",
            "ü",
            ".git",
            "a.",
            long.as_str(),
        ] {
            assert!(!is_branch_part(name), "{name:?}");
        }
    }
}
