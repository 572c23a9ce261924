//! Git worktrees in real repositories.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pitcrew_process::worktree::{
    FileText, Finished, IgnoredFiles, Merged, Versions, Worktree, WorktreeError, Worktrees,
};
use tempfile::TempDir;

use crate::git::apart;

mod attacks;
mod cut_off;
mod earlier;
mod long_answers;

/// A repository with one commit, and beside it a folder for worktrees.
struct TestEnv {
    _folder: TempDir,
    repository: PathBuf,
    folder: PathBuf,
    worktrees: Worktrees,
}

impl TestEnv {
    fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let repository = root.join("repository");
        fs::create_dir(&repository).unwrap();
        git(&repository, "init --quiet --initial-branch=main");
        // These settings keep git from running background maintenance during the test, and replace
        // settings of the user.
        git(&repository, "config maintenance.auto false");
        git(&repository, "config core.autocrlf false");
        git(
            &repository,
            &format!("config core.hooksPath {}", repository.join(".git/hooks").display()),
        );
        let worktrees = Worktrees::new(&repository, root.join("worktrees"));
        Self { _folder: folder, repository, folder: root.join("worktrees"), worktrees }
    }

    fn new() -> Self {
        let setting = Self::empty();
        fs::write(setting.repository.join(".gitignore"), "ignored\n").unwrap();
        commit(&setting.repository, "first");
        setting
    }

    async fn worker(&self) -> Worktree {
        self.worktrees.create("probe", "worker").await.unwrap()
    }

    async fn finish(&self, worktree: &Worktree) -> String {
        match self.worktrees.finish(worktree).await.unwrap() {
            Finished::Removed => "removed".to_owned(),
            Finished::Kept { reason } => reason.to_string(),
        }
    }

    fn branches(&self) -> String {
        git(&self.repository, "for-each-ref --format=%(refname:short) refs/heads")
    }
}

