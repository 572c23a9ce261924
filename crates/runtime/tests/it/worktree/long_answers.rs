//! Answers of git that are longer than what is kept of them.

use std::fmt::Write as _;
use std::fs;

use pitcrew_process::worktree::WorktreeError;

use super::{TestEnv, commit, program};

#[tokio::test]
async fn a_review_says_that_it_lacks_files() {
    let setting = TestEnv::new();
    let worktree = setting.worker().await;
    commit(&worktree.path, "own");
    let few = setting.worktrees.branch_state(&worktree.path).await.unwrap();
    assert!(!few.has_more_files);
    (0..700).for_each(|n| fs::write(worktree.path.join(format!("{n:0100}")), "").unwrap());
    let many = setting.worktrees.branch_state(&worktree.path).await.unwrap();
    assert!(many.has_more_files && many.files.len() < 700, "{}", many.files.len());
    // A name that was cut in the middle is left out.
    assert!(many.uncommitted.iter().all(|name| name.len() == 100));
    assert!(setting.worktrees.changes(&worktree.path).await.unwrap().has_more_files);
}

#[tokio::test]
async fn git_is_not_run_with_filters_that_were_not_read() {
    let setting = TestEnv::new();
    let canary = setting.repository.with_file_name("canary");
    fs::create_dir(&canary).unwrap();
    fs::write(setting.repository.join(".gitattributes"), "* filter=evil\n").unwrap();
    commit(&setting.repository, "x.dat");
    let worktree = setting.worker().await;
    let config = setting.repository.join(".git/config");
    let mut text = fs::read_to_string(&config).unwrap();
    for number in 0..2000 {
        let _ = writeln!(text, "[filter \"{number:030}\"]\n\tsmudge = cat");
    }
    let evil = program(&setting.repository, &canary, "clean");
    let _ = writeln!(text, "[filter \"evil\"]\n\tclean = {evil}");
    fs::write(&config, text).unwrap();
    fs::write(worktree.path.join("x.dat"), "changed").unwrap();
    let refused = setting.worktrees.branch_state(&worktree.path).await.unwrap_err();
    assert!(
        matches!(&refused, WorktreeError::Git { answer, .. } if answer.contains("filters")),
        "{refused:?}"
    );
    assert_eq!(fs::read_dir(&canary).unwrap().count(), 0, "a program of the repository ran");
}
