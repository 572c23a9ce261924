//! Links and special files in a git folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use super::{Guard, Layer, Scene, git};

/// Each path in a git folder that git writes when a worktree is made, merged and removed.
const PATHS: &[&str] = &[
    "COMMIT_EDITMSG",
    "HEAD.lock",
    "ORIG_HEAD",
    "ORIG_HEAD.lock",
    "config.lock",
    "index.lock",
    "info/sparse-checkout",
    "logs/HEAD",
    "logs/refs",
    "logs/refs/heads/pitcrew",
    "logs/refs/heads/pitcrew/probe",
    "logs/refs/heads/pitcrew/probe/worker",
    "objects/ab",
    "objects/pack",
    "packed-refs",
    "packed-refs.lock",
    "packed-refs.new",
    "refs/heads/pitcrew",
    "refs/heads/pitcrew/probe/worker",
    "refs/heads/pitcrew/probe/worker.lock",
    "worktrees",
    "worktrees/other",
];

/// Makes something at a path. The second path lies outside of the repository.
type Make = fn(&Path, &Path);

/// Each kind of file that is put there.
const KINDS: &[(&str, Make)] = &[
    ("a link to a file of the user's", |path, home| symlink(home.join(".bashrc"), path).unwrap()),
    ("a link to a folder of the user's", |path, home| symlink(home, path).unwrap()),
    ("a link to a file that is not there", |path, home| symlink(home.join("new"), path).unwrap()),
    ("a link that leads round", |path, _| symlink(path.file_name().unwrap(), path).unwrap()),
    ("a FIFO", |path, _| {
        let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    }),
    ("a socket", |path, _| drop(UnixListener::bind(path).unwrap())),
];

/// A name that a shell would run as a command.
const NAME: &str = "a$(touch canary)b";

fn plant(scene: &Scene, path: &str, make: fn(&Path, &Path)) {
    let git_folder = scene.repository.join(".git");
    let config = git_folder.join("config");
    let mut text = fs::read_to_string(&config).unwrap();
    for section in ["user", "committer", "author"] {
        text.push_str(&format!("[{section}]\n\tname = \"{NAME}\"\n"));
    }
    fs::write(config, text).unwrap();
    let path = git_folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    if path.is_dir() {
        fs::remove_dir_all(&path).unwrap();
    }
    let _not_there = fs::remove_file(&path);
    make(&path, &scene.home);
}

#[tokio::test]
async fn a_link_or_special_file_where_git_writes_is_refused_by_name_before_anything_is_written() {
    for path in PATHS {
        for (kind, make) in KINDS {
            let scene = Scene::new();
            plant(&scene, path, *make);
            let our_git = Guard::FirstAlone.git(&scene, Layer::Links);
            let made = async { scene.worktrees(our_git).create("probe", "worker").await };
            let made = tokio::time::timeout(Duration::from_secs(60), made).await;
            let said = chain(&made.expect("nothing hangs").unwrap_err());
            let end = path.rsplit('/').next().unwrap();
            // Git itself finds no commit if it cannot read this file.
            let is_unread = *path == "packed-refs" && said.contains("has no commit");
            assert!(said.contains(end) || is_unread, "{path}, {kind}: {said}");
            assert!(scene.is_home_untouched(), "{path}, {kind}");
            // The git of the test would wait at a FIFO in the place of other files.
            let is_made = || !git(&scene.repository, "branch --list pitcrew/*").is_empty();
            assert!(!path.starts_with("logs") || !is_made(), "{path}, {kind}");
        }
    }
}

pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let next = error.source().map(chain).unwrap_or_default();
    format!("{error}: {next}")
}

#[tokio::test]
async fn confinement_alone_keeps_git_from_following_a_link_out() {
    for path in PATHS {
        for (kind, make) in KINDS.iter().take(3) {
            let scene = Scene::new();
            if !Guard::ConfinementAlone.can_be_tried(&scene) {
                return;
            }
            plant(&scene, path, *make);
            let our_git = Guard::ConfinementAlone.git(&scene, Layer::Links);
            let _either = scene.worktrees(our_git).create("probe", "worker").await;
            assert!(scene.is_home_untouched(), "{path}, {kind}");
        }
    }
}

#[tokio::test]
async fn a_merge_refuses_a_link_where_it_writes() {
    for path in ["logs/refs/heads/main", "refs/heads/main.lock", "index.lock", "logs/HEAD"] {
        for (kind, make) in KINDS {
            let scene = Scene::new();
            let worktrees = scene.worktrees(Guard::FirstAlone.git(&scene, Layer::Links));
            let worktree = worktrees.create("probe", "worker").await.unwrap();
            super::commit(&worktree.path, "own");
            let state = worktrees.branch_state(&worktree.path).await.unwrap();
            plant(&scene, path, *make);
            let merged = worktrees.merge(&worktree.path, &state.tip);
            let merged = tokio::time::timeout(Duration::from_secs(60), merged).await;
            let said = chain(&merged.expect("nothing hangs").unwrap_err());
            assert!(said.contains(path), "{path}, {kind}: {said}");
            assert!(scene.is_home_untouched(), "{path}, {kind}");
            assert!(!scene.repository.join("own").exists(), "{path}, {kind}");
        }
    }
}

#[tokio::test]
async fn without_any_layer_git_writes_through_a_link() {
    let scene = Scene::new();
    plant(&scene, "logs/refs/heads/pitcrew/probe/worker", KINDS[0].1);
    let our_git = Guard::None.git(&scene, Layer::Links);
    let _either = scene.worktrees(our_git).create("probe", "worker").await;
    assert!(!scene.is_home_untouched(), "the other tests prove nothing");
}

#[tokio::test]
async fn a_reflog_contains_no_text_of_the_repository() {
    let scene = Scene::new();
    plant(&scene, "COMMIT_EDITMSG", |path, _| fs::write(path, "").unwrap());
    scene.live(Guard::FirstAlone.git(&scene, Layer::Links), |_| ()).await.unwrap();
    let log = fs::read_to_string(scene.repository.join(".git/logs/HEAD")).unwrap();
    assert!(log.contains("pitcrew <pitcrew@localhost.invalid>"), "{log}");
    assert!(!log.contains("canary"), "{log}");
}

#[tokio::test]
async fn links_that_stay_inside_and_links_that_git_only_reads_are_no_obstacle() {
    let scene = Scene::new();
    let git_folder = scene.repository.join(".git");
    symlink("../../hooks", git_folder.join("hooks")).unwrap();
    fs::remove_file(git_folder.join("HEAD")).unwrap();
    symlink("refs/heads/main", git_folder.join("HEAD")).unwrap();
    scene.live(Guard::FirstAlone.git(&scene, Layer::Links), |_| ()).await.unwrap();
    assert_eq!(git(&scene.repository, "log --format=%s -1"), "own");
}
