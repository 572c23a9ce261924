//! Asks git what worktrees need to know, and lets it make and remove them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{WorktreeError, is_real_folder, real};
use crate::checkout::checkout_around;
use crate::our_git::{
    ANSWER_BYTES, Access, Answer, Listed, OurGit, OurGitError, RunningGit, Written,
};
use crate::sandbox::Sandbox;
use crate::sandbox::git_folder::TrustedStores;

/// Maximum number of repositories inside a worktree, in any depth.
const MOST_INNER: usize = 10_000;

/// Runs git in one checkout.
#[derive(Debug, Clone)]
pub(super) struct Git {
    checkout: PathBuf,
    ours: OurGit,
}

/// A checkout inside a worktree, or the worktree itself.
#[derive(Debug)]
pub(super) struct InnerCheckout {
    pub(super) folder: PathBuf,
    /// The number of files that exist and that git was told to skip.
    unseen: usize,
}

/// A file is larger than the caller allows.
#[derive(Debug)]
pub(super) struct TooLarge;

/// The names of files that git listed.
#[derive(Default)]
pub(super) struct Names {
    pub(super) list: BTreeSet<String>,
    /// Whether names are left out, because the list is longer than an answer may be.
    pub(super) has_more: bool,
}

impl Names {
    /// Splits an answer in which each name ends with a zero byte.
    fn of(answer: &[u8]) -> Self {
        // The part behind the last zero byte is empty, or it is a name that was cut.
        let end = answer.iter().rposition(|byte| *byte == 0).unwrap_or(0);
        let whole = answer.get(..end).filter(|whole| !whole.is_empty());
        let names = whole.into_iter().flat_map(|whole| whole.split(|byte| *byte == 0));
        let list = names.map(|name| String::from_utf8_lossy(name).into()).collect();
        Self { list, has_more: answer.len() >= ANSWER_BYTES }
    }
}

impl Git {
    pub(super) fn new(checkout: PathBuf) -> Self {
        Self { checkout, ours: OurGit::default() }
    }

    #[cfg(test)]
    pub(super) fn run_by(self, ours: OurGit) -> Self {
        Self { ours, ..self }
    }

    pub(super) fn confined(self, sandbox: Sandbox) -> Self {
        Self { ours: self.ours.confined(sandbox), ..self }
    }

    pub(super) fn trusting(self, stores: TrustedStores) -> Self {
        Self { ours: self.ours.trusting(stores), ..self }
    }

    pub(super) fn ended_by(self, running: RunningGit) -> Self {
        Self { ours: self.ours.ended_by(running), ..self }
    }

    /// Returns a copy that runs git in another checkout.
    pub(super) fn at(&self, checkout: PathBuf) -> Self {
        Self { checkout, ours: self.ours.clone() }
    }

    pub(super) fn checkout(&self) -> &Path {
        &self.checkout
    }

    /// Returns the git folder that all worktrees of the repository share.
    pub(super) async fn common_folder(&self) -> Result<PathBuf, WorktreeError> {
        self.folder("--git-common-dir").await
    }

    /// Returns the top folder of the checkout, with symbolic links resolved.
    pub(super) async fn top_folder(&self) -> Result<PathBuf, WorktreeError> {
        self.folder("--show-toplevel").await
    }

    async fn folder(&self, which: &str) -> Result<PathBuf, WorktreeError> {
        let arguments = ["rev-parse", "--path-format=absolute", which];
        match self.tell(&self.checkout, arguments).await {
            Ok(answer) => Ok(answer.path()),
            Err(WorktreeError::Git { answer, .. }) if answer.contains("not a git repository") => {
                let path = self.checkout.clone();
                Err(WorktreeError::NotARepository { path })
            }
            Err(problem) => Err(problem),
        }
    }

    /// Returns the folder in which git stores data about the worktree at this path.
    pub(super) async fn admin_folder(&self, worktree: &Path) -> Result<PathBuf, WorktreeError> {
        let answer = self.tell(worktree, ["rev-parse", "--absolute-git-dir"]).await?;
        Ok(answer.path())
    }

    /// Returns the commit that a reference names, or `None` if there is no such reference.
    pub(super) async fn commit(&self, reference: &str) -> Result<Option<String>, WorktreeError> {
        self.commit_in(&self.checkout, reference).await
    }

