//! Lock files that commands leave in a git folder. Git refuses to go on while they exist, so whoever
//! can do something about it learns of them.

use std::fs;
use std::time::{Duration, SystemTime};

use crate::test_env::TestEnv;

fn repository() -> TestEnv {
    let room = TestEnv::new();
    for args in
        [&["init", "--quiet", "-b", "main"][..], &["commit", "--quiet", "--allow-empty", "-m", "x"]]
    {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
        assert!(room.tool("git", &identity).args(args).status().unwrap().success());
    }
    room
}

#[test]
fn a_lock_file_that_a_command_leaves_is_told_to_the_model_with_its_cost() {
    let room = repository();
    let model = room.script(
        "agents: {team-lead: [{tools: [{name: Bash, input: {command: touch .git/index.lock}}]}, {text: Done.}]}",
    );
    let args = ["run", "go", "--team", "work", "--model", &model, "--sandbox"];
    let ran = room.run(&args);
    if ran.stderr.contains("--sandbox cannot be held") || ran.code == 2 {
        eprintln!("skipped: no command can be confined here: {ran:?}");
        return;
    }
    assert!(room.work().join(".git/index.lock").exists(), "{ran:?}");
    let told = room.find("teams/work/pitcrew/transcripts/team-lead.ndjson");
    let told = fs::read_to_string(told).unwrap();
    assert!(
        told.contains(".git/index.lock is there: until it is removed, nobody can add, commit"),
        "{told}"
    );
}

#[test]
fn doctor_names_old_lock_files_of_git_and_what_they_cost() {
    let room = repository();
    let lock = room.work().join(".git/packed-refs.lock");
    fs::write(&lock, "").unwrap();
    let found = |report: serde_json::Value| report["findings"].as_array().unwrap().len();
    assert_eq!(found(room.json(&["doctor"])), 0, "a git may run right now");
    let hour = Duration::from_secs(3600);
    let file = fs::File::options().write(true).open(&lock).unwrap();
    file.set_modified(SystemTime::now() - hour).unwrap();
    insta::assert_snapshot!(room.transcript(&[&["doctor", "--repair"]]), @r"
    $ pitcrew doctor --repair
    git lock [dir]/work/.git/packed-refs.lock: a command left this lock file of git: until it is removed, nobody can delete a branch, so no worktree is cleaned up; if no git runs there, remove it (left to you)
    1 found, 1 left
    [exit 1]
    ");
    assert!(lock.exists(), "a repair removes nothing of git's");
}
