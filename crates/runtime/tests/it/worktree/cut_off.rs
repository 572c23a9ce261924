//! A process dies at some moment while it creates or removes a worktree. The next one cleans up.

use std::fs;
use std::path::PathBuf;

use pitcrew_process::worktree::{Leftover, Worktree};
use serde_json::{Value, json};

use super::{TestEnv, commit, git};

impl TestEnv {
    /// Returns the file with the record of a worktree.
    fn record_of(&self, worktree: &Worktree) -> PathBuf {
        let records = self.folder.with_file_name("repositories");
        let of_repositories = fs::read_dir(records).unwrap().map(|it| it.unwrap().path());
        let files = of_repositories
            .flat_map(|folder| fs::read_dir(folder.join("worktrees")).unwrap())
            .map(|file| file.unwrap().path());
        let mut own = files.filter(|file| {
            fs::read_to_string(file).unwrap().contains(&worktree.path.display().to_string())
        });
        own.next().unwrap()
    }

    /// Leaves the record as a process does that dies at this stage.
    fn died(&self, worktree: &Worktree, stage: &str) {
        let file = self.record_of(worktree);
        let mut record: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        record["stage"] = json!(stage);
        if stage == "creating" {
            record["admin"] = Value::Null;
        }
        fs::write(file, record.to_string()).unwrap();
    }

    fn has_no_records(&self) -> bool {
        let folder = self.folder.with_file_name("repositories");
        let of_repositories = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
        of_repositories
            .map(|it| it.join("worktrees"))
            .all(|it| fs::read_dir(it).unwrap().count() == 0)
    }
}

/// Removes the state of a creation that comes after a moment.
type Undone = fn(&TestEnv, &Worktree);

/// The moments of a creation at which its process can die, from the last to the first.
const MOMENTS: &[(&str, Undone)] = &[
    ("after git has ended", |_, _| {}),
    ("while git checks the files out", |env, worktree| {
        fs::remove_file(worktree.path.join("first")).unwrap();
        fs::write(env.repository.join(".git/worktrees/bob/locked"), "initializing").unwrap();
    }),
    ("before git has its state", |env, worktree| {
        let admin = env.repository.join(".git/worktrees/bob");
        fs::remove_file(worktree.path.join("first")).unwrap();
        fs::remove_file(worktree.path.join(".gitignore")).unwrap();
        fs::remove_file(admin.join("HEAD")).unwrap();
        fs::write(admin.join("locked"), "initializing").unwrap();
    }),
    ("before the folder belongs to git", |env, worktree| {
        fs::remove_dir_all(&worktree.path).unwrap();
        fs::create_dir(&worktree.path).unwrap();
        fs::write(env.repository.join(".git/worktrees/bob/locked"), "initializing").unwrap();
    }),
    ("before git lists it", |env, worktree| {
        fs::remove_dir_all(&worktree.path).unwrap();
        fs::create_dir(&worktree.path).unwrap();
        fs::remove_dir_all(env.repository.join(".git/worktrees/bob")).unwrap();
    }),
    ("before git has started", |env, worktree| {
        fs::remove_dir_all(worktree.path.parent().unwrap()).unwrap();
        fs::remove_dir_all(env.repository.join(".git/worktrees/bob")).unwrap();
        git(&env.repository, "branch -D pitcrew/probe/bob");
    }),
];

#[tokio::test]
async fn a_creation_that_was_cut_off_at_any_moment_is_named_and_taken_back() {
    for (moment, undone) in MOMENTS {
        let env = TestEnv::new();
        let bob = env.worktrees.create("probe", "bob").await.unwrap();
        undone(&env, &bob);
        env.died(&bob, "creating");
        assert_eq!(
            env.worktrees.leftovers().await.unwrap().first(),
            Some(&Leftover::Unfinished(bob.clone())),
            "{moment}"
        );
        assert_eq!(env.worktrees.orphans(&[]).await.unwrap(), [], "{moment}");
        env.worktrees.recover().await.unwrap();
        assert!(!bob.path.exists() && env.has_no_records(), "{moment}");
        assert_eq!(git(&env.repository, "worktree list").lines().count(), 1, "{moment}");
        assert_eq!(env.branches(), "main", "{moment}");
        assert_eq!(env.worktrees.leftovers().await.unwrap(), [], "{moment}");
        assert_eq!(env.worktrees.create("probe", "bob").await.unwrap(), bob, "{moment}");
    }
}

#[tokio::test]
async fn a_creation_that_was_cut_off_takes_nothing_that_came_to_its_place_later() {
    let env = TestEnv::new();
    let bob = env.worktrees.create("probe", "bob").await.unwrap();
    env.died(&bob, "creating");
    // Another repository's worktree comes to the free place, and the repository claims it.
    fs::remove_dir_all(&bob.path).unwrap();
    fs::create_dir(&bob.path).unwrap();
    fs::write(bob.path.join(".git"), "gitdir: /another/repository/.git/worktrees/bob\n").unwrap();
    fs::write(bob.path.join("notes"), "mine").unwrap();
    // Somebody commits to the branch.
    git(&env.repository, "symbolic-ref HEAD refs/heads/pitcrew/probe/bob");
    commit(&env.repository, "more");
    git(&env.repository, "checkout --quiet main");
    env.worktrees.recover().await.unwrap();
    assert_eq!(fs::read_to_string(bob.path.join("notes")).unwrap(), "mine");
    assert!(env.branches().contains(&bob.branch), "{}", env.branches());
    // It stays named until a person has decided.
    assert!(env.worktrees.leftovers().await.unwrap().contains(&Leftover::Unfinished(bob)));
}

#[tokio::test]
async fn a_removal_that_was_cut_off_is_ended_and_a_worktree_that_still_stands_is_left() {
    let env = TestEnv::new();
    let bob = env.worktrees.create("probe", "bob").await.unwrap();
    env.died(&bob, "removing");
    env.worktrees.recover().await.unwrap();
    assert!(bob.path.exists(), "somebody may have come to need it");
    assert_eq!(env.worktrees.orphans(&[]).await.unwrap(), std::slice::from_ref(&bob));
    // Git removes the folder first and its own data about it afterwards.
    for is_listed in [true, false] {
        let bob = env.worktrees.create("probe", "cut").await.unwrap();
        env.died(&bob, "removing");
        match is_listed {
            true => fs::remove_dir_all(&bob.path).unwrap(),
            false => _ = git(&env.repository, &format!("worktree remove {}", bob.path.display())),
        }
        env.worktrees.recover().await.unwrap();
        assert_eq!(git(&env.repository, "branch --list pitcrew/probe/cut"), "", "{is_listed}");
        assert!(!git(&env.repository, "worktree list").contains("cut"), "{is_listed}");
        assert_eq!(env.worktrees.leftovers().await.unwrap(), [], "{is_listed}");
    }
}

#[tokio::test]
async fn the_commits_of_a_removal_that_was_cut_off_are_kept() {
    let env = TestEnv::new();
    let bob = env.worktrees.create("probe", "bob").await.unwrap();
    commit(&bob.path, "own");
    git(&env.repository, &format!("worktree remove {}", bob.path.display()));
    env.died(&bob, "removing");
    env.worktrees.recover().await.unwrap();
    assert!(env.branches().contains(&bob.branch));
}
