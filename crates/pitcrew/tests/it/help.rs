//! The help, the completions and the manual pages.

use insta::assert_snapshot;

use crate::room::Room;

#[test]
fn the_help_shows_commands_examples_and_exit_codes() {
    assert_snapshot!(Room::new().transcript(&[&["--help"]]), @"");
}

#[test]
fn the_help_of_a_command_shows_how_it_is_used() {
    assert_snapshot!(Room::new().transcript(&[&["send", "--help"]]), @"");
}

#[test]
fn completions_exist_for_the_usual_shells() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = Room::new().ok(&["completions", shell]).stdout;
        assert!(script.contains("broadcast"), "{shell}");
    }
}

#[test]
fn manual_pages_are_printed_and_installed_one_a_command() {
    let room = Room::new();
    assert!(room.ok(&["man"]).stdout.contains(".TH pitcrew 1"));
    room.ok(&["man", "man1"]);
    for page in ["pitcrew.1", "pitcrew-send.1", "pitcrew-team-create.1"] {
        assert!(room.work().join("man1").join(page).is_file(), "{page}");
    }
}

#[test]
fn what_is_not_understood_is_a_malformed_request_in_the_form_asked_for() {
    let room = Room::new();
    assert_eq!(room.run(&["send"]).code, 2);
    let answer = room.json(&["send"]);
    assert_eq!(answer["success"], false);
    assert_eq!(answer["error"], "invalid_request");
    assert_eq!(room.run(&["--json", "send"]).stderr, "");
}
