//! `pitcrew resume`: the list of the teams that run and of those that can be resumed, as a table, as
//! JSON, and on a real terminal.

use insta::assert_snapshot;
use regex::Regex;
use serde_json::{Value, json};

use crate::attach::Displays;
use crate::detached::{Detached, hosts};
use crate::test_env::{Ran, TestEnv};

/// The columns and rows of a small terminal.
const SMALL: (u16, u16) = (80, 24);

/// The script of a lead that works until its run is stopped.
const WORKING: &str = "
agents:
  team-lead:
    - tools: [{name: Bash, input: {command: sleep 600}}]
";

/// The script of a lead that is done at once.
const DONE: &str = "
agents:
  team-lead:
    - text: All is done.
";

/// The script of a lead that is done at once, and works when it is resumed.
const DONE_THEN_WORKING: &str = "
agents:
  team-lead:
    - text: All is done.
    - tools: [{name: Bash, input: {command: sleep 600}}]
";

/// A test environment with a finished team `old` and a running team `work`.
fn finished_and_running() -> Detached {
    let detached = Detached { room: TestEnv::new() };
    let run = |goal: &str, script: &str, more: &[&str]| {
        let model = detached.room.script(script);
        let mut args = vec!["run", goal, "--yes", "--model", &model];
        args.extend(more);
        detached.room.ok(&args);
    };
    run("write the docs", DONE, &["--team", "old"]);
    run("mend the parser", WORKING, &["--team", "work", "--detach"]);
    detached
}

/// Replaces the times of day, and the ids of archives.
fn redacted(room: &TestEnv, text: &str) -> String {
    let text = room.redacted(text);
    Regex::new(r"-\d{8}T\d{6}Z-[0-9a-f]{8}").unwrap().replace_all(&text, "-[id]").into_owned()
}

/// Types a text without Enter.
fn search(displays: &Displays<'_>, text: &str) {
    displays.tmux(&["send-keys", "-t", "one", "-l", text]);
}