    /// Returns the commit that a reference names in a worktree, or `None` if there is no such
    /// reference.
    pub(super) async fn commit_in(
        &self,
        worktree: &Path,
        reference: &str,
    ) -> Result<Option<String>, WorktreeError> {
        // `^{commit}` makes git follow a tag to its commit and refuse other objects.
        let wanted = format!("{reference}^{{commit}}");
        let arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted];
        let answer = self.ask(worktree, arguments).await?;
        Ok(answer.is_success.then(|| answer.text()))
    }

    /// Returns the full name of the reference that is checked out, or `None` if no branch is
    /// checked out (detached HEAD).
    pub(super) async fn head_reference(&self) -> Result<Option<String>, WorktreeError> {
        let answer = self.ask(&self.checkout, ["symbolic-ref", "--quiet", "HEAD"]).await?;
        Ok(answer.is_success.then(|| answer.text()))
    }

    /// Lists a worktree and all repositories that are checked out inside it, such as submodules, in
    /// any depth. The worktree comes first.
    pub(super) async fn checkouts(
        &self,
        worktree: &Path,
    ) -> Result<Vec<InnerCheckout>, WorktreeError> {
        let mut found: Vec<InnerCheckout> = Vec::new();
        let mut folders = vec![worktree.to_owned()];
        while let Some(folder) = folders.pop() {
            if found.len() > MOST_INNER {
                let answer = "there are too many repositories inside the worktree".to_owned();
                return Err(WorktreeError::Git { command: "ls-files".to_owned(), answer });
            }
            let Listed { unseen, nested } = self.ours.listed(&folder).await?;
            found.push(InnerCheckout { folder, unseen });
            folders.extend(nested);
        }
        Ok(found)
    }

    /// Counts the changed and new files of a checkout. Ignored files do not count. Files that git
    /// was told to skip (`--skip-worktree`, `--assume-unchanged`) count if they exist. Settings
    /// that make git compare files less strictly have no effect here. A repository inside the
    /// checkout counts only if another commit is checked out in it.
    pub(super) async fn uncommitted_files(
        &self,
        checkout: &InnerCheckout,
    ) -> Result<usize, WorktreeError> {
        let closely = ["core.trustctime=true", "core.checkStat=default"];
        let closely = closely.into_iter().flat_map(|setting| ["-c", setting]);
        let status =
            ["status", "--porcelain", "--untracked-files=all", "--ignore-submodules=dirty"];
        let words = closely.chain(status);
        let answer = self.ours.tell(&checkout.folder, words, Access::Compare).await?;
        // `git status` does not report skipped files.
        Ok(answer.stdout_lines + checkout.unseen)
    }

    /// Returns the files and folders of a checkout that git ignores. For a folder that is ignored
    /// as a whole, only the folder is returned.
    pub(super) async fn ignored_files(&self, folder: &Path) -> Result<Vec<String>, WorktreeError> {
        let status = [
            "status",
            "--porcelain",
            "-z",
            "--untracked-files=normal",
            "--ignored=traditional",
            "--ignore-submodules=dirty",
        ];
        let answer = self.ours.tell(folder, status, Access::Compare).await?;
        let text = String::from_utf8_lossy(&answer.stdout).into_owned();
        Ok(text
            .split('\0')
            .filter_map(|entry| entry.strip_prefix("!! "))
            .map(str::to_owned)
            .collect())
    }

    /// Counts the commits of a submodule that are in none of the submodule's remotes. Checks
    /// branches, tags, the stash and the checked out commit.
    pub(super) async fn own_commits(&self, submodule: &Path) -> Result<usize, WorktreeError> {
        let answer = self
            .tell(submodule, ["rev-list", "--count", "--all", "HEAD", "--not", "--remotes"])
            .await?
            .text();
        answer.parse().map_err(|_| WorktreeError::Git { command: "rev-list".to_owned(), answer })
    }

    /// Counts the commits that `tip` contains and none of `known` contains.
    pub(super) async fn commits_beyond(
        &self,
        tip: &str,
        known: &[String],
    ) -> Result<usize, WorktreeError> {
        let mut arguments = vec!["rev-list", "--count", "--end-of-options", tip];
        let excluded: Vec<_> = known.iter().map(|commit| format!("^{commit}")).collect();
        arguments.extend(excluded.iter().map(String::as_str));
        let answer = self.tell(&self.checkout, arguments).await?.text();
        answer.parse().map_err(|_| WorktreeError::Git { command: "rev-list".to_owned(), answer })
    }

    /// Returns the short ids and titles of the newest commits that `tip` contains and none of
    /// `known` contains, at most `most`.
    pub(super) async fn titles_beyond(
        &self,
        tip: &str,
        known: &[String],
        most: usize,
    ) -> Result<Vec<String>, WorktreeError> {
        let most = format!("--max-count={most}");
        let mut arguments = vec!["log", "--no-show-signature", "--format=%h %s", &most];
        arguments.extend(["--end-of-options", tip]);
        let excluded: Vec<_> = known.iter().map(|commit| format!("^{commit}")).collect();
        arguments.extend(excluded.iter().map(String::as_str));
        let answer = self.tell(&self.checkout, arguments).await?.text();
        Ok(answer.lines().map(str::to_owned).collect())
    }

    /// Counts the commits since a time that [`Self::recent`] selects.
    pub(super) async fn commits_since(
        &self,
        known: Option<&str>,
        since_s: i64,
    ) -> Result<usize, WorktreeError> {
        let arguments = Self::recent(&["rev-list", "--count"], known, since_s);
        let answer = self.tell(&self.checkout, arguments).await?.text();
        answer.parse().map_err(|_| WorktreeError::Git { command: "rev-list".to_owned(), answer })
    }

    /// Returns the short ids and titles of the newest commits since a time that [`Self::recent`]
    /// selects, at most `most`.
    pub(super) async fn titles_since(
        &self,
        known: Option<&str>,
        since_s: i64,
        most: usize,
    ) -> Result<Vec<String>, WorktreeError> {
        let most = format!("--max-count={most}");
        let command = ["log", "--no-show-signature", "--format=%h %s", &most];
        let answer =
            self.tell(&self.checkout, Self::recent(&command, known, since_s)).await?.text();
        Ok(answer.lines().map(str::to_owned).collect())
    }

    /// Returns the arguments of a command about the commits of `HEAD` and of all branches that are
    /// not older than a time. The branches of worktrees and the commits in `known` are left out.
    fn recent(command: &[&str], known: Option<&str>, since_s: i64) -> Vec<String> {
        let mut arguments: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        arguments.push(format!("--max-age={since_s}"));
        let selected = ["--exclude=pitcrew/*", "--branches", "--end-of-options", "HEAD"];
        arguments.extend(selected.map(str::to_owned));
        arguments.extend(known.map(|commit| format!("^{commit}")));
        arguments
    }

    /// Returns the names of the files that differ between the commit at which a worktree started
    /// and `tip`.
    pub(super) async fn files_since(&self, start: &str, tip: &str) -> Result<Names, WorktreeError> {
        let words = ["diff", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv", "-z"];
        let arguments = words.into_iter().chain(["--end-of-options", start, tip]);
        Ok(Names::of(&self.tell(&self.checkout, arguments).await?.stdout))
    }

    /// Returns the names of the changed and new files of a worktree. Ignored files do not count.
    pub(super) async fn uncommitted_names(&self, worktree: &Path) -> Result<Names, WorktreeError> {
        let status = [
            "status",
            "--porcelain",
            "-z",
            "--untracked-files=all",
            "--no-renames",
            "--ignore-submodules=dirty",
        ];
        let answer = self.ours.tell(worktree, status, Access::Compare).await?;
        // Each entry begins with two letters for the state of the file, and a space.
        let Names { list, has_more } = Names::of(&answer.stdout);
        let list = list.iter().filter_map(|entry| entry.get(3..)).map(str::to_owned).collect();
        Ok(Names { list, has_more })
    }

    /// Returns the commit at which two histories parted, or `None` if they have no common commit.
    pub(super) async fn merge_base(
        &self,
        one: &str,
        other: &str,
    ) -> Result<Option<String>, WorktreeError> {
        let answer = self.ask(&self.checkout, ["merge-base", one, other]).await?;
        Ok(answer.is_success.then(|| answer.text()))
    }

    /// Returns the content of a file in a commit, or `None` if the commit has no such file.
    ///
    /// # Errors
    /// If git cannot run. The inner error says that the file is larger than `most` bytes.
    pub(super) async fn blob(
        &self,
        commit: &str,
        file: &str,
        most: usize,
    ) -> Result<Result<Option<Vec<u8>>, TooLarge>, WorktreeError> {
        let object = format!("{commit}:{file}");
        let size = self.ask(&self.checkout, ["cat-file", "-s", &object]).await?;
        match size.text().parse::<usize>() {
            Ok(size) if size > most => return Ok(Err(TooLarge)),
            Ok(_) if size.is_success => {}
            Ok(_) | Err(_) => return Ok(Ok(None)),
        }
        let words = ["cat-file", "blob", &object];
        let answer = self.ours.ask_at_most(&self.checkout, words, Access::Look, most).await?;
        Ok(Ok(answer.is_success.then_some(answer.stdout)))
    }

    /// Moves the checked out branch and its files on to a commit that contains the branch. If the
    /// branch has other commits, or if a changed file would be lost, git refuses.
    pub(super) async fn fast_forward(
        &self,
        branch: &str,
        commit: &str,
    ) -> Result<(), WorktreeError> {
        // `core.worktree` of a repository can name any folder, in which git would then write.
        let top = self.top_folder().await?;
        let is_here = checkout_around(&real(&self.checkout)).is_some_and(|around| around == top);
        if !is_here {
            let why = "the repository's setting core.worktree leads there".to_owned();
            return Err(OurGitError::Written { path: top, why }.into());
        }
        let words = ["merge", "--ff-only", "--quiet", "--no-stat", "--no-autostash", commit];
        let written =
            Written { folders: &[&top], references: &[branch, "ORIG_HEAD"], ..Written::default() };
        self.ours.tell(&top, words, Access::Write(&written)).await.map(drop)?;
        Ok(())
    }

    /// Creates a worktree with a new branch.
    pub(super) async fn add_worktree(
        &self,
        path: &Path,
        branch: &str,
        start: &str,
    ) -> Result<(), WorktreeError> {
        let words = ["worktree", "add", "--quiet", "--no-checkout", "--no-track", "-b", branch];
        self.add(path, branch, &words, start).await
    }

    /// Creates a worktree again on its existing branch, after the worktree's folder was removed.
    pub(super) async fn add_worktree_again(
        &self,
        path: &Path,
        branch: &str,
    ) -> Result<(), WorktreeError> {
        let words = ["worktree", "add", "--quiet", "--no-checkout", "--force"];
        self.add(path, branch, &words, branch).await
    }

    /// Creates a worktree, and then checks out its files.
    ///
    /// The two are commands of their own, because the configuration can depend on the folder and on
    /// the branch (`includeIf`). The programs that the checkout would run are known only in the
    /// worktree.
    async fn add(
        &self,
        path: &Path,
        branch: &str,
        words: &[&str],
        start: &str,
    ) -> Result<(), WorktreeError> {
        // Git may write in the folder itself, and not in the folder around it.
        match fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(WorktreeError::io("create", path)(error));
            }
            Ok(()) | Err(_) => {}
        }
        let reference = format!("refs/heads/{branch}");
        let written = Written { folders: &[path], references: &[&reference], ..Written::default() };
        let words = words.iter().map(OsStr::new);
        let words = words.chain([OsStr::new("--"), path.as_os_str(), OsStr::new(start)]);
        self.ours.tell(&self.checkout, words, Access::Write(&written)).await?;
        let words = ["reset", "--hard", "--no-recurse-submodules", "--quiet"];
        self.ours.tell(path, words, Access::Write(&written)).await?;
        Ok(())
    }

    /// Removes a worktree. Unless `force` is set, git checks again that the worktree has no
    /// changes.
    pub(super) async fn remove_worktree(
        &self,
        path: &Path,
        force: bool,
    ) -> Result<(), WorktreeError> {
        let force: &[&str] = if force { &["--force"] } else { &[] };
        self.remove(path, force).await
    }

    /// Removes a worktree whose creation was interrupted. Git has locked it until the end of that
    /// creation.
    pub(super) async fn remove_unfinished_worktree(
        &self,
        path: &Path,
    ) -> Result<(), WorktreeError> {
        self.remove(path, &["--force", "--force"]).await
    }

    async fn remove(&self, path: &Path, force: &[&str]) -> Result<(), WorktreeError> {
        let words = ["worktree", "remove"];
        let words =
            words.iter().chain(force).map(OsStr::new).chain([OsStr::new("--"), path.as_os_str()]);
        // Only a folder that is really there is a checkout, into which git goes.
        let path = path.to_owned();
        let folders: &[&Path] = if is_real_folder(&path) { &[&path] } else { &[] };
        let written = Written { folders, emptied: path.parent(), ..Written::default() };
        self.ours.tell(&self.checkout, words, Access::Write(&written)).await?;
        Ok(())
    }

    /// Deletes a branch. Git refuses to delete a branch that is checked out.
    pub(super) async fn delete_branch(&self, branch: &str) -> Result<(), WorktreeError> {
        let words = ["branch", "--quiet", "-D", "--", branch];
        let reference = format!("refs/heads/{branch}");
        let written = Written { references: &[&reference], ..Written::default() };
        self.ours.tell(&self.checkout, words, Access::Write(&written)).await?;
        Ok(())
    }

    /// Asks git about the git folder. Returns an error if the command fails.
    async fn tell<S: AsRef<OsStr>>(
        &self,
        folder: &Path,
        words: impl IntoIterator<Item = S>,
    ) -> Result<Answer, WorktreeError> {
        Ok(self.ours.tell(folder, words, Access::Look).await?)
    }

    /// Asks git about the git folder. Returns the result even if the command fails.
    async fn ask<S: AsRef<OsStr>>(
        &self,
        folder: &Path,
        words: impl IntoIterator<Item = S>,
    ) -> Result<Answer, WorktreeError> {
        Ok(self.ours.ask(folder, words, Access::Look).await?)
    }
}
