//! Files without an end, endless work, and checkouts elsewhere.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use super::super::bounds::Bounds;
use super::super::{OurGit, RunningGit};
use super::{Guard, Layer, Scene, commit, git, git_of_tests};
use crate::identity::Entry;
use crate::worktree::{Worktree, WorktreeError};

/// Much longer than each attempt takes, and shorter than git's own time limit.
const NOT_FOR_EVER: Duration = Duration::from_secs(100);

/// What becomes of git where a setting names a file that has no end.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    /// Git does not open the file.
    Works,
    /// Git is not run, and the error names the file.
    IsRefused,
    /// Git is stopped while it waits at the FIFO.
    IsStopped,
}
use Then::{IsRefused, IsStopped, Works};

/// Makes a file without an end.
type Make = fn(&Path);

/// Each setting that makes git read a file. `FILE` stands for the file's path.
const SETTINGS: &[(&str, Then)] = &[
    ("[core]\n\tattributesFile = FILE\n", Works),
    ("[core]\n\texcludesFile = FILE\n", Works),
    ("[diff]\n\torderFile = FILE\n", Works),
    ("[commit]\n\ttemplate = FILE\n", Works),
    ("[mailmap]\n\tfile = FILE\n", Works),
    ("[blame]\n\tignoreRevsFile = FILE\n", Works),
    ("[fsck]\n\tskipList = FILE\n", Works),
    ("[include]\n\tpath = FILE\n", IsRefused),
    ("[InClude]\n\tPath = \"FILE\"\n", IsRefused),
    ("[include]\n\tpath = ../../../outside\n", IsRefused),
    ("[includeIf \"gitdir:/\"]\n\tpath = FILE\n", IsRefused),
    ("[includeIf \"onbranch:pitcrew/**\"]\n\tpath = FILE\n", IsRefused),
    ("[include]\n\tpath = middle\n", IsRefused),
    // Only git knows where this leads.
    ("[include]\n\tpath = %(prefix)/../../..FILE\n", IsStopped),
];

/// Makes a worktree, looks at it and removes it.
async fn live(scene: &Scene, our_git: OurGit) -> Result<(), WorktreeError> {
    let worktrees = scene.worktrees(our_git);
    let worktree = worktrees.create("probe", "worker").await?;
    fs::write(worktree.path.join("x.dat"), "changed").unwrap();
    worktrees.branch_state(&worktree.path).await?;
    worktrees.finish(&worktree).await.map(drop)
}

#[tokio::test]
async fn a_file_without_an_end_that_a_setting_names_is_not_read() {
    let kinds: [(&str, Make); 2] = [
        ("a FIFO", |path| {
            let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
            assert!(made.success());
        }),
        ("a device", |path| std::os::unix::fs::symlink("/dev/zero", path).unwrap()),
    ];
    for (setting, then) in SETTINGS {
        for (kind, make) in kinds {
            // Nobody can wait at this device.
            if *then == IsStopped && kind == "a device" {
                continue;
            }
            let scene = Scene::new();
            let file = scene.base.join("outside");
            make(&file);
            let name = |text: &str| text.replace("FILE", &file.display().to_string());
            append(&scene.repository.join(".git/config"), &name(setting));
            append(&scene.repository.join(".git/middle"), &name("[include]\n\tpath = FILE\n"));
            let our_git = Guard::FirstAlone.git(&scene, Layer::Settings);
            let lived = tokio::time::timeout(NOT_FOR_EVER, live(&scene, our_git)).await;
            let lived = lived.unwrap_or_else(|_| panic!("{setting}, {kind}: git hangs"));
            let said = lived.map_err(|error| super::links::chain(&error));
            match then {
                Works => assert_eq!(said, Ok(()), "{setting}, {kind}"),
                IsRefused => assert!(said.unwrap_err().contains("outside"), "{setting}, {kind}"),
                IsStopped => assert!(said.unwrap_err().contains("FIFO"), "{setting}, {kind}"),
            }
        }
    }
}

#[tokio::test]
async fn files_that_end_may_be_included_and_the_users_own_patterns_count() {
    let scene = Scene::new();
    append(&scene.repository.join(".git/config"), "[include]\n\tpath = middle\n");
    append(&scene.repository.join(".git/middle"), "[core]\n\texcludesFile = ../none\n");
    append(&scene.home.join(".gitconfig"), "[core]\n\texcludesFile = ~/.patterns\n");
    append(&scene.home.join(".patterns"), "*.own\n");
    let worktrees = scene.worktrees(Guard::FirstAlone.git(&scene, Layer::Settings));
    let worktree = worktrees.create("probe", "worker").await.unwrap();
    append(&worktree.path.join("file.own"), "ignored");
    append(&worktree.path.join("file.new"), "new");
    let state = worktrees.branch_state(&worktree.path).await.unwrap();
    let names: Vec<_> = state.uncommitted.iter().map(String::as_str).collect();
    assert_eq!(names, ["file.new"]);
}