#[test]
fn without_a_terminal_the_teams_are_listed_by_repository() {
    let empty = TestEnv::new();
    assert_eq!(
        empty.ok(&["resume"]).stdout,
        "no team runs or can be resumed; `pitcrew run \"GOAL\"` starts one\n"
    );
    let detached = finished_and_running();
    let room = &detached.room;
    assert_snapshot!(redacted(room, &room.ok(&["resume"]).stdout), @"
    ~/work (this repository)
    TEAM  END        LAST        TASKS   COST  ID                             GOAL
    work  running    [date]  0 of 0  -     work                           mend the parser
    old   completed  [date]  0 of 0  -     old-[id]  write the docs

    `pitcrew resume ID` goes on with one
    ");
    let elsewhere = room.command(&["resume"]).current_dir(room.temporary()).output().unwrap();
    let elsewhere = Ran::of(elsewhere).stdout;
    assert!(!elsewhere.contains("this repository") && elsewhere.contains("work"), "{elsewhere}");
    let running = room.ok(&["resume", "--running"]).stdout;
    assert!(
        running.contains("mend the parser") && !running.contains("write the docs"),
        "{running}"
    );
}

#[test]
fn the_list_as_json_has_the_command_that_goes_on_with_each_team() {
    let detached = finished_and_running();
    let listed = detached.room.json(&["resume"]);
    let of = |field: &str| -> Vec<Value> {
        listed["teams"].as_array().unwrap().iter().map(|team| team[field].clone()).collect()
    };
    assert_eq!(of("team"), ["work", "old"], "{listed:#}");
    assert_eq!(of("is_running"), [true, false]);
    assert_eq!(of("is_archived"), [false, true]);
    assert_eq!(of("goal"), ["mend the parser", "write the docs"]);
    let archived = of("id")[1].as_str().unwrap().to_owned();
    assert_eq!(
        of("command"),
        [json!("pitcrew attach work"), json!(format!("pitcrew run --resume {archived}"))]
    );
    assert_eq!((&listed["total"], &listed["unreadable"]), (&2.into(), &0.into()));
}

#[test]
fn a_named_team_is_resumed_and_an_unknown_one_is_an_error_with_the_known_names() {
    let room = TestEnv::new();
    let model = room.script(DONE);
    room.ok(&["run", "go", "--team", "old", "--model", &model]);
    let resumed = room.ok(&["resume", "old"]);
    assert_eq!(resumed.stdout, "All is done.\n", "{resumed:?}");
    assert_eq!(room.json(&["history"])["runs"][0]["runs"], 2);
    assert_snapshot!(redacted(&room, &room.transcript(&[&["resume", "odl"]])), @"
    $ pitcrew resume odl
    error: Team 'odl' does not exist
    hint: teams: none
    [exit 3]
    ");
}

#[test]
fn on_a_terminal_a_team_is_searched_and_attached_to() {
    let detached = finished_and_running();
    let Some(displays) = Displays::of(&detached.room) else { return };
    displays.start("one", SMALL, "resume");
    let shown = displays.shows("one", "Enter chooses");
    assert_snapshot!(redacted(&detached.room, &shown), @"
    teams to go on with (2 of 2) ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    type to search, Enter chooses, Esc leaves
    ~/work (this repository)
    > work  running       [date]  0 of 0 tasks   mend the parser
      old   completed     [date]  0 of 0 tasks   write the docs
    ");
    search(&displays, "docs");
    let found = displays.shows("one", "(1 of 2)");
    assert!(!found.contains("mend the parser"), "{found}");
    displays.key("one", "Escape");
    displays.shows("one", "(2 of 2)");
    search(&displays, "parser");
    displays.shows("one", "(1 of 2)");
    displays.key("one", "Enter");
    displays.shows("one", "sleep 600");
    detached.room.ok(&["shutdown", "work", "--force"]);
    detached.until_no_host();
}

#[test]
fn on_a_terminal_a_team_whose_work_is_done_goes_on_with_the_next_message() {
    let detached = Detached { room: TestEnv::new() };
    let model = detached.room.script(DONE_THEN_WORKING);
    detached.room.ok(&["run", "go", "--team", "old", "--model", &model]);
    let Some(displays) = Displays::of(&detached.room) else { return };
    displays.start("one", SMALL, "resume");
    displays.shows("one", "Enter chooses");
    displays.key("one", "Enter");
    let offered = displays.shows("one", "Team old is completed and in the archive.");
    assert!(offered.starts_with(" pitcrew old\n"), "{offered}");
    assert_eq!(hosts(&detached.room), [0_u32; 0], "nothing runs before the message");
    displays.types("one", "look again");
    displays.shows("one", "sleep 600");
    let team = detached.room.json(&["resume"])["teams"][0].clone();
    assert_eq!((&team["team"], &team["is_archived"]), (&"old".into(), &false.into()));
    assert_eq!((&team["is_running"], &team["runs"]), (&true.into(), &2.into()));
}

#[test]
fn attach_lists_the_teams_that_run_if_there_are_several() {
    let detached = finished_and_running();
    let model = detached.room.script(WORKING);
    let second = ["run", "port it", "--yes", "--detach", "--team", "second", "--model", &model];
    detached.room.ok(&second);
    let Some(displays) = Displays::of(&detached.room) else { return };
    displays.start("one", SMALL, "attach");
    let listed = displays.shows("one", "(2 of 2)");
    assert!(listed.contains("teams that run") && !listed.contains("write the docs"), "{listed}");
    search(&displays, "mend");
    displays.shows("one", "(1 of 2)");
    displays.key("one", "Enter");
    displays.shows("one", "sleep 600");
    displays.shows("one", "work");
}

#[test]
fn leaving_the_list_changes_nothing_and_restores_the_terminal() {
    let detached = finished_and_running();
    let Some(displays) = Displays::of(&detached.room) else { return };
    for (name, key) in [("one", "Escape"), ("two", "C-c")] {
        displays.start(name, SMALL, "resume");
        displays.shows(name, "Enter chooses");
        displays.key(name, key);
        assert_eq!(displays.code(name), "0");
        assert_eq!(displays.screen(name), "", "the list was on the second screen");
    }
    assert_eq!(hosts(&detached.room).len(), 1);
}
