//! Runs the git commands that worktrees need.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::WorktreeError;
use crate::checkout::checkout_around;
use crate::given_file::{Given, check_plain};
use crate::job::{Ended, Ending, Stream};
use crate::sandbox::{Grant, Profile, Sandbox};

/// Time limit of one git command. The slowest command is the checkout of a large repository.
const CALL_TIME: Duration = Duration::from_secs(300);

/// Files in a git folder that git opens at every command. An archive can contain a FIFO in place of
/// such a file, and git would wait forever when it opens the FIFO.
const GIT_FILES: [&str; 9] = [
    "HEAD",
    "commondir",
    "config",
    "config.worktree",
    "gitdir",
    "index",
    "info/attributes",
    "info/exclude",
    "packed-refs",
];

/// Files in a checkout that git opens at every command. They must be plain files, for the same
/// reason as the files in `GIT_FILES`.
const CHECKOUT_FILES: [&str; 3] = [".gitattributes", ".gitignore", ".gitmodules"];

/// Time between the signals TERM and KILL. Git needs this time to remove its lock files.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Maximum size of a `.git` file in bytes. Real `.git` files are much smaller.
const POINTER_BYTES: u64 = 16 * 1024;

/// Maximum number of bytes of each output stream of git that are stored. Lines of the standard
/// output are counted even after this limit.
const ANSWER_BYTES: usize = 64 * 1024;

/// Settings for every git command. They prevent git from running a program that a repository's
/// configuration names. A cloned repository contains no configuration and no hooks from other
/// people, but a repository in an archive can contain them.
const CAREFUL: [&str; 3] =
    ["core.fsmonitor=false", "core.hooksPath=/dev/null", "safe.bareRepository=explicit"];

/// Environment variables for every git command. They forbid all network transports and the download
/// of missing objects.
const CAREFUL_VARIABLES: [(&str, &str); 5] = [
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("LC_ALL", "C"),
];

/// The settings of a git filter that contain programs. Git would run each of these programs.
const FILTER_FIELDS: [&str; 3] = ["clean", "smudge", "process"];

/// Runs git in one checkout.
#[derive(Debug, Clone)]
pub(super) struct Git {
    checkout: PathBuf,
    /// The sandbox in which git runs. It is needed because agents can change the repository's
    /// configuration, which can name programs that git runs.
    sandbox: Sandbox,
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

/// The result of a git command.
struct Answer {
    is_success: bool,
    stdout: Vec<u8>,
    stdout_lines: usize,
    stderr: Vec<u8>,
}

impl Answer {
    fn path(self) -> PathBuf {
        let mut bytes = self.stdout;
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        PathBuf::from(OsString::from_vec(bytes))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim().to_owned()
    }
}

impl Git {
    pub(super) fn new(checkout: PathBuf) -> Self {
        Self { checkout, sandbox: Sandbox::default() }
    }

    pub(super) fn confined(self, sandbox: Sandbox) -> Self {
        Self { sandbox, ..self }
    }