fn append(file: &Path, text: &str) {
    let mut file = File::options().create(true).append(true).open(file).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Commits a tree that contains itself so often that it has a hundred million files.
fn commit_bomb(scene: &Scene) {
    let folder = &scene.repository;
    let blob = git(folder, "rev-parse HEAD:x.dat");
    let mut entries = ["blob", &blob].join(" ");
    for _ in 0..8 {
        let mode = if entries.starts_with("blob") { "100644" } else { "040000" };
        let tree: String = (0..10).map(|name| format!("{mode} {entries}\t{name}\n")).collect();
        let mut made = git_of_tests(folder);
        made.arg("mktree").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut made = made.spawn().unwrap();
        made.stdin.take().unwrap().write_all(tree.as_bytes()).unwrap();
        let tree = String::from_utf8(made.wait_with_output().unwrap().stdout).unwrap();
        entries = format!("tree {}", tree.trim());
    }
    let tree = entries.rsplit(' ').next().unwrap();
    let commit = git(folder, &format!("commit-tree -m bomb {tree}"));
    git(folder, &format!("update-ref refs/heads/main {commit}"));
}

#[tokio::test]
async fn a_tree_that_unfolds_to_millions_of_files_meets_the_bound_of_memory() {
    let scene = Scene::new();
    commit_bomb(&scene);
    let bounds = Bounds { memory_bytes: 128 << 20, ..Bounds::default() };
    let our_git = OurGit { bounds, ..Guard::FirstAlone.git(&scene, Layer::Settings) };
    let lived = tokio::time::timeout(NOT_FOR_EVER, live(&scene, our_git)).await;
    let said = lived.expect("git ends").unwrap_err().to_string();
    assert!(said.to_lowercase().contains("out of memory"), "{said}");
}

/// Returns the running git commands of this test that check out files.
fn checkouts_that_run() -> Vec<Entry> {
    let is_ours = |entry: &Entry| {
        entry.parent == std::process::id() && entry.words().iter().any(|word| word == "reset")
    };
    Entry::all().into_iter().filter(is_ours).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn git_ends_with_its_run() {
    let scene = Scene::new();
    commit_bomb(&scene);
    let running = RunningGit::default();
    // The bound of the test's own, should git not end.
    let bounds = Bounds { memory_bytes: 2 << 30, ..Bounds::default() };
    let our_git = OurGit { bounds, ..Guard::FirstAlone.git(&scene, Layer::Settings) };
    let our_git = our_git.ended_by(running.clone());
    let end = async {
        while checkouts_that_run().is_empty() {
            tokio::task::yield_now().await;
        }
        running.end();
    };
    let both = async { tokio::join!(live(&scene, our_git), end).0 };
    let said = tokio::time::timeout(NOT_FOR_EVER, both).await.expect("git ends").unwrap_err();
    assert!(said.to_string().contains("the run ends"), "{said}");
    assert!(checkouts_that_run().is_empty());
}

/// Names another folder as the checkout, in a configuration of the repository.
type Name = fn(&Scene, &Worktree);

/// Each place in which a repository can name another checkout.
const PLACES: &[(&str, Name)] = &[
    ("the configuration", |scene, _| {
        append(&scene.repository.join(".git/config"), &elsewhere(scene));
    }),
    ("the configuration of the main checkout", |scene, _| {
        append(&scene.repository.join(".git/config"), PER_WORKTREE);
        append(&scene.repository.join(".git/config.worktree"), &elsewhere(scene));
    }),
    ("the configuration of a worktree", |scene, worktree| {
        append(&scene.repository.join(".git/config"), PER_WORKTREE);
        let admin = git(&worktree.path, "rev-parse --absolute-git-dir");
        append(&Path::new(&admin).join("config.worktree"), &elsewhere(scene));
    }),
];

const PER_WORKTREE: &str =
    "[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\tworktreeConfig = true\n";

fn elsewhere(scene: &Scene) -> String {
    format!("[core]\n\tworktree = {}\n", scene.home.display())
}

#[tokio::test]
async fn a_setting_that_names_another_checkout_has_no_effect() {
    for (place, name) in PLACES {
        let scene = Scene::new();
        let worktrees = scene.worktrees(Guard::FirstAlone.git(&scene, Layer::Settings));
        let first = worktrees.create("probe", "first").await.unwrap();
        // Git would write this file in the folder that the setting names.
        fs::write(first.path.join(".profile"), "evil").unwrap();
        commit(&first.path, "own");
        name(&scene, &first);
        let state = worktrees.branch_state(&first.path).await.unwrap();
        assert!(state.uncommitted.is_empty(), "{place}: {:?}", state.uncommitted);
        let second = worktrees.create("probe", "second").await.unwrap();
        assert!(second.path.join("x.dat").exists(), "{place}");
        let of_second = worktrees.branch_state(&second.path).await.unwrap();
        assert!(of_second.uncommitted.is_empty(), "{place}: {:?}", of_second.uncommitted);
        let _merged = worktrees.merge(&first.path, &state.tip).await.unwrap();
        assert!(scene.repository.join("own").exists(), "{place}");
        let _finished = worktrees.finish(&second).await.unwrap();
        assert!(scene.is_home_untouched(), "{place}");
    }
}
