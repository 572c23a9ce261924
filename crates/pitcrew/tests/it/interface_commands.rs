//! Commands of the terminal interface that reach the host and the file system, on a real terminal.

use std::fs;

use crate::attach::Displays;
use crate::detached::Detached;
use crate::patience;
use crate::test_env::TestEnv;

const SIZE: (u16, u16) = (100, 30);

/// The script of a lead whose first call needs a permission, and that then waits. Teammates wait.
const SCRIPT: &str = "
agents:
  team-lead:
    - tools: [{name: Bash, input: {command: touch one}}]
    - text: One is touched.
      tools: [{name: Bash, input: {command: sleep 600}}]
  ann:
    - text: I am ann.
    - wait_for: {contains: never}
";

/// Whether the terminal of a display reports the mouse.
fn reports_mouse(displays: &Displays<'_>, name: &str) -> bool {
    displays.tmux(&["display", "-p", "-t", name, "#{mouse_standard_flag}"]).trim() == "1"
}

#[test]
fn a_person_grants_a_permission_sees_it_adds_a_teammate_and_exports_the_conversation() {
    let detached = Detached { room: TestEnv::new() };
    let Some(displays) = Displays::of(&detached.room) else { return };
    let model = detached.room.script(SCRIPT);
    let start = format!("start --team work --allow \"Bash(sleep:*)\" --model {model} \"touch it\"");
    displays.start("one", SIZE, &start);
    displays.until("one", "the question", |it| it.contains("asks permission for Bash"));
    displays.answers("one", "a", "asks permission for Bash");
    displays.shows("one", "One is touched.");
    displays.types("one", "/permissions");
    let page = displays.shows("one", "taken in this run");
    assert!(page.contains("Bash(sleep:*)  (command-line settings)"), "{page}");
    assert!(page.contains("Bash(touch one)  (every agent)"), "{page}");
    displays.types("one", "/spawn ann wait for word");
    displays.shows("one", "ann (general-purpose) works for the team");
    displays.types("one", "/pane ann");
    displays.shows("one", "the pane of ann is not shown: ann is not in a pane of this run");
    displays.types("one", "/export");
    displays.shows("one", "written to");
    let file = detached.room.work().join("pitcrew-work-team-lead.md");
    let text = patience::until(
        "it is written",
        || fs::read_to_string(&file).ok(),
        || displays.screen("one"),
    );
    assert!(text.contains("> One is touched."), "{text}");
    displays.types("one", "/export");
    displays.shows("one", "pitcrew-work-team-lead-2.md");
    displays.types("one", "/stop ann");
    displays.shows("one", "ann is asked to leave");
    // The lead's command ends with the run. A killed host would leave it.
    detached.room.run(&["shutdown", "work", "--force"]);
    detached.until_no_host();
}

#[test]
fn another_team_is_opened_from_within_and_the_first_one_goes_on() {
    let detached = Detached { room: TestEnv::new() };
    let Some(displays) = Displays::of(&detached.room) else { return };
    let model = detached.room.script(SCRIPT);
    let run = |team: &str| {
        let words = ["run", "touch it", "--team", team, "--model", &model, "--detach"];
        detached.room.json(&words);
    };
    run("work");
    run("other");
    displays.start("one", SIZE, "attach work");
    displays.until("one", "the question", |it| it.contains("asks permission for Bash"));
    displays.types("one", "/resume");
    let list = displays.shows("one", "teams to go on with (1 of 1)");
    assert!(list.contains("> other"), "{list}");
    displays.key("one", "Enter");
    displays.until("one", "the other team", |it| it.contains("pitcrew other"));
    let teams = detached.room.json(&["resume", "--running"]);
    assert_eq!(teams["total"], 2, "{teams}");
}

#[test]
fn the_mouse_is_reported_only_if_it_is_switched_on_and_never_after_the_end() {
    let detached = Detached { room: TestEnv::new() };
    let Some(displays) = Displays::of(&detached.room) else { return };
    let start = format!("start --team work --model {}", detached.room.script(SCRIPT));
    displays.start("off", SIZE, &start);
    displays.shows("off", "What shall the team do?");
    assert!(!reports_mouse(&displays, "off"));
    let settings = r#"{"pitcrew": {"mouse": true}}"#;
    fs::write(detached.room.root().join("settings.json"), settings).unwrap();
    let own = env!("CARGO_BIN_EXE_pitcrew");
    let size = ["-x", "100", "-y", "30"];
    displays.tmux(&[&["new-session", "-d", "-s", "on"], &size[..], &["sh", "-i"]].concat());
    displays.types("on", &format!("{own} {start}"));
    displays.shows("on", "What shall the team do?");
    assert!(reports_mouse(&displays, "on"));
    displays.key("on", "C-z");
    displays.until("on", "the shell", |it| !it.contains("What shall the team do?"));
    assert!(!reports_mouse(&displays, "on"), "suspended");
    displays.types("on", "fg");
    displays.shows("on", "What shall the team do?");
    assert!(reports_mouse(&displays, "on"));
    displays.key("on", "C-c");
    displays.key("on", "C-c");
    displays.until("on", "the shell", |it| !it.contains("What shall the team do?"));
    assert!(!reports_mouse(&displays, "on"), "left");
}
