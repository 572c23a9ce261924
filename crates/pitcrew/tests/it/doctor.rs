//! `pitcrew doctor`.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use insta::assert_snapshot;

use crate::room::Room;

fn age(path: &Path) {
    fs::File::open(path).unwrap().set_modified(SystemTime::now() - Duration::from_secs(120)).unwrap();
}

#[test]
fn a_sound_root_is_well() {
    assert_snapshot!(Room::with_crew().transcript(&[&["doctor"]]), @r#"
    $ pitcrew doctor
    all is well
    "#);
}

#[test]
fn what_crashes_left_behind_is_found_and_mended() {
    let room = Room::with_crew();
    room.ok(&["send", "bob", "the first"]);
    room.ok(&["send", "bob", "the second"]);
    let inboxes = room.root().join("teams/crew/inboxes");
    for lock in ["ann.json.lock", "team-lead.json.lock"] {
        fs::create_dir(inboxes.join(lock)).unwrap();
        age(&inboxes.join(lock));
    }
    fs::write(inboxes.join(".pitcrew-0123456789abcdef0123456789abcdef.tmp"), "half a fi").unwrap();
    age(&inboxes.join(".pitcrew-0123456789abcdef0123456789abcdef.tmp"));
    let whole = fs::read_to_string(inboxes.join("bob.json")).unwrap();
    fs::write(inboxes.join("bob.json"), &whole[..whole.len() - 40]).unwrap();
    fs::write(room.root().join("tasks/crew/1.json"), "{\"id\":").unwrap();
    let before = room.tree();
    let found = room.transcript(&[&["doctor"]]);
    assert!(room.tree() == before, "looking changed something");
    assert_snapshot!(found, @r#"
    $ pitcrew doctor
    stale lock [root]/teams/crew/inboxes/ann.json.lock: its holder gives no sign any more (--repair: taken away)
    stale lock [root]/teams/crew/inboxes/team-lead.json.lock: its holder gives no sign any more (--repair: taken away)
    unfinished [root]/teams/crew/inboxes/.pitcrew-0123456789abcdef0123456789abcdef.tmp: left by a write that never ended (--repair: taken away)
    torn [root]/tasks/crew/1.json: EOF while parsing a value at line 1 column 6 (--repair: taken away)
    torn [root]/teams/crew/inboxes/bob.json: EOF while parsing a string at line 20 column 32 (--repair: taken away)
    5 found, 5 left
    [exit 1]
    "#);
    assert_snapshot!(room.transcript(&[&["doctor", "--repair"], &["doctor"]]), @r#"
    $ pitcrew doctor --repair
    stale lock [root]/teams/crew/inboxes/ann.json.lock: its holder gives no sign any more -> kept as [root]/pitcrew/archive/[keep]/teams/crew/inboxes/ann.json.lock
    stale lock [root]/teams/crew/inboxes/team-lead.json.lock: its holder gives no sign any more -> kept as [root]/pitcrew/archive/[keep]/teams/crew/inboxes/team-lead.json.lock
    unfinished [root]/teams/crew/inboxes/.pitcrew-0123456789abcdef0123456789abcdef.tmp: left by a write that never ended -> kept as [root]/pitcrew/archive/[keep]/teams/crew/inboxes/.pitcrew-0123456789abcdef0123456789abcdef.tmp
    torn [root]/tasks/crew/1.json: EOF while parsing a value at line 1 column 6 -> kept as [root]/pitcrew/archive/[keep]/tasks/crew/1.json
    torn [root]/teams/crew/inboxes/bob.json: EOF while parsing a string at line 20 column 32 -> kept as [root]/pitcrew/archive/[keep]/teams/crew/inboxes/bob.json
    kept for a week in [root]/pitcrew/archive/[keep]
    5 found, 0 left
    $ pitcrew doctor
    all is well
    "#);
    assert_eq!(room.json(&["inbox", "bob"])["total"], 1);
}

#[test]
fn a_team_that_was_stopped_is_no_fault_and_a_repair_leaves_it_to_the_next_run() {
    let room = Room::new();
    room.killed_run();
    room.ok(&["send", "bob", "are you there?"]);
    for args in [&["doctor"][..], &["doctor", "--repair"]] {
        let found = room.json(args);
        assert_eq!((&found["total"], &found["notes"][0]["kind"]), (&0.into(), &"stopped".into()), "{found:#}");
        assert!(found["notes"][0]["detail"].as_str().unwrap().contains("run --resume"), "{found:#}");
    }
    assert_eq!(room.json(&["member", "list"])["total"], 2);
    assert_eq!(room.json(&["inbox", "bob", "--unread"])["total"], 1);
}

#[test]
fn a_team_of_another_client_has_no_dead_members() {
    let room = Room::new();
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/claude-2.1.39/in-process");
    crate::room::copy(&recorded, &room.root());
    room.ok(&["doctor"]);
}

#[test]
fn a_torn_config_is_left_to_a_person() {
    let room = Room::with_crew();
    fs::write(room.root().join("teams/crew/config.json"), "{").unwrap();
    let report = room.json(&["doctor", "--repair"]);
    assert_eq!(report["findings"][0]["kind"], "bad_config");
    assert_eq!(report["left"], 1);
    assert_eq!(room.run(&["doctor", "--repair"]).code, 1);
}
