//! This binary must read and resume a team that an earlier version of the binary left.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::test_env::{TestEnv, copy, journal_in, tree};

/// The id of the message for which bob waits. The message was sent while no process ran the team.
const GO_ON: &str = "01a2076e-dfd3-748d-bf76-945ec6511bb5";

/// A test environment with the root that an earlier version of the binary left
/// (`tests/fixtures/pitcrew-0.1.0`). The paths in the files of this root are replaced by paths of
/// this test.
fn recorded() -> TestEnv {
    let env = TestEnv::new();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/pitcrew-0.1.0");
    fs::remove_dir(env.root()).unwrap();
    copy(&fixture.join("root"), &env.root());
    let script = env.work().join("script.yaml");
    fs::copy(fixture.join("script.yaml"), &script).unwrap();
    let files: Vec<PathBuf> = tree(&env.root()).into_keys().collect();
    for file in files.iter().map(|file| env.root().join(file)).filter(|file| file.is_file()) {
        let text = fs::read_to_string(&file).unwrap();
        let text = text
            .replace("/home/dev/script.yaml", script.to_str().unwrap())
            .replace("/home/dev/project", env.work().to_str().unwrap());
        fs::write(&file, text).unwrap();
    }
    env.tool("git", &["init", "-q"]).status().unwrap();
    env
}

#[test]
fn the_journal_tasks_and_mail_of_an_earlier_binary_are_read() {
    let env = recorded();
    let way = env.json(&["message", GO_ON]);
    assert_eq!(way["state"], "persisted", "{way}");
    let tasks = env.json(&["task", "list", "--team", "greeting"]);
    let statuses: Vec<&Value> =
        tasks["tasks"].as_array().unwrap().iter().map(|task| &task["status"]).collect();
    assert_eq!(statuses, ["completed", "in_progress"], "{tasks}");
    let unread = env.json(&["inbox", "bob", "--team", "greeting"]);
    assert!(unread.to_string().contains("go on"), "{unread}");
}

#[test]
fn a_team_of_an_earlier_binary_is_resumed_and_its_work_is_done() {
    let env = recorded();
    let ran = env.run(&[
        "run",
        "--resume",
        "greeting",
        "--permission-mode",
        "bypassPermissions",
        "--json",
    ]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let end: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(end["subtype"], "success", "{end}");
    assert_eq!(fs::read_to_string(env.work().join("wave.txt")).unwrap(), "wave\n");
    // Task 1 is to write `hello.txt`. The earlier binary already did this task in another folder,
    // and this binary must not do the task again.
    assert!(!env.work().join("hello.txt").exists());
    let journal = journal_in(&env.find("teams/greeting/pitcrew/journal.ndjson"));
    let entered = |entry: &&Value| entry["event"] == "message_injected" && entry["id"] == GO_ON;
    assert_eq!(journal.iter().filter(entered).count(), 1, "{journal:#?}");
}
