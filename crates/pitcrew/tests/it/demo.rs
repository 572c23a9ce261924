//! The demo: a whole team of scripted models works on a real crate. One test runs it to its end,
//! and other tests kill and resume it.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::patience;
use crate::test_env::{Ran, TestEnv, journal_in};

fn folder(room: &TestEnv) -> PathBuf {
    room.work().join("demo")
}

/// Returns the journal of the demo's team. The team may be active or archived.
fn journal(folder: &Path) -> Vec<Value> {
    let alive = folder.join("root/teams/demo/pitcrew/journal.ndjson");
    let archived = || {
        let archive = std::fs::read_dir(folder.join("root/pitcrew/archive")).ok()?;
        Some(archive.flatten().next()?.path().join("team/pitcrew/journal.ndjson"))
    };
    let path = if alive.exists() { Some(alive) } else { archived() };
    path.map(|path| journal_in(&path)).unwrap_or_default()
}

/// Returns the ids of the tasks of the demo's team, which must be archived.
fn tasks_kept(folder: &Path) -> Vec<String> {
    let archive =
        std::fs::read_dir(folder.join("root/pitcrew/archive")).unwrap().next().unwrap().unwrap();
    let files =
        std::fs::read_dir(archive.path().join("tasks")).unwrap().map(|it| it.unwrap().path());
    let tasks = files.filter(|path| path.extension().is_some_and(|it| it == "json"));
    let mut ids: Vec<String> =
        tasks.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

fn count(journal: &[Value], event: &str) -> usize {
    journal.iter().filter(|entry| entry["event"] == event).count()
}

/// Returns the ids of the messages in an agent's conversation, in order.
fn injected(team: &Path, agent: &str) -> Vec<String> {
    let transcript =
        std::fs::read_to_string(team.join(format!("pitcrew/transcripts/{agent}.ndjson"))).unwrap();
    let lines = transcript.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    // When a teammate ends, its transcript records its last message in a step `parted` instead of a
    // step `mail`.
    let mail: Vec<Value> =
        lines.filter(|line| line["kind"] == "mail" || line["kind"] == "parted").collect();
    let ids = mail.iter().flat_map(|line| line["ids"].as_array().unwrap());
    ids.map(|id| id.as_str().unwrap().to_owned()).collect()
}

/// Checks that each message to an agent is exactly once in the agent's inbox and exactly once in
/// its conversation. This must be true whichever process was killed.
fn check_delivered_once(folder: &Path) {
    let archive = std::fs::read_dir(folder.join("root/pitcrew/archive"))
        .unwrap()
        .flatten()
        .next()
        .unwrap()
        .path();
    let team = archive.join("team");
    for agent in ["team-lead", "bob", "wanda", "cleo"] {
        let inbox = std::fs::read_to_string(team.join(format!("inboxes/{agent}.json"))).unwrap();
        let inbox: Vec<Value> = serde_json::from_str(&inbox).unwrap();
        let unread: Vec<_> = inbox.iter().filter(|message| message["read"] == false).collect();
        assert!(unread.is_empty(), "{agent} has not read {unread:?}");
        let id =
            |message: &Value| message["metadata"]["pitcrew"]["id"].as_str().unwrap().to_owned();
        let sent: HashSet<String> = inbox.iter().map(id).collect();
        assert_eq!(sent.len(), inbox.len(), "{agent} was sent something twice");
        let heard = injected(&team, agent);
        assert_eq!(
            heard.iter().collect::<HashSet<_>>().len(),
            heard.len(),
            "{agent} was told something twice"
        );
        // A message whose text is a permission request or its answer goes from one permission gate
        // to another. No model sees such a message.
        let is_for_the_model = |message: &&Value| {
            !message["text"].as_str().unwrap().contains("\"type\":\"permission_")
        };
        for message in inbox.iter().filter(is_for_the_model) {
            assert!(heard.contains(&id(message)), "{agent} was not told {message}");
        }
    }
}

#[test]
fn the_demo_mends_its_crate_and_cleans_up() {
    let room = TestEnv::new();
    let shown = room.json(&["demo", "--dir", "demo"]);
    assert_eq!(shown["success"], true, "{shown:#}");
    assert_eq!(shown["scripted"], true);
    assert_eq!(shown["tests_before"], serde_json::json!({"passed": 3, "failed": 5}));
    assert_eq!(shown["tests_after"], serde_json::json!({"passed": 8, "failed": 0}));
    assert_eq!(shown["tasks_completed"], 4);
    assert_eq!(shown["plans"], 1);
    assert_eq!(shown["permissions_asked"], 1);
    assert_eq!(shown["permissions_refused"], 0);
    let root = folder(&room).join("root");
    assert!(
        !root.join("teams/demo").exists() && !root.join("tasks/demo").exists(),
        "the team is still there"
    );
    assert_eq!(
        std::fs::read_dir(root.join("pitcrew/worktrees")).map_or(0, Iterator::count),
        0,
        "a worktree is left"
    );
    assert!(room.tree().is_empty(), "the demo touched the user's own root");
    assert!(
        !folder(&room).join("repository/src/too-early.rs").exists(),
        "plan mode let something through"
    );
    check_delivered_once(&folder(&room));
}

#[test]
fn in_the_sandbox_the_demo_comes_to_its_end_without_a_question() {
    let room = TestEnv::new();
    let held = room.json(&["doctor"])["sandbox"]["work"].to_string();
    if !held.contains("held by") {
        eprintln!(
            "\n!!! SKIPPED: {held}. Nothing was proved about --sandbox on this machine. !!!\n"
        );
        return;
    }
    let shown = room.json(&["demo", "--sandbox", "--dir", "demo"]);
    assert_eq!(shown["success"], true, "{shown:#}");
    assert_eq!(shown["tests_after"], serde_json::json!({"passed": 8, "failed": 0}));
    assert_eq!(shown["tasks_completed"], 4);
    assert_eq!(shown["permissions_asked"], 0);
    // The agents' commands in the sandbox need the Rust toolchain, which is outside the home of the
    // test environment (`RUSTUP_HOME`). The transcripts in the archive show that no command failed.
    let archive = std::fs::read_dir(folder(&room).join("root/pitcrew/archive"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    for agent in ["bob", "cleo"] {
        let said =
            journal_in(&archive.path().join(format!("team/pitcrew/transcripts/{agent}.ndjson")));
        let results = said.iter().filter(|line| line["kind"] == "result");
        let failed: Vec<_> = results.filter(|line| line["is_error"] == true).collect();
        assert!(failed.is_empty(), "commands of {agent} failed: {failed:#?}");
    }
    assert!(
        !folder(&room).join("repository/src/too-early.rs").exists(),
        "plan mode let something through"
    );
}

#[test]
fn the_demo_says_plainly_that_it_was_scripted_and_leaves_nothing_behind() {
    let room = TestEnv::new();
    let ran = TestEnv::ok(&room, &["demo"]);
    assert!(
        ran.stdout.starts_with("The model turns were scripted: no language model was called."),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("after        8 of 8 tests pass"), "{}", ran.stdout);
    assert!(
        ran.stderr.contains(
            "team-lead says: slug, wrap and stats are mended, and the whole suite passes."
        ),
        "{ran:?}"
    );
    assert_eq!(std::fs::read_dir(room.temporary()).unwrap().count(), 0);
}

/// Returns the names of the folders in the temporary folder.
fn temporary_folders(room: &TestEnv) -> Vec<String> {
    let entries = std::fs::read_dir(room.temporary()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_folder_of_a_killed_demo_is_removed_by_the_next_one_and_no_other() {
    let room = TestEnv::new();
    let start = || {
        let mut demo = room.command(&["demo"]);
        let mut demo =
            demo.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let before = temporary_folders(&room);
        let begun = || {
            let new = temporary_folders(&room).into_iter().find(|name| !before.contains(name))?;
            room.temporary().join(&new).join("root/teams/demo/config.json").exists().then_some(new)
        };
        let folder = patience::until("the demo has a team", begun, || {
            format!("{:?}", temporary_folders(&room))
        });
        demo.kill().unwrap();
        demo.wait().unwrap();
        room.temporary().join(folder)
    };
    // The user resumes one of the killed demos, so its folder must stay.
    let resumed = start();
    room.ok(&["demo", "--resume", resumed.to_str().unwrap()]);
    let killed = start();
    assert!(killed.join(".pitcrew-demo").is_file() && killed.join("root/settings.json").is_file());
    let mark = std::fs::read(killed.join(".pitcrew-demo")).unwrap();
    let others = room.work().join("others");
    for (name, mark) in
        [("others", mark.clone()), ("living", process_of_this_test()), ("strange", b"{}".to_vec())]
    {
        let folder = room.temporary().join(format!("pitcrew-demo-{name}"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join(".pitcrew-demo"), mark).unwrap();
    }
    std::fs::rename(room.temporary().join("pitcrew-demo-others"), &others).unwrap();
    std::os::unix::fs::symlink(&others, room.temporary().join("pitcrew-demo-link")).unwrap();
    std::fs::create_dir(room.temporary().join("pitcrew-demo-unmarked")).unwrap();
    std::fs::create_dir(room.temporary().join("pitcrew-demo-linked")).unwrap();
    let linked = room.temporary().join("pitcrew-demo-linked/.pitcrew-demo");
    std::os::unix::fs::symlink(others.join(".pitcrew-demo"), linked).unwrap();
    room.ok(&["demo"]);
    let resumed = resumed.file_name().unwrap().to_str().unwrap().to_owned();
    let kept = ["link", "linked", "living", "strange", "unmarked"]
        .map(|name| format!("pitcrew-demo-{name}"));
    let mut kept: Vec<String> = kept.into_iter().chain([resumed]).collect();
    kept.sort();
    assert_eq!(temporary_folders(&room), kept);
    assert!(others.join(".pitcrew-demo").is_file(), "what a link leads to is nobody's to remove");
}

/// The content of the marker file of a demo. A file with this content names the process of this
/// test as the process that runs the demo.
fn process_of_this_test() -> Vec<u8> {
    serde_json::to_vec(&pitcrew_process::identity::ProcessIdentity::own()).unwrap()
}

#[test]
fn what_the_demo_puts_into_its_root_is_for_its_user_only() {
    let room = TestEnv::new();
    let mut demo = room.tool(
        "sh",
        &["-c", "umask 022; exec \"$0\" demo --dir demo", env!("CARGO_BIN_EXE_pitcrew")],
    );
    assert!(demo.stdin(Stdio::null()).output().unwrap().status.success());
    let mode = |path: &str| {
        std::fs::metadata(folder(&room).join(path)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(
        (mode("root/settings.json"), mode("root"), mode("repository/Cargo.toml")),
        (0o600, 0o700, 0o644)
    );
}

#[test]
fn a_folder_with_something_in_it_is_not_unpacked_into() {
    let room = TestEnv::new();
    std::fs::create_dir(folder(&room)).unwrap();
    std::fs::write(folder(&room).join("mine"), "precious").unwrap();
    assert_eq!(room.run(&["demo", "--dir", "demo"]).code, 4);
    assert_eq!(std::fs::read_dir(folder(&room)).unwrap().count(), 1);
}

#[test]
fn a_demo_is_resumed_or_refused_and_never_started_anew_in_a_folder_of_somebody() {
    let room = TestEnv::new();
    let missing = room.run(&["demo", "--resume", "missing"]);
    assert_eq!(missing.code, 3, "{missing:?}");
    assert!(
        missing.stderr.contains("there is no folder") && missing.stderr.contains("--dir"),
        "{missing:?}"
    );
    assert!(!room.work().join("missing").exists());
    std::fs::create_dir(folder(&room)).unwrap();
    let empty = room.run(&["demo", "--resume", "demo"]);
    assert_eq!(empty.code, 4, "{empty:?}");
    std::fs::write(folder(&room).join("mine"), "precious").unwrap();
    let refused = room.run(&["demo", "--resume", "demo"]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.stderr.contains("contains no demo that can be resumed"), "{refused:?}");
    assert_eq!(std::fs::read_dir(folder(&room)).unwrap().count(), 1);
}

#[test]
fn a_demo_that_cannot_run_cargo_says_why_and_shows_no_backtrace() {
    let room = TestEnv::new();
    let programs = room.work().join("bin");
    std::fs::create_dir(&programs).unwrap();
    // This script fails in the same way as rustup without a chosen toolchain.
    let cargo = "#!/bin/sh\necho 'error: no toolchain is chosen' >&2\n\
        [ \"$RUST_BACKTRACE\" = 0 ] || echo 'Stack backtrace: 0: rustup' >&2\nexit 1\n";
    std::fs::write(programs.join("cargo"), cargo).unwrap();
    std::fs::set_permissions(programs.join("cargo"), std::fs::Permissions::from_mode(0o755))
        .unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut demo = room.command(&["demo"]);
    let ran = Ran::of(demo.env("PATH", path).env("RUST_BACKTRACE", "1").output().unwrap());
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.stderr.contains("cannot be tested: error: no toolchain is chosen\nhint: "),
        "{ran:?}"
    );
    assert!(!ran.stderr.contains("backtrace"), "{ran:?}");
}

/// Starts the demo, and kills it when its journal has `entries` entries. Returns false if the demo
/// finished before that.
fn is_killed_at(room: &TestEnv, entries: usize) -> bool {
    let folder = folder(room);
    let mut demo = room.command(&["demo", "--dir", "demo"]);
    let mut demo =
        demo.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut is_due =
        || (journal(&folder).len() >= entries || demo.try_wait().unwrap().is_some()).then_some(());
    patience::until("the demo comes so far", &mut is_due, || {
        format!("{:?}", journal(&folder).last())
    });
    demo.kill().unwrap();
    demo.wait().unwrap();
    folder.join("root/teams/demo/config.json").exists()
}

/// Kills the demo when its journal has `entries` entries, resumes it, and checks the result.
fn check_resumed(entries: usize) {
    // On a busy machine the demo may end before the test kills it. In that case the test tries
    // again.
    let rooms = std::iter::repeat_with(TestEnv::new).take(20);
    let room = rooms
        .into_iter()
        .find(|room| is_killed_at(room, entries))
        .expect("it is always too late to kill it");
    let folder = folder(&room);
    let root = folder.join("root").display().to_string();
    let mut resumed = room.command(&["--root", &root, "run", "--resume", "demo"]);
    // The command that resumes the demo starts in another folder. The team continues in its own
    // folder.
    let resumed = resumed.current_dir(room.temporary()).output().unwrap();
    let said = String::from_utf8_lossy(&resumed.stdout).into_owned();
    let log = String::from_utf8_lossy(&resumed.stderr).into_owned();
    assert!(resumed.status.success(), "killed after {entries}: {log}");
    assert_eq!(
        said.trim(),
        "slug, wrap and stats are mended, and the whole suite passes.",
        "killed after {entries}"
    );
    assert!(
        !folder.join("root/teams/demo").exists(),
        "killed after {entries}: the team is still there"
    );
    let journal = journal(&folder);
    assert_eq!(count(&journal, "team_deleted"), 1, "killed after {entries}");
    assert_eq!(
        tasks_kept(&folder),
        ["1", "2", "3", "4"],
        "killed after {entries}: tasks were made twice or lost"
    );
    // A task may have no journal line, if the kill happened after the task was written and before
    // its journal line was written. The test therefore checks only that no task has two journal
    // lines.
    let mut made: Vec<&str> = journal
        .iter()
        .filter(|it| it["change"] == "created")
        .map(|it| it["task"].as_str().unwrap())
        .collect();
    let told = made.len();
    made.dedup();
    assert_eq!(made.len(), told, "killed after {entries}: {made:?}");
    check_delivered_once(&folder);
    let shown = room.json(&["demo", "--resume", "demo"]);
    assert_eq!(
        shown["tests_after"],
        serde_json::json!({"passed": 8, "failed": 0}),
        "killed after {entries}"
    );
}

#[test]
fn a_demo_that_is_killed_early_goes_on_to_the_same_end() {
    for entries in [1, 5, 11, 18] {
        check_resumed(entries);
    }
}

#[test]
fn a_demo_that_is_killed_in_the_middle_goes_on_to_the_same_end() {
    for entries in [25, 40, 57] {
        check_resumed(entries);
    }
}

#[test]
fn a_demo_that_is_killed_late_goes_on_to_the_same_end() {
    for entries in [80, 105, 130] {
        check_resumed(entries);
    }
}
