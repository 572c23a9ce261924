//! Unusual objects at the path of a lock, lease, folder or journal of pitcrew. Each command must
//! say how to remove the problem, and this advice must work.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::running::Running;
use crate::test_env::{Ran, TestEnv};

/// The length of a huge file. The file is sparse and uses no space on the disk.
const GIANT: u64 = 8 * 1024 * 1024 * 1024;

const HINT: &str = "`pitcrew doctor --repair` repairs it";

/// Replaces a file by an object of this kind: a link, a folder, a FIFO or a huge file.
fn put(kind: &str, path: &Path) {
    let _none = fs::remove_file(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match kind {
        "link" => symlink(path.with_file_name("elsewhere"), path).unwrap(),
        "folder" => fs::create_dir(path).unwrap(),
        "fifo" => rustix::fs::mkfifoat(
            rustix::fs::CWD,
            path,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        )
        .unwrap(),
        _ => fs::File::create(path).unwrap().set_len(GIANT).unwrap(),
    }
}

fn is_named_and_mended(room: &TestEnv, path: &Path) {
    let found = room.run(&["doctor"]);
    assert!(
        found.code == 1 && found.stdout.contains(&format!("torn {}", path.display())),
        "{found:?}"
    );
    room.ok(&["doctor", "--repair"]);
    room.ok(&["doctor"]);
}

#[test]
fn a_lock_of_teams_that_is_no_file_is_named_and_mended() {
    for kind in ["link", "folder", "fifo"] {
        let room = TestEnv::with_crew();
        let path = room.root().join("pitcrew/lifecycle.lock");
        put(kind, &path);
        let refused: Ran = room.run(&["team", "create", "other"]);
        assert!(refused.code == 70 && refused.stderr.contains(HINT), "{kind}: {refused:?}");
        is_named_and_mended(&room, &path);
        room.ok(&["team", "create", "other"]);
        assert!(!room.root().join("pitcrew/elsewhere").exists());
    }
}

#[test]
fn a_lease_that_is_no_file_is_named_and_mended_and_a_forced_delete_needs_no_mending() {
    for kind in ["link", "folder", "fifo", "giant"] {
        let room = TestEnv::with_crew();
        let path = room.root().join("teams/crew/pitcrew/lease");
        put(kind, &path);
        if kind != "giant" {
            let refused = room.run(&["shutdown", "crew", "--force"]);
            assert!(refused.code == 70 && refused.stderr.contains(HINT), "{kind}: {refused:?}");
        }
        is_named_and_mended(&room, &path);
        put(kind, &path);
        room.ok(&["team", "delete", "crew", "--force"]);
        assert!(!room.root().join("teams/crew").exists(), "{kind}");
    }
}

#[test]
fn a_file_in_the_place_of_a_folder_is_named_with_what_helps() {
    let room = TestEnv::with_crew();
    let path = room.root().join("pitcrew/rates");
    fs::remove_dir_all(&path).unwrap();
    fs::write(&path, "mine").unwrap();
    let refused = room.run(&["send", "--team", "crew", "bob", "hello"]);
    assert!(refused.code == 70 && refused.stderr.contains("move it away by hand"), "{refused:?}");
    let found = room.run(&["doctor", "--repair"]);
    assert!(found.code == 1 && found.stdout.contains("move it away"), "{found:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
}

#[test]
fn a_giant_journal_is_left_as_it_is_until_it_is_mended() {
    let room = TestEnv::with_crew();
    let path = room.root().join("teams/crew/pitcrew/journal.ndjson");
    let whole = fs::read(&path).unwrap().len() as u64;
    fs::File::options().write(true).open(&path).unwrap().set_len(GIANT).unwrap();
    let sent = room.ok(&["send", "--team", "crew", "bob", "hello"]);
    assert!(
        sent.stderr.contains("not in the journal") && sent.stderr.contains("at most 536870912"),
        "{sent:?}"
    );
    assert!(sent.stderr.contains(HINT), "{sent:?}");
    assert_eq!(fs::metadata(&path).unwrap().len(), GIANT, "it held {whole} bytes");
    let refused = room.run(&["shutdown", "crew", "--force"]);
    assert!(refused.stderr.is_empty() || !refused.stderr.contains("panicked"), "{refused:?}");
    is_named_and_mended(&room, &path);
    room.ok(&["send", "--team", "crew", "bob", "again"]);
}

#[test]
fn a_file_of_the_team_that_another_program_locked_is_waited_for_aloud() {
    for place in ["inboxes/bob.json", "config.json", "pitcrew/journal.ndjson"] {
        let room = TestEnv::with_crew();
        room.ok(&["send", "--team", "crew", "bob", "hello"]);
        let path = room.root().join("teams/crew").join(place);
        let held = fs::File::open(&path).unwrap();
        held.lock().unwrap();
        let sending = &["send", "--team", "crew", "bob", "hello"][..];
        let changing = &["member", "mode", "bob", "plan", "--team", "crew"][..];
        let args = if place == "config.json" { changing } else { sending };
        let mut running = Running::of(&mut room.command(args));
        let said = running.line();
        let holder = format!("process {} (", std::process::id());
        assert!(
            said.contains(&path.display().to_string()) && said.contains(&holder),
            "{place}: {said}"
        );
        drop(held);
        let (code, rest) = running.ended();
        assert_eq!(code, Some(0), "{place}: {rest}");
    }
}

#[test]
fn the_doctor_names_a_long_journal_before_it_reads_it() {
    let room = TestEnv::with_crew();
    let path = room.root().join("teams/crew/pitcrew/journal.ndjson");
    let line = fs::read_to_string(&path).unwrap().lines().next().unwrap().to_owned() + "\n";
    fs::write(&path, line.repeat(20_000_000 / line.len())).unwrap();
    let ran = room.run(&["doctor"]);
    let said = format!("reading {}, ", path.display());
    assert!(ran.code == 0 && ran.stderr.contains(&said), "{ran:?}");
}

#[test]
fn a_list_and_the_doctor_agree_on_what_is_no_team() {
    let room = TestEnv::with_crew();
    let config = room.json_file("teams/crew/config.json");
    let long = "a".repeat(300);
    for (folder, name) in [("up", ".."), ("here", "."), ("none", ""), ("long", long.as_str())] {
        let mut config = config.clone();
        config["name"] = name.into();
        let place = room.root().join("teams").join(folder);
        fs::create_dir(&place).unwrap();
        fs::write(place.join("config.json"), config.to_string()).unwrap();
    }
    let hidden = ["a\u{200b}b", "a\u{202e}b", "a\u{1b}b", "a\nb"];
    for folder in hidden {
        let place = room.root().join("teams").join(folder);
        fs::create_dir(&place).unwrap();
        fs::write(place.join("config.json"), config.to_string()).unwrap();
    }
    let listed = room.ok(&["team", "list"]);
    assert!(listed.stdout.lines().all(|line| line.chars().count() < 160), "{listed:?}");
    for folder in ["up", "here", "none", "long"] {
        let line =
            listed.stdout.lines().find(|line| line.split_whitespace().next() == Some(folder));
        assert!(
            line.is_some_and(|line| line.contains("config.json is no")),
            "{folder}: {listed:?}"
        );
    }
    let found = room.json(&["doctor"]);
    let bad = found["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["kind"] == "bad_config")
        .count();
    assert_eq!(bad, 4 + hidden.len(), "{found:#}");
}
