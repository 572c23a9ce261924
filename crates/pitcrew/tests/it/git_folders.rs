//! Git folders and object stores outside the checkout. Commands are allowed to read them only after
//! the user has trusted them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::test_env::{Ran, TestEnv};

/// The content of a file in another repository of the user. No agent may read this content.
const SECRET: &str = "SECRET-OF-ANOTHER-REPOSITORY";

fn git(room: &TestEnv, folder: &Path, args: &[&str]) -> String {
    let mut git = room.tool("git", &["-c", "user.name=t", "-c", "user.email=t@example.invalid"]);
    let output = git.args(args).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Returns a test environment, the folder of another repository of the user in it, and an id. The
/// id names the git blob that contains [`SECRET`].
fn room_with_private_repository() -> (TestEnv, PathBuf, String) {
    let room = TestEnv::new();
    let private = room.root().with_file_name("private");
    fs::create_dir(&private).unwrap();
    git(&room, &private, &["init", "--quiet"]);
    fs::write(private.join("key"), SECRET).unwrap();
    git(&room, &private, &["add", "key"]);
    git(&room, &private, &["commit", "--quiet", "-m", SECRET]);
    let blob = git(&room, &private, &["rev-parse", "HEAD:key"]);
    (room, private, blob)
}

/// Starts a run whose lead runs the shell command `command`. Returns the text of the lead's
/// conversation, and the exit code and output of the run.
fn conversation(room: &TestEnv, command: &str, more: &[&str]) -> (String, Ran) {
    let script = format!(
        "agents:\n  team-lead:\n    - tools: [{{name: Bash, input: {{command: '{command}'}}}}]\n    - text: It is done.\n"
    );
    let model = room.script(&script);
    let mut args = vec!["run", "look", "--model", &model];
    args.extend(more);
    let ran = room.run(&args);
    assert!(ran.stdout.contains("It is done."), "{ran:?}");
    let seen =
        fs::read_to_string(room.find("teams/work/pitcrew/transcripts/team-lead.ndjson")).unwrap();
    // A test starts several runs, and each run leaves an archive. The order of two archives from
    // the same second is unknown. This function therefore removes the archive after each run.
    fs::remove_dir_all(room.root().join("pitcrew/archive")).unwrap();
    (seen, ran)
}

#[test]
fn objects_of_another_repository_are_read_only_when_borrowing_them_is_trusted() {
    let (room, private, blob) = room_with_private_repository();
    git(&room, &room.work(), &["init", "--quiet"]);
    let objects = private.join(".git/objects");
    fs::write(room.work().join(".git/objects/info/alternates"), format!("{}\n", objects.display()))
        .unwrap();
    let command = format!("git cat-file -p {blob}");
    assert_eq!(git(&room, &room.work(), &["cat-file", "-p", &blob]), SECRET, "git itself reads it");
    let (seen, ran) = conversation(&room, &command, &[]);
    assert!(!seen.contains(SECRET), "{seen}");
    assert!(ran.stderr.contains("left out of .git/objects/info/alternates: gitFolders"), "{ran:?}");
    let (seen, _) = conversation(&room, &command, &["--trust"]);
    assert!(seen.contains(SECRET), "trusted for one run: {seen}");
    let listed = room.ok(&["trust", "add", "--yes"]);
    assert!(
        listed.stderr.contains("borrows git objects of")
            || listed.stdout.contains("borrows git objects of"),
        "{listed:?}"
    );
    let (seen, _) = conversation(&room, &command, &[]);
    assert!(seen.contains(SECRET), "trusted: {seen}");
    // If the user trusts one repository, another repository is still not trusted.
    let other = private.with_file_name("other");
    fs::rename(&private, &other).unwrap();
    fs::write(
        room.work().join(".git/objects/info/alternates"),
        format!("{}/.git/objects\n", other.display()),
    )
    .unwrap();
    let (seen, _) = conversation(&room, &command, &[]);
    assert!(!seen.contains(SECRET), "{seen}");
}

#[test]
fn a_checkout_whose_git_folder_stands_apart_works_when_that_is_trusted_or_the_folder_names_it() {
    let room = TestEnv::new();
    let apart = room.root().with_file_name("apart.git");
    git(&room, &room.work(), &["init", "--quiet", "--separate-git-dir", apart.to_str().unwrap()]);
    git(&room, &room.work(), &["commit", "--quiet", "--allow-empty", "-m", "the-only-commit"]);
    let command = "git log --format=%s";
    let (seen, ran) = conversation(&room, command, &[]);
    assert!(!seen.contains("the-only-commit"), "{seen}");
    assert!(ran.stderr.contains("left out of .git: gitFolders"), "{ran:?}");
    let (seen, _) = conversation(&room, command, &["--trust"]);
    assert!(seen.contains("the-only-commit"), "{seen}");
    git(&room, &apart, &["config", "core.worktree", room.work().to_str().unwrap()]);
    let (seen, ran) = conversation(&room, command, &[]);
    assert!(
        seen.contains("the-only-commit") && !ran.stderr.contains("gitFolders"),
        "{seen} {ran:?}"
    );
}

#[test]
fn a_git_file_that_names_a_repository_or_folder_of_the_user_s_reaches_nothing_of_it() {
    let (room, private, blob) = room_with_private_repository();
    let ssh = private.with_file_name(".ssh");
    fs::create_dir(&ssh).unwrap();
    fs::write(ssh.join("id_rsa"), SECRET).unwrap();
    for target in [
        private.join(".git"),
        ssh.clone(),
        PathBuf::from("../private/.git"),
        PathBuf::from("../.ssh"),
    ] {
        fs::write(room.work().join(".git"), format!("gitdir: {}\n", target.display())).unwrap();
        let command = format!(
            "git cat-file -p {blob}; git log -p; cat {}/HEAD {}/key {}/id_rsa",
            private.join(".git").display(),
            private.display(),
            ssh.display()
        );
        let (seen, _) = conversation(&room, &command, &[]);
        assert!(!seen.contains(SECRET) && !seen.contains("ref: refs/heads"), "{target:?}: {seen}");
    }
}
