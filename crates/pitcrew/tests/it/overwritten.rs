//! Tests with a program that ignores locks. First the program reads a file, and then a pitcrew
//! command changes the file and ends. After that, the program writes the older content back. No
//! change that the command reported may be lost.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

use insta::assert_snapshot;

use crate::test_env::TestEnv;

const INBOX: &str = "teams/crew/inboxes/bob.json";
const TASK: &str = "tasks/crew/1.json";

/// A test environment with the team `crew`. The team's config marks the member bob as a member that
/// pitcrew runs.
fn room() -> TestEnv {
    let room = TestEnv::with_crew();
    let mut config = room.json_file("teams/crew/config.json");
    config["members"][2]["pitcrew"] = serde_json::json!({});
    fs::write(
        room.root().join("teams/crew/config.json"),
        serde_json::to_string_pretty(&config).unwrap(),
    )
    .unwrap();
    room
}

/// Runs `act`, and then writes the earlier content of the file back.
fn undo(room: &TestEnv, file: &str, act: impl FnOnce()) {
    let path = room.root().join(file);
    let older = fs::read_to_string(&path).unwrap();
    act();
    fs::write(path, older).unwrap();
}

fn texts(room: &TestEnv) -> Vec<String> {
    let inbox = room.json_file(INBOX);
    inbox
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["text"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_send_that_was_undone_is_put_back_by_the_next_command_whatever_it_is() {
    for next in [
        &["inbox", "bob"][..],
        &["task", "list"],
        &["send", "ann", "hello"],
        &["send", "bob", "third"],
    ] {
        let room = room();
        room.ok(&["send", "bob", "first"]);
        undo(&room, INBOX, || drop(room.ok(&["send", "bob", "second"])));
        room.ok(next);
        assert_eq!(texts(&room)[..2], ["first", "second"], "{next:?}");
        assert_eq!(
            texts(&room).len(),
            2 + usize::from(next[1] == "bob" && next[0] == "send"),
            "{next:?}"
        );
    }
}

#[test]
fn a_claim_that_was_undone_is_put_back_and_nobody_else_gets_the_task() {
    let room = room();
    room.ok(&["task", "create", "mend it"]);
    undo(&room, TASK, || drop(room.ok(&["task", "claim", "1", "--as", "bob"])));
    assert_eq!(room.json_file(TASK).get("owner"), None);
    let refused = room.run(&["task", "claim", "1", "--as", "ann"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert_eq!(room.json_file(TASK)["owner"], "bob");
}

#[test]
fn a_lock_that_a_killed_repair_left_keeps_the_next_from_nothing() {
    let room = room();
    room.ok(&["send", "bob", "first"]);
    undo(&room, INBOX, || drop(room.ok(&["send", "bob", "second"])));
    // Make a lock of the form that pitcrew uses, one second old. Such a lock is left if pitcrew is
    // killed while it holds the lock.
    let lock = room.root().join("teams/crew/inboxes/bob.json.lock");
    fs::create_dir(&lock).unwrap();
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o1777)).unwrap();
    fs::File::open(&lock)
        .unwrap()
        .set_modified(SystemTime::now() - Duration::from_secs(1))
        .unwrap();
    let repaired = room.run(&["doctor", "--repair"]);
    assert!(repaired.stdout.contains("-> put back"), "{repaired:?}");
    assert_eq!(texts(&room), ["first", "second"]);
}

#[test]
fn the_doctor_tells_what_was_undone_and_puts_it_back_when_asked() {
    const LEADS: &str = "teams/crew/inboxes/team-lead.json";
    let room = TestEnv::with_crew();
    room.ok(&["send", "team-lead", "first"]);
    room.ok(&["task", "create", "mend it"]);
    undo(&room, LEADS, || {
        undo(&room, TASK, || {
            room.ok(&["send", "team-lead", "second"]);
            room.ok(&["task", "claim", "1", "--as", "team-lead"]);
        });
    });
    let before = (room.json_file(LEADS), room.json_file(TASK));
    let undone = |seen: &str| {
        let lines = seen.lines().filter(|line| line.starts_with("overwritten"));
        room.redacted(&lines.collect::<Vec<_>>().join("\n"))
    };
    assert_snapshot!(undone(&room.run(&["doctor"]).stdout), @r"
    overwritten in team crew: another program wrote an older inboxes/team-lead.json back and undid: [uuid], [uuid] (--repair: put back)
    overwritten in team crew: another program wrote an older tasks/1.json back and undid: status, owner (--repair: put back)
    ");
    assert_eq!((room.json_file(LEADS), room.json_file(TASK)), before, "it only looked");
    assert_snapshot!(undone(&room.run(&["doctor", "--repair"]).stdout), @r"
    overwritten in team crew: another program wrote an older inboxes/team-lead.json back and undid: [uuid], [uuid] -> put back
    overwritten in team crew: another program wrote an older tasks/1.json back and undid: status, owner -> put back
    ");
    assert_eq!(room.json_file(LEADS)[1]["text"], "second");
    assert_eq!(room.json_file(TASK)["owner"], "team-lead");
    assert_eq!(undone(&room.run(&["doctor"]).stdout), "");
}