fn git(folder: &Path, words: &str) -> String {
    let output = apart(&mut Command::new("git"))
        .args(["-c", "user.name=Tess", "-c", "user.email=tess@example.org"])
        .args(words.split_whitespace())
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {words}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn commit(folder: &Path, name: &str) {
    fs::write(folder.join(name), name).unwrap();
    git(folder, "add --all");
    git(folder, &format!("commit --quiet -m {name}"));
}

#[tokio::test]
async fn a_worktree_has_its_own_folder_and_branch() {
    let setting = TestEnv::new();
    let worktree = setting.worker().await;
    assert_eq!(worktree.branch, "pitcrew/probe/worker");
    assert_eq!(worktree.path, setting.folder.join("probe/worker"));
    assert_eq!(git(&worktree.path, "branch --show-current"), worktree.branch);
    assert_eq!(git(&setting.repository, "status --porcelain"), "");
    assert_eq!(setting.worktrees.open(&worktree.path).await.unwrap(), worktree);
}

/// Creates a program in the git folder of a repository. If it runs, it leaves a file in `canary`.
fn program(repository: &Path, canary: &Path, name: &str) -> String {
    let path = repository.join(".git").join(format!("run-{name}"));
    let text = format!("#!/bin/sh\necho run >> {}\ncat\n", canary.join(name).display());
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[tokio::test]
async fn no_program_that_a_repository_names_is_run_by_our_calls() {
    let setting = TestEnv::new();
    let repository = setting.repository.clone();
    let canary = repository.with_file_name("canary");
    fs::create_dir(&canary).unwrap();
    fs::write(repository.join(".gitattributes"), "*.dat filter=evil\n").unwrap();
    commit(&repository, "x.dat");
    let program = |name: &str| program(&repository, &canary, name);
    let hooks = repository.join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    for hook in ["post-checkout", "reference-transaction", "post-index-change", "pre-commit"] {
        fs::copy(program(hook), hooks.join(hook)).unwrap();
    }
    for key in [
        "core.fsmonitor",
        "filter.evil.smudge",
        "filter.evil.clean",
        "filter.evil.process",
        "core.sshCommand",
    ] {
        git(&repository, &format!("config {key} {}", program(key)));
    }
    git(&repository, "config filter.evil.required true");
    let worktree = setting.worker().await;
    assert_eq!(fs::read_to_string(worktree.path.join("x.dat")).unwrap(), "x.dat");
    fs::write(worktree.path.join("x.dat"), "changed").unwrap();
    assert_eq!(setting.finish(&worktree).await, "1 file is changed or new and not committed");
    fs::write(worktree.path.join("x.dat"), "x.dat").unwrap();
    assert_eq!(setting.finish(&worktree).await, "removed");
    let run: Vec<_> =
        fs::read_dir(&canary).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(run.is_empty(), "{run:?}");
}

#[tokio::test]
async fn a_worktree_without_work_is_removed_with_its_branch() {
    let setting = TestEnv::new();
    let worktree = setting.worker().await;
    assert_eq!(setting.finish(&worktree).await, "removed");
    assert!(!setting.folder.join("probe").exists());
    assert_eq!(setting.branches(), "main");
    assert_eq!(git(&setting.repository, "worktree list").lines().count(), 1);
}

#[tokio::test]
async fn files_that_git_ignores_keep_a_worktree_unless_the_user_says_otherwise() {
    let setting = TestEnv::new();
    let worktree = setting.worker().await;
    fs::write(worktree.path.join("ignored"), "x").unwrap();
    assert_eq!(setting.finish(&worktree).await, "git ignores 1 path in it, such as ignored");
    assert!(worktree.path.join("ignored").exists());
    let removing = setting.worktrees.clone().with_ignored(IgnoredFiles::Remove);
    assert_eq!(removing.finish(&worktree).await.unwrap(), Finished::Removed);
    assert!(!worktree.path.exists());
}

#[tokio::test]
async fn work_in_files_that_git_was_told_not_to_look_at_keeps_a_worktree() {
    for flag in ["--skip-worktree", "--assume-unchanged"] {
        let setting = TestEnv::new();
        commit(&setting.repository, "known");
        let worktree = setting.worker().await;
        git(&worktree.path, &format!("update-index {flag} known"));
        fs::write(worktree.path.join("known"), "work of a day").unwrap();
        assert_eq!(
            setting.finish(&worktree).await,
            "1 file is changed or new and not committed",
            "{flag}"
        );
        assert_eq!(fs::read_to_string(worktree.path.join("known")).unwrap(), "work of a day");
    }
}

#[tokio::test]
async fn a_clean_worktree_with_a_submodule_goes_and_one_with_commits_in_it_stays() {
    let setting = TestEnv::new();
    let library = setting.repository.with_file_name("library");
    fs::create_dir(&library).unwrap();
    git(&library, "init --quiet --initial-branch=main");
    commit(&library, "library");
    let allow = "-c protocol.file.allow=always";
    git(
        &setting.repository,
        &format!("{allow} submodule --quiet add {} vendor", library.display()),
    );
    git(&setting.repository, "commit --quiet -m vendor");
    let worktree = setting.worker().await;
    git(&worktree.path, &format!("{allow} submodule --quiet update --init"));
    commit(&worktree.path.join("vendor"), "more");
    assert_eq!(setting.finish(&worktree).await, "1 file is changed or new and not committed");
    // The submodule `vendor` has a new commit. The worker records this commit in its worktree, and
    // the lead merges the worker's branch into the repository.
    git(&worktree.path, "commit --quiet --all -m vendor-more");
    git(&setting.repository, "merge --quiet --no-edit pitcrew/probe/worker");
    assert_eq!(
        setting.finish(&worktree).await,
        "its submodule vendor has 1 commit that is nowhere else"
    );
    git(&worktree.path.join("vendor"), "push --quiet origin HEAD:refs/heads/more");
    git(&worktree.path.join("vendor"), "fetch --quiet");
    fs::write(worktree.path.join("vendor/new"), "x").unwrap();
    assert_eq!(setting.finish(&worktree).await, "1 file is changed or new and not committed");
    fs::remove_file(worktree.path.join("vendor/new")).unwrap();
    git(&setting.repository, &format!("worktree lock {}", worktree.path.display()));
    assert!(setting.finish(&worktree).await.contains("git did not remove it"));
    git(&setting.repository, &format!("worktree unlock {}", worktree.path.display()));
    assert_eq!(setting.finish(&worktree).await, "removed");
    assert!(!worktree.path.exists() && library.join("library").exists());
    assert_eq!(setting.branches(), "main");
}

#[tokio::test]
async fn a_folder_that_was_made_anew_in_the_place_of_a_worktree_is_not_touched() {
    let setting = TestEnv::new();
    let worktree = setting.worker().await;
    fs::remove_dir_all(&worktree.path).unwrap();
    fs::create_dir(&worktree.path).unwrap();
    fs::write(worktree.path.join("notes"), "mine").unwrap();
    assert_eq!(setting.finish(&worktree).await, "another file or folder is in its place now");
    assert!(worktree.path.join("notes").exists());
    fs::remove_dir_all(&worktree.path).unwrap();
    std::os::unix::fs::symlink(&setting.repository, &worktree.path).unwrap();
    assert_eq!(setting.finish(&worktree).await, "another file or folder is in its place now");
    fs::remove_file(&worktree.path).unwrap();
    fs::create_dir(&worktree.path).unwrap();
    assert_eq!(setting.finish(&worktree).await, "removed");
    assert_eq!(setting.branches(), "main");
}

#[tokio::test]
async fn what_is_not_committed_is_kept() {
    let setting = TestEnv::new();
    let worktree = setting.worker().await;
    fs::write(worktree.path.join("new file"), "x").unwrap();
    fs::write(worktree.path.join("first"), "changed").unwrap();
    assert_eq!(setting.finish(&worktree).await, "2 files are changed or new and not committed");
    assert!(worktree.path.join("new file").exists());
}

#[tokio::test]
async fn what_is_not_merged_is_kept_and_what_is_merged_goes() {
    let setting = TestEnv::new();
    let worktree = setting.worker().await;
    commit(&worktree.path, "second");
    assert_eq!(setting.finish(&worktree).await, "1 commit is not merged into main");
    git(&setting.repository, "merge --quiet --no-ff -m merged pitcrew/probe/worker");
    assert_eq!(setting.finish(&worktree).await, "removed");
    assert_eq!(setting.branches(), "main");
    assert!(setting.repository.join("second").exists());
}

#[tokio::test]
async fn commits_off_the_branch_are_kept_too() {
    let setting = TestEnv::new();
    let worktree = setting.worker().await;
    git(&worktree.path, "checkout --quiet --detach");
    commit(&worktree.path, "second");
    assert_eq!(setting.finish(&worktree).await, "1 commit is not merged into main");
    assert!(worktree.path.exists());
}

#[tokio::test]
async fn a_locked_worktree_is_kept() {
    let setting = TestEnv::new();
    let worktree = setting.worker().await;
    git(&setting.repository, &format!("worktree lock {}", worktree.path.display()));
    assert!(setting.finish(&worktree).await.contains("git did not remove it"));
    assert!(worktree.path.exists());
}

#[tokio::test]
async fn a_worktree_whose_folder_is_gone_is_cleaned_up() {
    let setting = TestEnv::new();
    let worktree = setting.worker().await;
    fs::remove_dir_all(&worktree.path).unwrap();
    assert_eq!(setting.finish(&worktree).await, "removed");
    assert_eq!(setting.branches(), "main");
}

#[tokio::test]
async fn a_worktree_whose_folder_is_gone_is_made_again_for_a_member_that_goes_on() {
    let setting = TestEnv::new();
    let worktree = setting.worker().await;
    commit(&worktree.path, "work");
    assert!(!setting.worktrees.reopen(&worktree.path).await.unwrap());
    fs::remove_dir_all(&worktree.path).unwrap();
    assert!(setting.worktrees.reopen(&worktree.path).await.unwrap());
    assert!(worktree.path.join("work").exists(), "its commits are there");
    assert_eq!(
        setting.worktrees.open(&worktree.path).await.unwrap(),
        worktree,
        "it is still known as ours"
    );
    // Replaces the worktree by a plain folder. A tool creates such a folder if it writes a file to
    // a path inside a worktree that is gone.
    fs::remove_dir_all(&worktree.path).unwrap();
    fs::create_dir(&worktree.path).unwrap();
    fs::write(worktree.path.join("result"), "x").unwrap();
    let replaced = setting.worktrees.reopen(&worktree.path).await.unwrap_err();
    assert!(matches!(replaced, WorktreeError::Replaced { .. }), "{replaced:?}");
    fs::remove_dir_all(&worktree.path).unwrap();
    git(&setting.repository, "worktree prune");
    let forgotten = setting.worktrees.reopen(&worktree.path).await.unwrap_err();
    assert!(matches!(forgotten, WorktreeError::NotOurs { .. }), "{forgotten:?}");
}

#[tokio::test]
async fn what_was_kept_does_not_stand_in_the_way_of_the_next() {
    let setting = TestEnv::new();
    let kept = setting.worker().await;
    let next = setting.worker().await;
    assert_eq!(next.branch, "pitcrew/probe/worker-2");
    assert_ne!(next.path, kept.path);
    git(&setting.repository, "branch pitcrew/probe/other");
    let other = setting.worktrees.create("probe", "other").await.unwrap();
    assert_eq!(other.branch, "pitcrew/probe/other-2");
    assert_eq!(setting.finish(&other).await, "removed");
    assert!(setting.branches().contains("pitcrew/probe/other"), "a branch of somebody else stays");
}

#[tokio::test]
async fn what_we_did_not_make_is_never_removed() {
    let setting = TestEnv::new();
    setting.worker().await;
    let foreign = setting.folder.join("foreign");
    git(&setting.repository, &format!("worktree add --quiet -b theirs {}", foreign.display()));
    let plain = setting.folder.join("plain");
    fs::create_dir(&plain).unwrap();
    let elsewhere = Worktrees::new(&setting.repository, setting.folder.with_extension("2"));
    let outside = elsewhere.create("probe", "worker").await.unwrap().path;
    for path in [&foreign, &plain, &outside, &setting.folder, &setting.repository] {
        let claimed = Worktree {
            path: path.clone(),
            branch: "theirs".to_owned(),
            team: "probe".to_owned(),
            member: "worker".to_owned(),
        };
        let finished = setting.worktrees.finish(&claimed).await;
        assert!(matches!(finished, Err(WorktreeError::NotOurs { .. })), "{finished:?}");
        assert!(path.exists());
    }
}

#[tokio::test]
async fn worktrees_of_nobody_are_listed() {
    let setting = TestEnv::new();
    let live = setting.worker().await;
    let orphan = setting.worktrees.create("probe", "gone").await.unwrap();
    let orphans = setting.worktrees.orphans(std::slice::from_ref(&live.path)).await.unwrap();
    assert_eq!(orphans, [orphan]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_worktrees_are_made_and_finished_at_once() {
    let setting = TestEnv::new();
    let other_process = Worktrees::new(&setting.repository, &setting.folder);
    let made = (0..8).map(|number| {
        let maker = if number % 2 == 0 { &setting.worktrees } else { &other_process };
        maker.create("probe", "worker")
    });
    let made = futures_util::future::join_all(made).await;
    let made: Vec<_> = made.into_iter().map(Result::unwrap).collect();
    let finished = made.iter().map(|worktree| setting.finish(worktree));
    let finished = futures_util::future::join_all(finished).await;
    assert_eq!(finished, ["removed"; 8]);
    assert_eq!(setting.branches(), "main");
}

#[tokio::test]
async fn a_creation_that_fails_half_way_is_taken_back() {
    let setting = TestEnv::new();
    let blob = git(&setting.repository, "rev-parse HEAD:first");
    let (folder, file) = blob.split_at(2);
    fs::remove_file(setting.repository.join(".git/objects").join(folder).join(file)).unwrap();
    let made = setting.worktrees.create("probe", "worker").await;
    assert!(matches!(made, Err(WorktreeError::Git { .. })), "{made:?}");
    assert_eq!(setting.branches(), "main");
    assert!(!setting.folder.join("probe").exists());
    assert_eq!(git(&setting.repository, "worktree list").lines().count(), 1);
}

#[tokio::test]
async fn what_cannot_be_made_is_an_error_and_leaves_nothing() {
    let setting = TestEnv::new();
    for name in ["..", "a/b", "", "-x", "a\0"] {
        let made = setting.worktrees.create("probe", name).await;
        assert!(matches!(made, Err(WorktreeError::Name { .. })), "{made:?}");
    }
    let inside = Worktrees::new(&setting.repository, setting.repository.join("trees"));
    let made = inside.create("probe", "worker").await;
    assert!(matches!(made, Err(WorktreeError::InsideCheckout { .. })), "{made:?}");
    assert!(!setting.repository.join("trees").exists());
    let nowhere = Worktrees::new(setting.folder.parent().unwrap(), &setting.folder);
    let made = nowhere.create("probe", "worker").await;
    assert!(matches!(made, Err(WorktreeError::NotARepository { .. })), "{made:?}");
    git(&setting.repository, "branch pitcrew");
    let made = setting.worktrees.create("probe", "worker").await;
    assert!(matches!(made, Err(WorktreeError::Git { .. })), "{made:?}");
    let empty = TestEnv::empty();
    let made = empty.worktrees.create("probe", "worker").await;
    assert!(matches!(made, Err(WorktreeError::NoCommit { .. })), "{made:?}");
    assert!(!setting.folder.join("probe").exists() && !empty.folder.exists());
}

fn text(text: &str) -> FileText {
    FileText::Text(text.to_owned())
}

#[tokio::test]
async fn a_review_shows_the_branch_and_both_versions_of_its_files() {
    let setting = TestEnv::new();
    let worktree = setting.worker().await;
    fs::write(worktree.path.join("first"), "second version").unwrap();
    commit(&worktree.path, "own");
    fs::write(worktree.path.join("new"), "not committed").unwrap();
    fs::write(worktree.path.join("data"), b"\xff\0").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", worktree.path.join("link")).unwrap();
    commit(&setting.repository, "meanwhile");
    let state = setting.worktrees.branch_state(&worktree.path).await.unwrap();
    assert_eq!((state.base.as_str(), state.ahead, state.behind), ("main", 1, 1));
    assert_eq!(state.branch, worktree.branch);
    assert_eq!(Vec::from_iter(&state.files), ["data", "first", "link", "new", "own"]);
    assert_eq!(Vec::from_iter(&state.uncommitted), ["data", "link", "new"]);
    let versions = async |file: &str| {
        let Versions { before, after } =
            setting.worktrees.versions(&worktree.path, file).await.unwrap();
        (before, after)
    };
    assert_eq!(versions("first").await, (text("first"), text("second version")));
    assert_eq!(versions("new").await, (FileText::Missing, text("not committed")));
    for odd in ["data", "link", "../../repository/first", "/etc/passwd"] {
        let (_, after) = versions(odd).await;
        assert!(matches!(after, FileText::NotShown(_)), "{odd}: {after:?}");
    }
    fs::write(worktree.path.join("new"), "x".repeat((1 << 20) + 1)).unwrap();
    let (_, after) = versions("new").await;
    assert_eq!(after, FileText::NotShown("it is larger than 1 MiB".to_owned()));
}

#[tokio::test]
async fn a_file_of_the_checkout_has_two_versions_too() {
    let setting = TestEnv::new();
    fs::write(setting.repository.join("first"), "now").unwrap();
    let versions = setting.worktrees.versions_in_checkout("first").await.unwrap();
    assert_eq!(versions, Versions { before: text("first"), after: text("now") });
    fs::create_dir(setting.repository.join("inner")).unwrap();
    commit(&setting.repository.join("inner"), "below");
    let inner = setting.worktrees.in_repository_of(setting.repository.join("inner"));
    let versions = inner.versions_in_checkout("below").await.unwrap();
    assert_eq!(versions, Versions { before: text("below"), after: text("below") });
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("a"), "a").unwrap();
    let worktrees = Worktrees::new(outside.path(), outside.path().join("worktrees"));
    let versions = worktrees.versions_in_checkout("a").await.unwrap();
    assert!(matches!(versions.before, FileText::NotShown(_)), "{versions:?}");
    assert_eq!(versions.after, text("a"));
}

#[tokio::test]
async fn accepted_work_comes_into_the_base_and_nothing_else_does() {
    let setting = TestEnv::new();
    let worktree = setting.worker().await;
    let refused = async |reviewed: &str| match setting
        .worktrees
        .merge(&worktree.path, reviewed)
        .await
        .unwrap()
    {
        Merged::Refused { why } => why,
        Merged::Done { base } => panic!("merged into {base}"),
    };
    let tip = async || setting.worktrees.branch_state(&worktree.path).await.unwrap().tip;
    commit(&worktree.path, "own");
    let reviewed = tip().await;
    fs::write(worktree.path.join("more"), "more").unwrap();
    assert_eq!(refused(&reviewed).await, "1 file is changed or new and not committed");
    commit(&worktree.path, "later");
    assert!(refused(&reviewed).await.ends_with("has changed since it was shown"));
    let reviewed = tip().await;
    git(&setting.repository, "checkout --quiet -b elsewhere");
    assert!(refused(&reviewed).await.starts_with("main is not checked out in"));
    git(&setting.repository, "checkout --quiet main");
    commit(&setting.repository, "meanwhile");
    assert!(refused(&reviewed).await.starts_with("main has 1 commit that"));
    git(&worktree.path, "merge --quiet --no-edit main");
    // A file that is not committed in the checkout would be lost.
    fs::write(setting.repository.join("own"), "of the user").unwrap();
    let reviewed = tip().await;
    assert!(refused(&reviewed).await.starts_with("git refused:"));
    assert_eq!(fs::read_to_string(setting.repository.join("own")).unwrap(), "of the user");
    fs::remove_file(setting.repository.join("own")).unwrap();
    let merged = setting.worktrees.merge(&worktree.path, &reviewed).await.unwrap();
    assert_eq!(merged, Merged::Done { base: "main".to_owned() });
    assert_eq!(git(&setting.repository, "rev-parse main"), reviewed);
    assert_eq!(fs::read_to_string(setting.repository.join("own")).unwrap(), "own");
}

#[tokio::test]
async fn a_review_and_a_merge_run_no_program_that_a_repository_names() {
    let setting = TestEnv::new();
    let repository = setting.repository.clone();
    let canary = repository.with_file_name("canary");
    fs::create_dir(&canary).unwrap();
    let attributes = "* filter=evil diff=evil merge=evil\n";
    fs::write(repository.join(".gitattributes"), attributes).unwrap();
    commit(&repository, "x.dat");
    let worktree = setting.worker().await;
    fs::write(worktree.path.join("x.dat"), "changed").unwrap();
    commit(&worktree.path, "own");
    let hooks = repository.join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    for hook in ["post-merge", "post-checkout", "reference-transaction", "post-index-change"] {
        fs::copy(program(&repository, &canary, hook), hooks.join(hook)).unwrap();
    }
    for key in [
        "core.fsmonitor",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "filter.evil.clean",
        "filter.evil.process",
        "filter.evil.smudge",
        "gpg.program",
        "merge.evil.driver",
    ] {
        git(&repository, &format!("config {key} {}", program(&repository, &canary, key)));
    }
    git(&repository, "config merge.verifySignatures true");
    let state = setting.worktrees.branch_state(&worktree.path).await.unwrap();
    assert_eq!(Vec::from_iter(&state.files), ["own", "x.dat"]);
    let versions = setting.worktrees.versions(&worktree.path, "x.dat").await.unwrap();
    assert_eq!(versions, Versions { before: text("x.dat"), after: text("changed") });
    let merged = setting.worktrees.merge(&worktree.path, &state.tip).await.unwrap();
    assert_eq!(merged, Merged::Done { base: "main".to_owned() });
    assert_eq!(fs::read_to_string(repository.join("x.dat")).unwrap(), "changed");
    let run: Vec<_> =
        fs::read_dir(&canary).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(run.is_empty(), "{run:?}");
}
