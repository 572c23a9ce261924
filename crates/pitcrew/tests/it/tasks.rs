//! `pitcrew task`.

use insta::assert_snapshot;

use crate::room::Room;

#[test]
fn tasks_are_made_listed_changed_and_shown() {
    let room = Room::with_crew();
    let seen = room.transcript(&[
        &["task", "list"],
        &["task", "create", "Fix the parser", "Tests in tests/parser.rs fail", "--metadata", "priority=1"],
        &["task", "create", "Write it up"],
        &["task", "update", "2", "--blocked-by", "1", "--owner", "bob"],
        &["task", "update", "2", "--owner", "bob"],
        &["task", "list"],
        &["task", "get", "#1"],
        &["task", "update", "1", "--status", "completed", "--metadata", "priority=null"],
        &["task", "list", "--status", "pending"],
        &["task", "update", "2", "--status", "deleted"],
        &["task", "list"],
    ]);
    assert_snapshot!(seen, @"");
}

#[test]
fn with_json_a_task_has_the_shape_of_the_api_reference() {
    let room = Room::with_crew();
    let made = room.json(&["task", "create", "Fix it", "All of it", "--active-form", "Fixing it"]);
    assert_snapshot!(room.redacted(&format!("{made:#}")), @"");
    room.ok(&["task", "create", "Then this"]);
    room.ok(&["task", "update", "1", "--blocks", "2"]);
    let listed = room.json(&["task", "list"]);
    assert_snapshot!(format!("{listed:#}"), @"");
    let deleted = room.json(&["task", "update", "1", "--status", "deleted"]);
    assert_snapshot!(format!("{deleted:#}"), @"");
}

#[test]
fn a_claim_is_won_by_one_and_the_others_are_told_who_won() {
    let room = Room::with_crew();
    room.ok(&["task", "create", "Fix it"]);
    room.ok(&["task", "create", "Later"]);
    room.ok(&["task", "update", "2", "--blocked-by", "1"]);
    let seen = room.transcript(&[
        &["task", "claim", "--as", "ann"],
        &["task", "claim", "1", "--as", "bob"],
        &["task", "claim", "2", "--as", "bob"],
        &["task", "claim", "--as", "bob"],
    ]);
    assert_snapshot!(seen, @"");
}
