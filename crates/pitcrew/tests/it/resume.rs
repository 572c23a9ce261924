//! `pitcrew resume`: the list of the teams that run and of those that can be resumed, as a table, as
//! JSON, and on a real terminal.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use insta::assert_snapshot;
use regex::Regex;
use serde_json::{Value, json};

use crate::detached::Detached;
use crate::patience;
use crate::test_env::{Ran, TestEnv};

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

/// A terminal of a private tmux server on which one command runs.
struct Display<'a> {
    room: &'a TestEnv,
    socket: PathBuf,
}

impl Drop for Display<'_> {
    fn drop(&mut self) {
        let _either = self.tmux_command(&["kill-server"]).output();
    }
}

impl<'a> Display<'a> {
    /// Runs a command of pitcrew on a terminal with 80 columns and 24 rows. Its exit code is in the
    /// file `code` afterwards. If tmux is not installed, prints a message and returns `None`.
    fn of(room: &'a TestEnv, command: &str) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            eprintln!("skipped: tmux is not installed");
            return None;
        }
        let display = Self { room, socket: room.temporary().join("tmux") };
        let own = env!("CARGO_BIN_EXE_pitcrew");
        let shell = format!("{own} {command}; echo $? > code; exec sleep 1000");
        display.tmux(&["new-session", "-d", "-x", "80", "-y", "24", "sh", "-c", &shell]);
        Some(display)
    }

    fn tmux_command(&self, args: &[&str]) -> Command {
        let mut command = self.room.tool("tmux", &["-u", "-f", "/dev/null", "-S"]);
        command.arg(&self.socket).args(args).env("SHELL", "/bin/sh");
        command
    }

    #[track_caller]
    fn tmux(&self, args: &[&str]) -> String {
        let output = self.tmux_command(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn screen(&self) -> String {
        let screen = self.tmux(&["capture-pane", "-p"]);
        screen.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    #[track_caller]
    fn shows(&self, text: &str) -> String {
        let look = || Some(self.screen()).filter(|screen| screen.contains(text));
        patience::until(text, look, || self.screen())
    }

    fn types(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    fn key(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    #[track_caller]
    fn code(&self) -> String {
        let read = || fs::read_to_string(self.room.work().join("code")).ok();
        let whole = || read().filter(|text| text.ends_with('\n'));
        patience::until("the command ends", whole, || self.screen()).trim().to_owned()
    }
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
    assert_snapshot!(redacted(room, &room.ok(&["resume"]).stdout), @"");
    let elsewhere = room.command(&["resume"]).current_dir(room.temporary()).output().unwrap();
    let elsewhere = Ran::of(elsewhere).stdout;
    assert!(!elsewhere.contains("this repository") && elsewhere.contains("work"), "{elsewhere}");
    let running = room.ok(&["resume", "--running"]).stdout;
    assert!(running.contains("mend the parser") && !running.contains("write the docs"), "{running}");
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
    assert_snapshot!(redacted(&room, &room.transcript(&[&["resume", "odl"]])), @"");
}

#[test]
fn on_a_terminal_a_team_is_searched_and_attached_to() {
    let detached = finished_and_running();
    let Some(display) = Display::of(&detached.room, "resume") else { return };
    let shown = display.shows("Enter chooses");
    assert_snapshot!(redacted(&detached.room, &shown), @"");
    display.types("docs");
    display.shows("(1 of 2)");
    assert!(!display.screen().contains("mend the parser"), "{}", display.screen());
    display.key("Escape");
    display.shows("(2 of 2)");
    display.types("parser");
    display.shows("(1 of 2)");
    display.key("Enter");
    display.shows("team-lead");
    display.shows("Bash(sleep 600)");
    detached.room.ok(&["shutdown", "work", "--force"]);
    detached.until_no_host();
}

#[test]
fn on_a_terminal_a_team_of_the_archive_is_resumed_in_the_background() {
    let detached = Detached { room: TestEnv::new() };
    let model = detached.room.script(DONE);
    detached.room.ok(&["run", "go", "--team", "old", "--model", &model]);
    detached.room.script(WORKING);
    let Some(display) = Display::of(&detached.room, "resume") else { return };
    display.shows("Enter chooses");
    display.key("Enter");
    display.shows("team-lead");
    let listed = || detached.room.json(&["resume"])["teams"][0].clone();
    let runs = || Some(listed()).filter(|team| team["is_running"] == true);
    let team = patience::until("the team runs", runs, || display.screen());
    assert_eq!((&team["team"], &team["is_archived"]), (&"old".into(), &false.into()));
}

#[test]
fn leaving_the_list_changes_nothing_and_restores_the_terminal() {
    let detached = finished_and_running();
    for key in ["Escape", "C-c"] {
        let Some(display) = Display::of(&detached.room, "resume") else { return };
        display.shows("Enter chooses");
        display.key(key);
        assert_eq!(display.code(), "0");
        assert_eq!(display.screen(), "", "the list was on the second screen");
        fs::remove_file(detached.room.work().join("code")).unwrap();
    }
    assert_eq!(detached.room.json(&["resume"])["teams"][0]["is_running"], true);
}
