//! `pitcrew team` and how a command finds its team.

use insta::assert_snapshot;

use crate::room::Room;

#[test]
fn a_team_is_made_listed_shown_and_deleted() {
    let room = Room::new();
    let seen = room.transcript(&[
        &["team", "list"],
        &["team", "create", "backend", "--description", "fix the build"],
        &["team", "list"],
        &["team", "show"],
        &["team", "delete", "backend"],
        &["team", "list"],
    ]);
    assert_snapshot!(seen, @"");
    assert!(!room.root().join("teams/backend").exists());
    assert!(!room.root().join("tasks/backend").exists());
}

#[test]
fn with_json_the_answers_have_the_shapes_of_the_api_reference() {
    let room = Room::new();
    let made = room.json(&["team", "create", "backend"]);
    assert_snapshot!(room.redacted(&format!("{made:#}")), @"");
    let deleted = room.json(&["team", "delete", "backend"]);
    assert_snapshot!(format!("{deleted:#}"), @"");
}

#[test]
fn a_team_with_teammates_is_not_deleted() {
    let room = Room::with_crew();
    assert_snapshot!(room.transcript(&[&["team", "delete", "crew"]]), @"");
}

#[test]
fn a_name_that_falls_on_the_folder_of_another_team_is_refused() {
    let room = Room::new();
    room.ok(&["team", "create", "my-team"]);
    assert_snapshot!(room.transcript(&[&["team", "create", "My Team"], &["team", "create", "my-team"]]), @"");
}

#[test]
fn of_several_teams_the_one_named_after_the_repository_is_meant() {
    let room = Room::new();
    for team in ["work", "other"] {
        room.ok(&["team", "create", team]);
    }
    assert!(room.ok(&["team", "show"]).stdout.starts_with("work"));
    room.ok(&["team", "delete", "work"]);
    room.ok(&["team", "create", "third"]);
    assert_snapshot!(room.transcript(&[&["team", "show"], &["team", "show", "thrid"]]), @"");
}

#[test]
fn a_team_with_a_broken_config_is_listed_with_the_reason() {
    let room = Room::new();
    room.ok(&["team", "create", "sound"]);
    std::fs::create_dir_all(room.root().join("teams/torn")).unwrap();
    std::fs::write(room.root().join("teams/torn/config.json"), "{\"name\": \"to").unwrap();
    assert_snapshot!(room.transcript(&[&["team", "list"]]), @"");
}