    /// Returns a copy that runs git in another checkout.
    pub(super) fn at(&self, checkout: PathBuf) -> Self {
        Self { checkout, sandbox: self.sandbox.clone() }
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

    /// Counts the changed and new files of a worktree. Ignored files do not count. Files that git
    /// was told to skip (`--skip-worktree`, `--assume-unchanged`) count if they exist. Settings
    /// that make git compare files less strictly have no effect here.
    pub(super) async fn uncommitted_files(&self, worktree: &Path) -> Result<usize, WorktreeError> {
        let closely = ["core.trustctime=true", "core.checkStat=default"];
        let status = ["status", "--porcelain", "--untracked-files=all", "--ignore-submodules=none"];
        let closely = closely.into_iter().flat_map(|setting| ["-c", setting]);
        let arguments = self.without_filters(worktree, closely.chain(status)).await?;
        let changed = self.tell(worktree, arguments).await?.stdout_lines;
        // `git status` does not report skipped files, so list them separately.
        let listed = self.tell(worktree, ["ls-files", "-v", "-z"]).await?.stdout;
        let is_unseen = |entry: &&[u8]| match entry.split_at_checked(2) {
            Some(([flag, b' '], path)) if *flag == b'S' || flag.is_ascii_lowercase() => {
                worktree.join(OsStr::from_bytes(path)).symlink_metadata().is_ok()
            }
            Some(_) | None => false,
        };
        Ok(changed + listed.split(|byte| *byte == 0).filter(is_unseen).count())
    }

    /// Returns the files and folders of a worktree that git ignores. For a folder that is ignored
    /// as a whole, only the folder is returned.
    pub(super) async fn ignored_files(
        &self,
        worktree: &Path,
    ) -> Result<Vec<String>, WorktreeError> {
        let status =
            ["status", "--porcelain", "-z", "--untracked-files=normal", "--ignored=traditional"];
        let answer = self.tell(worktree, self.without_filters(worktree, status).await?).await?;
        let text = String::from_utf8_lossy(&answer.stdout).into_owned();
        Ok(text
            .split('\0')
            .filter_map(|entry| entry.strip_prefix("!! "))
            .map(str::to_owned)
            .collect())
    }

    /// Returns the folders of all submodules that are checked out in a worktree, including nested
    /// submodules.
    pub(super) async fn submodules(&self, worktree: &Path) -> Result<Vec<PathBuf>, WorktreeError> {
        // Without `.gitmodules` there are no submodules. In that case, return at once and save the
        // time of `git submodule`, which starts a shell.
        if worktree.join(".gitmodules").symlink_metadata().is_err() {
            return Ok(Vec::new());
        }
        let print = "printf '%s\\0' \"$PWD\"";
        let answer =
            self.tell(worktree, ["submodule", "--quiet", "foreach", "--recursive", print]).await?;
        let folders = answer.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        Ok(folders.map(|path| PathBuf::from(OsString::from_vec(path.to_vec()))).collect())
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
        let words = ["diff", "--name-only", "--no-renames", "--no-ext-diff", "-z"];
        let arguments = words.into_iter().chain(["--end-of-options", start, tip]);
        Ok(Names::of(&self.tell(&self.checkout, arguments).await?.stdout))
    }

    /// Returns the names of the changed and new files of a worktree. Ignored files do not count.
    pub(super) async fn uncommitted_names(&self, worktree: &Path) -> Result<Names, WorktreeError> {
        let status = ["status", "--porcelain", "-z", "--untracked-files=all", "--no-renames"];
        let answer = self.tell(worktree, self.without_filters(worktree, status).await?).await?;
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
        let answer = self.ask_at_most(&self.checkout, words, most).await?;
        Ok(Ok(answer.is_success.then_some(answer.stdout)))
    }

    /// Moves the checked out branch and its files on to a commit that contains the branch. If the
    /// branch has other commits, or if a changed file would be lost, git refuses.
    pub(super) async fn fast_forward(&self, commit: &str) -> Result<(), WorktreeError> {
        // Without these settings, git can run programs that the repository's configuration names.
        let settings = ["merge.verifySignatures=false", "gc.auto=0", "maintenance.auto=false"];
        let settings = settings.into_iter().flat_map(|setting| ["-c", setting]);
        let words = ["merge", "--ff-only", "--quiet", "--no-stat", "--no-autostash", commit];
        let arguments = settings.chain(words);
        self.tell(&self.checkout, self.without_filters(&self.checkout, arguments).await?)
            .await
            .map(drop)
    }

    /// Creates a worktree with a new branch.
    pub(super) async fn add_worktree(
        &self,
        path: &Path,
        branch: &str,
        start: &str,
    ) -> Result<(), WorktreeError> {
        let words = ["worktree", "add", "--quiet", "--no-track", "-b", branch, "--"];
        let arguments = words.iter().map(OsStr::new).chain([path.as_os_str(), OsStr::new(start)]);
        self.tell(&self.checkout, self.without_filters(&self.checkout, arguments).await?)
            .await
            .map(drop)
    }

    /// Creates a worktree again on its existing branch, after the worktree's folder was removed.
    pub(super) async fn add_worktree_again(
        &self,
        path: &Path,
        branch: &str,
    ) -> Result<(), WorktreeError> {
        let words = ["worktree", "add", "--quiet", "--force", "--"];
        let arguments = words.iter().map(OsStr::new).chain([path.as_os_str(), OsStr::new(branch)]);
        self.tell(&self.checkout, self.without_filters(&self.checkout, arguments).await?)
            .await
            .map(drop)
    }

    /// Removes a worktree. Unless `force` is set, git checks again that the worktree has no
    /// changes.
    pub(super) async fn remove_worktree(
        &self,
        path: &Path,
        force: bool,
    ) -> Result<(), WorktreeError> {
        let words: &[&str] =
            if force { &["worktree", "remove", "--force"] } else { &["worktree", "remove"] };
        let arguments = words.iter().map(OsStr::new).chain([OsStr::new("--"), path.as_os_str()]);
        self.tell(&self.checkout, self.without_filters(&self.checkout, arguments).await?)
            .await
            .map(drop)
    }

    /// Removes a worktree whose creation was interrupted. Git has locked it until the end of that
    /// creation.
    pub(super) async fn remove_unfinished_worktree(
        &self,
        path: &Path,
    ) -> Result<(), WorktreeError> {
        let words = ["worktree", "remove", "--force", "--force", "--"];
        let arguments = words.iter().map(OsStr::new).chain([path.as_os_str()]);
        self.tell(&self.checkout, self.without_filters(&self.checkout, arguments).await?)
            .await
            .map(drop)
    }

    /// Deletes a branch. Git refuses to delete a branch that is checked out.
    pub(super) async fn delete_branch(&self, branch: &str) -> Result<(), WorktreeError> {
        let arguments = ["branch", "--quiet", "-D", "--", branch];
        self.tell(&self.checkout, arguments).await.map(drop)
    }

    /// Returns `arguments`, preceded by settings that disable the filters in the repository's own
    /// configuration. Filters configured by the user or the machine stay active.
    async fn without_filters<S: AsRef<OsStr>>(
        &self,
        folder: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<Vec<OsString>, WorktreeError> {
        let listed = ["config", "--show-scope", "--null", "--get-regexp", "^filter\\."];
        let answer = self.ask(folder, listed).await?;
        // A filter that was cut off would stay active.
        if answer.stdout.len() >= ANSWER_BYTES {
            let answer = "the configuration has too many filters".to_owned();
            return Err(WorktreeError::Git { command: "config".to_owned(), answer });
        }
        let settings = filters_of_repository(&answer.stdout)
            .into_iter()
            .flat_map(|setting| ["-c".into(), setting]);
        let arguments = arguments.into_iter().map(|word| word.as_ref().to_os_string());
        Ok(settings.chain(arguments).collect())
    }

    /// Runs git. Returns an error if the command fails.
    async fn tell<S: AsRef<OsStr>>(
        &self,
        folder: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<Answer, WorktreeError> {
        let arguments: Vec<_> = arguments.into_iter().collect();
        let answer = self.ask(folder, &arguments).await?;
        if answer.is_success {
            return Ok(answer);
        }
        let words = arguments.iter().map(|word| word.as_ref().to_string_lossy());
        Err(WorktreeError::Git {
            command: words.take(2).collect::<Vec<_>>().join(" "),
            answer: String::from_utf8_lossy(&answer.stderr).trim().to_owned(),
        })
    }

    /// Runs git. Returns the result even if the command fails.
    async fn ask<S: AsRef<OsStr>>(
        &self,
        folder: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<Answer, WorktreeError> {
        self.ask_at_most(folder, arguments, ANSWER_BYTES).await
    }

    /// Runs git as [`Git::ask`] does, and stores at most `most` bytes of each output stream.
    async fn ask_at_most<S: AsRef<OsStr>>(
        &self,
        folder: &Path,
        arguments: impl IntoIterator<Item = S>,
        most: usize,
    ) -> Result<Answer, WorktreeError> {
        let fill = |command: &mut tokio::process::Command| {
            let careful = CAREFUL.into_iter().flat_map(|setting| ["-c", setting]);
            command.args(careful).args(arguments).envs(CAREFUL_VARIABLES);
        };
        check_files(folder).map_err(WorktreeError::io("run git in", folder))?;
        let job = self.sandbox.start(Profile::Free, &Grant::at(folder), "git", fill);
        let job = job.map_err(WorktreeError::io("run git in", folder))?;
        let mut answer =
            Answer { is_success: false, stdout: Vec::new(), stdout_lines: 0, stderr: Vec::new() };
        let deadline = Some(Instant::now() + CALL_TIME);
        let never = CancellationToken::new();
        let ended = job
            .run(deadline, STOP_GRACE, &never, |stream, bytes| match stream {
                Stream::Stdout => {
                    answer.stdout_lines += bytes.iter().filter(|byte| **byte == b'\n').count();
                    keep(&mut answer.stdout, bytes, most);
                }
                Stream::Stderr => keep(&mut answer.stderr, bytes, most),
            })
            .await
            .map_err(WorktreeError::io("run git in", folder))?;
        let Ended { ending, left_behind } = ended;
        // Dropping this value kills the processes that git left running.
        drop(left_behind);
        match ending {
            Ending::Exited(status) => answer.is_success = status.success(),
            Ending::DeadlinePassed | Ending::Cancelled => {
                answer.stderr =
                    format!("it took longer than {} s", CALL_TIME.as_secs()).into_bytes();
            }
        }
        Ok(answer)
    }
}

/// Returns settings that disable the filters in the repository's own configuration. A filter that
/// the user or the machine also configures gets the value configured there. Any other filter gets
/// empty commands, and its setting `required` becomes `false`.
///
/// `answer` is git's output. For each setting it contains the scope, the key, a line break and the
/// value, with a zero byte after the scope and after the value.
fn filters_of_repository(answer: &[u8]) -> Vec<OsString> {
    let mut parts = answer.split(|byte| *byte == 0);
    let (mut drivers, mut of_user) = (BTreeSet::new(), BTreeMap::new());
    while let (Some(scope), Some(entry)) = (parts.next(), parts.next()) {
        let (key, value) = match entry.iter().position(|byte| *byte == b'\n') {
            Some(at) => {
                (entry.get(..at).unwrap_or_default(), entry.get(at + 1..).unwrap_or_default())
            }
            None => (entry, &b""[..]),
        };
        match scope {
            b"system" | b"global" | b"command" => _ = of_user.insert(key, value),
            // All other scopes, such as `local` and `worktree`, belong to the repository.
            _ => drivers
                .extend(key.iter().rposition(|byte| *byte == b'.').and_then(|at| key.get(..at))),
        }
    }
    let joined = |key: &[u8], value: &[u8]| OsString::from_vec([key, b"=", value].concat());
    let mut settings = Vec::new();
    for driver in drivers {
        for field in FILTER_FIELDS {
            let key = [driver, b".", field.as_bytes()].concat();
            settings.push(joined(&key, of_user.get(key.as_slice()).copied().unwrap_or_default()));
        }
        let required = [driver, b".required"].concat();
        settings
            .push(joined(&required, of_user.get(required.as_slice()).copied().unwrap_or(b"false")));
    }
    settings
}

/// Returns an error if git would open a file in the checkout or its git folder that is not a plain
/// file.
fn check_files(folder: &Path) -> io::Result<()> {
    let Some(top) = checkout_around(folder) else { return Ok(()) };
    let link = top.join(".git");
    let pointed = Given::ByUser.read_text(&link, POINTER_BYTES).ok().flatten();
    // In a worktree or a submodule, `.git` is a file that names the git folder. Otherwise `.git` is
    // the git folder itself.
    let own = pointed
        .and_then(|text| Some(top.join(text.strip_prefix("gitdir:")?.trim())))
        .unwrap_or(link);
    let common = own
        .ancestors()
        .nth(2)
        .filter(|_| own.parent().is_some_and(|folder| folder.ends_with("worktrees")));
    let of_git = [Some(own.as_path()), common].into_iter().flatten();
    let of_git = of_git.flat_map(|folder| GIT_FILES.map(|name| folder.join(name)));
    let mut files = of_git.chain(CHECKOUT_FILES.map(|name| top.join(name)));
    files.try_for_each(|file| {
        let said = |refused| io::Error::other(format!("{} is not read: {refused}", file.display()));
        check_plain(&file, u64::MAX).map_err(said)
    })
}

fn keep(kept: &mut Vec<u8>, bytes: &[u8], most: usize) {
    let room = most.saturating_sub(kept.len());
    kept.extend(bytes.iter().take(room));
}
