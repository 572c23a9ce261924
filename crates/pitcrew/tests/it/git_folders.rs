//! Git folders and object stores outside the checkout. Commands are allowed to read them only after
//! the user has trusted them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::test_env::{Ran, TestEnv, tree};

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

/// Each row is a way in which the files of an unpacked archive lead git to the store of another
/// repository, as a shell script in the archive's folder. `$P` is the other repository.
const BORROWING: [&str; 6] = [
    "ln -s $P/.git .git",
    "echo gitdir: $P/.git > .git",
    "git init -q && echo $P/.git > .git/commondir",
    "git init -q && rm -r .git/refs .git/objects && cp -r $P/.git/refs .git/ && mkdir -p .git/objects/info && echo $P/.git/objects > .git/objects/info/alternates",
    "git init -q && rm -r .git/refs .git/objects && cp -r $P/.git/refs .git/ && ln -s $P/.git/objects .git/objects",
    "git init -q && rm -r .git/refs .git/objects && ln -s $P/.git/refs .git/refs && ln -s $P/.git/objects .git/objects",
];

/// The script of a lead that spawns a teammate with a worktree. The teammate reads a file.
const IN_WORKTREE: &str = "
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: Look, prompt: Look., isolation: worktree}}]
    - when: {contains: 'agent_id: bob', from: tool_result}
      wait_for: {contains: I looked, from: message}
    - when: {contains: 'agent_id: bob', from: tool_result}
      tools: [{name: SendMessage, input: {type: shutdown_request, recipient: bob}}]
    - when: {contains: 'agent_id: bob', from: tool_result}
      wait_for: {contains: has shut down, from: message}
    - text: It is done.
  bob:
    - tools: [{name: Read, input: {file_path: key}}]
    - tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: I looked, summary: done}}]
    - wait_for: {contains: shutdown_request}
      text: I wait.
    - capture:
        request: {regex: '\"requestId\":\\s*\"([^\"]+)\"'}
      tools: [{name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}]
";

#[test]
fn no_worktree_of_another_repository_is_made_until_it_is_trusted_by_name() {
    for script in BORROWING {
        let (room, private, _) = room_with_private_repository();
        let branch = git(&room, &private, &["symbolic-ref", "--short", "HEAD"]);
        let before = tree(&private);
        let mut shell = room.tool("sh", &["-ec", script]);
        assert!(shell.env("P", &private).status().unwrap().success(), "{script}");
        // The branch of the archive has the name of the other repository's, so that its commit is
        // found in the borrowed store.
        if room.work().join(".git").is_dir() && !room.work().join(".git").is_symlink() {
            fs::write(room.work().join(".git/HEAD"), format!("ref: refs/heads/{branch}\n"))
                .unwrap();
        }
        assert_eq!(
            git(&room, &room.work(), &["show", "HEAD:key"]),
            SECRET,
            "{script}: git reads it"
        );
        let model = room.script(IN_WORKTREE);
        let args = ["run", "look", "--team", "look", "--model", &model, "--max-turns", "8"];
        let ran = room.run(&args);
        assert!(ran.stdout.contains("It is done."), "{script}: {ran:?}");
        assert_eq!(has_secret(&room.root()), Vec::<PathBuf>::new(), "{script}: {ran:?}");
        assert_eq!(tree(&private), before, "{script}: the other repository has changed");
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains("left out of .git"), "{script}: {said}");
        let ran = room.run(&[&args[..], &["--trust"]].concat());
        assert!(ran.stdout.contains("It is done."), "{script}: {ran:?}");
        assert_ne!(has_secret(&room.root()), Vec::<PathBuf>::new(), "{script}: trusted: {ran:?}");
    }
}

/// Returns the files below a folder that have the content of the other repository.
fn has_secret(folder: &Path) -> Vec<PathBuf> {
    let has = |content: &Option<Vec<u8>>| {
        content.as_ref().is_some_and(|bytes| String::from_utf8_lossy(bytes).contains(SECRET))
    };
    tree(folder).into_iter().filter(|(_, content)| has(content)).map(|(path, _)| path).collect()
}
