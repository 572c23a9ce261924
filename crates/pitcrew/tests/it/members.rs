//! `pitcrew member`.

use insta::assert_snapshot;

use crate::room::Room;

#[test]
fn members_are_listed_and_changed_and_removed() {
    let room = Room::with_crew();
    room.ok(&["task", "create", "Fix it"]);
    room.ok(&["task", "update", "1", "--owner", "bob", "--status", "in_progress"]);
    let seen = room.transcript(&[
        &["member", "list"],
        &["member", "mode", "ann", "acceptEdits"],
        &["member", "mode", "ann", "whatever"],
        &["member", "remove", "bob"],
        &["member", "remove", "bob"],
        &["member", "list"],
        &["task", "list"],
    ]);
    assert_snapshot!(seen, @"");
}
