//! Worktrees, records and markers of earlier versions of pitcrew, which are in the repository's
//! `.git` folder. They are named and nothing is done by them.

use std::fs;
use std::path::{Path, PathBuf};

use pitcrew_process::worktree::{Leftover, WorktreeError};
use serde_json::json;

use super::{TestEnv, git};

/// Makes a worktree as an earlier version did: with a marker, and without a record.
fn earlier_worktree(env: &TestEnv) -> PathBuf {
    let path = env.folder.join("probe/old");
    let add = format!("worktree add --quiet -b pitcrew/probe/old {}", path.display());
    git(&env.repository, &add);
    let start = git(&env.repository, "rev-parse HEAD");
    let marker = json!({
        "team": "probe", "member": "old", "branch": "pitcrew/probe/old", "start": start, "base": "refs/heads/main",
    });
    fs::write(env.repository.join(".git/worktrees/old/pitcrew-worktree"), marker.to_string())
        .unwrap();
    path
}

#[tokio::test]
async fn a_worktree_of_an_earlier_version_is_named_kept_and_used_on() {
    let env = TestEnv::new();
    let path = earlier_worktree(&env);
    let claim = "its marker claims that it is on branch \"pitcrew/probe/old\", of \"old\" in team \"probe\"";
    assert_eq!(
        env.worktrees.leftovers().await.unwrap(),
        [Leftover::Unrecorded { path: path.clone(), claim: Some(claim.to_owned()) }]
    );
    assert_eq!(env.worktrees.orphans(&[]).await.unwrap(), []);
    let opened = env.worktrees.open(&path).await.unwrap_err();
    assert!(matches!(opened, WorktreeError::Unrecorded { .. }), "{opened:?}");
    assert!(opened.to_string().contains("`git worktree remove` removes it"), "{opened}");
    // Its member goes on in it.
    assert!(!env.worktrees.reopen(&path).await.unwrap());
    // Where it is gone, only the marker would say from where it is made again.
    fs::remove_dir_all(&path).unwrap();
    let reopened = env.worktrees.reopen(&path).await.unwrap_err();
    assert!(matches!(reopened, WorktreeError::Unrecorded { .. }), "{reopened:?}");
    assert!(!path.exists());
}

#[tokio::test]
async fn a_file_of_an_earlier_version_is_shown_and_nothing_is_read_without_a_bound() {
    let env = TestEnv::new();
    let lock = env.repository.join(".git/pitcrew-worktrees.lock");
    let claims = async || {
        let found = match env.worktrees.leftovers().await {
            Ok(found) => found,
            Err(refused) => {
                assert!(chain(&refused).contains("pitcrew-worktrees.lock"), "{refused:?}");
                return "git is not asked, and the file is named".to_owned();
            }
        };
        let claim = |it: &Leftover| match it {
            Leftover::Earlier { path, claim } => {
                assert_eq!(path, &lock);
                claim.clone()
            }
            other => panic!("{other:?}"),
        };
        found.iter().map(claim).collect::<Vec<_>>().join("\n")
    };
    let mut told = Vec::new();
    type Plant = fn(&Path);
    let plants: [(&str, Plant); 7] = [
        ("nothing", |_| {}),
        ("empty", |at| fs::write(at, "").unwrap()),
        ("a record", |at| {
            let text = r#"{"path": "/home/\u001b[2Jx", "branch": "pitcrew/a/b"}"#;
            fs::write(at, text).unwrap();
        }),
        ("junk", |at| fs::write(at, b"\xff\0").unwrap()),
        ("a FIFO", |at| {
            assert!(std::process::Command::new("mkfifo").arg(at).status().unwrap().success());
        }),
        ("a link", |at| std::os::unix::fs::symlink("/dev/zero", at).unwrap()),
        ("a terabyte", |at| fs::File::create(at).unwrap().set_len(1 << 40).unwrap()),
    ];
    for (name, plant) in plants {
        plant(&lock);
        told.push(format!("{name}: {}", claims().await));
        let _ = fs::remove_file(&lock);
    }
    insta::assert_snapshot!(told.join("\n"), @r#"
    nothing: 
    empty: 
    a record: it claims that the worktree "/home/\u{1b}[2Jx" on branch "pitcrew/a/b" is not finished
    junk: it is no record of an earlier version
    a FIFO: git is not asked, and the file is named
    a link: git is not asked, and the file is named
    a terabyte: git is not asked, and the file is named
    "#);
}

#[tokio::test]
async fn a_worktree_that_git_does_not_list_any_more_is_named_and_kept() {
    let env = TestEnv::new();
    let worker = env.worker().await;
    fs::write(worker.path.join("notes"), "mine").unwrap();
    fs::remove_dir_all(env.repository.join(".git/worktrees")).unwrap();
    assert_eq!(env.worktrees.leftovers().await.unwrap(), [Leftover::Unlisted(worker.clone())]);
    assert!(env.worktrees.finish(&worker).await.is_err());
    env.worktrees.recover().await.unwrap();
    assert!(worker.path.join("notes").exists());
    fs::remove_dir_all(&worker.path).unwrap();
    env.worktrees.recover().await.unwrap();
    assert_eq!(env.worktrees.leftovers().await.unwrap(), []);
}

/// Returns an error and its sources, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(Some(error), |error| error.source());
    sources.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
