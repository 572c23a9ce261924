//! A resumed run keeps the restrictions of the earlier run: permission rules, permission mode,
//! limits, sandbox, and the place where teammates run.

use std::fs;
use std::process::Stdio;

use serde_json::json;

use crate::running::Running;
use crate::terminal::{GOODBYE, Terminal, ended};
use crate::test_env::{Ran, TestEnv};

/// The script of a lead that stops while a task is open. In its next run, the lead makes a file
/// before it completes the task.
const LATER: &str = "
agents:
  team-lead:
    - tools: [{name: TaskCreate, input: {subject: Do it, description: All of it}}]
    - text: It is done.
    - text: It is done, as I said.
    - wait_for: {contains: Really}
    - tools: [{name: Bash, input: {command: touch made}}]
    - tools: [{name: TaskUpdate, input: {taskId: '1', status: completed}}]
    - text: Now it is.
";

/// A test environment in which the first run of the team `work` has ended while its task is open.
/// The user's settings allow every command.
fn stopped(flags: &[&str]) -> TestEnv {
    let room = TestEnv::new();
    fs::write(room.root().join("settings.json"), r#"{"permissions": {"allow": ["Bash"]}}"#)
        .unwrap();
    let model = room.script(LATER);
    let mut args = vec!["run", "do it", "--team", "work", "--model", &model];
    args.extend(flags);
    let ran = room.run(&args);
    assert_eq!(ran.code, 8, "{flags:?}: {ran:?}");
    room
}

fn resumed(room: &TestEnv, flags: &[&str]) -> Ran {
    let mut args = vec!["run", "--resume", "work", "Really?"];
    args.extend(flags);
    room.run(&args)
}

fn made(room: &TestEnv) -> bool {
    room.work().join("made").exists()
}

#[test]
fn what_forbade_a_command_forbids_it_after_a_resume_too_and_the_first_lines_say_so() {
    let settings = r#"{"permissions": {"deny": ["Bash(touch:*)"]}}"#;
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), settings).unwrap();
    for (flags, said) in [
        (&["--deny", "Bash(touch:*)"][..], "--deny 'Bash(touch:*)'"),
        (&["--permission-mode", "plan"], "--permission-mode plan"),
        (&["--permission-mode", "delegate"], "--permission-mode delegate"),
        (&["--settings", file.path().to_str().unwrap()], "--deny 'Bash(touch:*)'"),
    ] {
        let room = stopped(flags);
        let ran = resumed(&room, &[]);
        assert!(!made(&room), "{flags:?}: {ran:?}");
        let first = ran
            .stderr
            .lines()
            .find(|line| line.starts_with("from the run before: "))
            .unwrap_or_default();
        assert!(first.contains(said), "{flags:?}: {ran:?}");
    }
}

#[test]
fn a_third_run_keeps_to_the_bounds_of_the_first() {
    let room = stopped(&["--deny", "Bash(touch:*)"]);
    room.run(&["run", "--resume", "work", "Not yet."]);
    let ran = resumed(&room, &[]);
    assert!(!made(&room) && ran.stderr.contains("--deny 'Bash(touch:*)'"), "{ran:?}");
}

#[test]
fn a_new_bound_replaces_the_earlier_one_of_its_kind() {
    let room = stopped(&["--deny", "Bash(touch:*)", "--permission-mode", "plan"]);
    let ran = resumed(&room, &["--deny", "Bash(rm:*)", "--permission-mode", "default"]);
    assert!(made(&room), "{ran:?}");
    assert!(!ran.stderr.contains("from the run before: "), "{ran:?}");
    assert!(ran.stderr.contains("the run before had --deny 'Bash(touch:*)'"), "{ran:?}");
}

#[test]
fn what_freed_a_run_has_to_be_given_again() {
    for flags in [
        &["--permission-mode", "bypassPermissions"][..],
        &["--permission-mode", "acceptEdits"],
        &["--allow", "Bash(touch:*)"],
        &["--yes"],
    ] {
        let room = stopped(flags);
        fs::write(room.root().join("settings.json"), "{}").unwrap();
        let ran = resumed(&room, &[]);
        assert!(!made(&room), "{flags:?}: {ran:?}");
        assert!(ran.stderr.contains("is no longer in effect"), "{flags:?}: {ran:?}");
        assert!(ran.stderr.contains(flags[0]), "{flags:?}: {ran:?}");
    }
}

#[test]
fn a_freer_mode_of_the_settings_gives_way_to_that_of_the_run_before() {
    let room = stopped(&["--permission-mode", "default"]);
    fs::write(
        room.root().join("settings.json"),
        r#"{"permissions": {"defaultMode": "bypassPermissions"}}"#,
    )
    .unwrap();
    let ran = resumed(&room, &[]);
    assert!(!made(&room) && ran.stderr.contains("--permission-mode default"), "{ran:?}");
}

#[test]
fn a_limit_that_is_used_up_ends_a_resume_and_names_the_flag_that_raises_it() {
    let room = stopped(&["--max-turns", "3"]);
    let ran = resumed(&room, &[]);
    assert_eq!(ran.code, 7, "{ran:?}");
    assert!(!made(&room) && ran.stderr.contains("--max-turns"), "{ran:?}");
    let raised = resumed(&room, &["--max-turns", "20"]);
    assert!(raised.code == 0 && made(&room), "{raised:?}");
}

#[test]
fn teammates_stay_where_the_run_before_put_them_and_on_its_model() {
    let other = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    fs::write(other.path(), LATER).unwrap();
    let model = format!("script:{}", other.path().display());
    let room = stopped(&["--teammate-model", &model, "--teammate-mode", "in-process"]);
    let ran = resumed(&room, &[]);
    let said =
        format!("from the run before: --teammate-model {model} --teammate-mode in-process\n");
    assert!(ran.code == 0 && ran.stderr.contains(&said), "{ran:?}");
}

#[test]
fn teammates_stay_in_the_panes_that_the_run_before_was_given_and_each_resume_says_so() {
    let room = stopped(&["--teammate-mode", "tmux"]);
    let record = || room.json_file("teams/work/pitcrew/bounds.json")["teammateMode"].clone();
    assert_eq!(record(), "tmux");
    for _ in 0..2 {
        let ran = resumed(&room, &["--max-turns", "1"]);
        assert!(ran.stderr.contains("from the run before: --teammate-mode tmux\n"), "{ran:?}");
        assert_eq!(record(), "tmux");
    }
    let ran = resumed(&room, &["--max-turns", "1", "--teammate-mode", "in-process"]);
    assert!(ran.stderr.contains("the run before had --teammate-mode tmux"), "{ran:?}");
}

#[test]
fn a_refused_resume_prints_its_error_first_and_the_options_only_if_they_can_be_the_reason() {
    let room = TestEnv::new();
    let model = room.script("agents: {team-lead: [{delay_ms: 600000, text: I have waited.}]}");
    let args = ["run", "go", "--team", "work", "--model", &model, "--deny", "Bash(touch:*)"];
    let mut run = Running::start(&room, &args);
    run.until("team work starts");
    let refused = room.run(&["run", "--resume", "work"]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.stderr.starts_with("error: "), "{refused:?}");
    assert!(!refused.stderr.contains("from the run before"), "{refused:?}");
    run.kill();
    let refused = room.run(&["run", "--resume", "work", "--model", "nonsense"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.starts_with("error: "), "{refused:?}");
    assert!(
        refused.stderr.contains("hint: from the run before: --deny 'Bash(touch:*)'"),
        "{refused:?}"
    );
}

#[test]
fn a_sandbox_stays_around_the_commands_of_a_run_that_goes_on() {
    let room = TestEnv::new();
    let model = room.script(LATER);
    let ran = room.run(&["run", "do it", "--team", "work", "--model", &model, "--sandbox"]);
    if ran.stderr.contains("the sandbox for commands does not work here") {
        eprintln!("skipped: {}", ran.stderr);
        return;
    }
    assert_eq!(ran.code, 8, "{ran:?}");
    let ran = resumed(&room, &[]);
    assert!(ran.stderr.contains("from the run before: --sandbox\n"), "{ran:?}");
    assert!(made(&room), "the command runs unasked inside of it: {ran:?}");
}

#[test]
fn a_record_of_bounds_can_free_nothing() {
    let room = stopped(&["--permission-mode", "default"]);
    fs::write(room.root().join("settings.json"), "{}").unwrap();
    let forged = json!({
        "version": 1, "mode": "bypassPermissions", "allow": ["Bash"], "permissions": {"allow": ["Bash"]},
        "deny": ["Bash(rm:*)"], "maxTurns": 99,
    });
    fs::write(room.root().join("teams/work/pitcrew/bounds.json"), forged.to_string()).unwrap();
    let ran = resumed(&room, &[]);
    assert!(!made(&room), "{ran:?}");
    assert!(ran.stderr.contains("--deny 'Bash(rm:*)'"), "{ran:?}");
}

#[test]
fn a_record_of_bounds_that_cannot_be_read_keeps_the_team_from_running_unbounded() {
    let room = stopped(&["--deny", "Bash(touch:*)"]);
    let record = room.root().join("teams/work/pitcrew/bounds.json");
    assert!(record.exists());
    fs::write(&record, "{\"version\": 1, \"deny\": [\"Bas").unwrap();
    let ran = resumed(&room, &[]);
    assert_eq!(ran.code, 70, "{ran:?}");
    assert!(!made(&room), "{ran:?}");
}

/// The script of a lead and its teammate bob, which stop while a task is open. In the next run, bob
/// tries to make a file.
fn of_two() -> String {
    format!(
        "
agents:
  team-lead:
    - tools: [{{name: TaskCreate, input: {{subject: Do it, description: All of it}}}}]
    - tools: [{{name: Task, input: {{name: bob, description: Do it, prompt: Say that you are here.}}}}]
    - wait_for: {{contains: I am here, from: message}}
    - text: Enough.
    - text: Enough, as I said.
    - wait_for: {{contains: Really}}
    - tools: [{{name: SendMessage, input: {{type: message, recipient: bob, content: Go on now., summary: go on}}}}]
    - wait_for: {{contains: I tried, from: message}}
    - tools: [{{name: TaskUpdate, input: {{taskId: '1', status: completed}}}}]
    - tools: [{{name: SendMessage, input: {{type: shutdown_request, recipient: bob}}}}]
    - wait_for: {{contains: teammate_terminated, from: message}}
    - text: Done.
  bob:
    - tools: [{{name: SendMessage, input: {{type: message, recipient: team-lead, content: I am here., summary: here}}}}]
    - text: I wait.
    - wait_for: {{contains: Go on now}}
    - tools: [{{name: Bash, input: {{command: touch made}}}}]
    - tools: [{{name: SendMessage, input: {{type: message, recipient: team-lead, content: I tried., summary: tried}}}}]{GOODBYE}"
    )
}

/// Runs the script `of_two` twice, with separate flags for each run. Returns whether bob made the
/// file in the second run, and the output of the second run.
fn of_two_resumed(terminal: &Terminal, first: &[&str], second: &[&str]) -> (bool, Ran) {
    let model = terminal.room.script(&of_two());
    let run = |args: &[&str], flags: &[&str]| {
        let all: Vec<&str> = args.iter().chain(flags).copied().collect();
        Ran::of(terminal.command(&all).output().unwrap())
    };
    let ran = run(&["run", "go", "--team", "work", "--model", &model], first);
    assert_eq!(ran.code, 8, "{first:?}: {ran:?}");
    let ran = run(&["run", "--resume", "work", "Really?"], second);
    assert_eq!((ran.code, ran.stdout.trim()), (0, "Done."), "{first:?}, {second:?}: {ran:?}");
    (terminal.room.work().join("made").exists(), ran)
}

#[test]
fn a_teammate_loses_with_a_resume_what_freed_the_run_before() {
    for place in ["in-process", "tmux"] {
        for mode in ["bypassPermissions", "acceptEdits"] {
            let Some(terminal) = Terminal::new() else { return };
            let first = ["--teammate-mode", place, "--permission-mode", mode];
            let (made, ran) = of_two_resumed(&terminal, &first, &["--teammate-mode", place]);
            assert!(!made, "{place}, {mode}: {ran:?}");
            assert!(
                ran.stderr.contains(&format!("bob worked in {mode} in the run before")),
                "{place}, {mode}: {ran:?}"
            );
        }
    }
}

/// The script of a lead that waits for a message of its teammate bob. Bob's first command waits
/// until the file `word` exists. Bob's second command makes the file `made`.
fn of_two_with_a_wait() -> String {
    format!(
        "
agents:
  team-lead:
    - tools: [{{name: Task, input: {{name: bob, description: Do it, prompt: Do it.}}}}]
    - wait_for: {{contains: I tried, from: message}}
    - tools: [{{name: SendMessage, input: {{type: shutdown_request, recipient: bob}}}}]
    - wait_for: {{contains: teammate_terminated, from: message}}
    - text: Done.
  bob:
    - tools: [{{name: Bash, input: {{command: touch begun; until test -e word; do sleep 0.05; done; touch waited}}}}]
    - tools: [{{name: Bash, input: {{command: touch made}}}}]
    - tools: [{{name: SendMessage, input: {{type: message, recipient: team-lead, content: I tried., summary: tried}}}}]{GOODBYE}"
    )
}

#[test]
fn a_teammate_in_a_pane_that_outlives_its_lead_loses_its_mode_with_the_resume_too() {
    let Some(terminal) = Terminal::new() else { return };
    let model = terminal.room.script(&of_two_with_a_wait());
    let start = |args: &[&str]| {
        let mut command = terminal.command(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mode = ["--teammate-mode", "tmux", "--permission-mode", "bypassPermissions"];
    let mut run = start(&[&["run", "go", "--team", "work", "--model", &model][..], &mode].concat());
    let has = |name: &str| terminal.room.work().join(name).exists();
    terminal.until("bob's command runs", || has("begun").then_some(()));
    run.kill().unwrap();
    run.wait().unwrap();
    let bob = terminal.teammates();
    let next = start(&["run", "--resume", "work"]);
    let is_other = |now: &Vec<u32>| now.len() == 1 && *now != bob;
    terminal.until("bob is started anew", || Some(terminal.teammates()).filter(is_other));
    fs::write(terminal.room.work().join("word"), "").unwrap();
    let ran = ended(next);
    assert_eq!((ran.code, ran.stdout.trim()), (0, "Done."), "{ran:?}");
    // Bob's first process started a command that waits for the file `word` and then makes the file
    // `waited`. That command must end together with bob's first process. The file `waited` is
    // therefore missing, although the test made the file `word`.
    assert!(!has("waited") && !has("made"), "{ran:?}");
}

#[test]
fn a_teammate_keeps_its_mode_in_a_resume_that_is_as_free() {
    for place in ["in-process", "tmux"] {
        let Some(terminal) = Terminal::new() else { return };
        let flags = ["--teammate-mode", place, "--permission-mode", "bypassPermissions"];
        let (made, ran) = of_two_resumed(&terminal, &flags, &flags);
        assert!(made && !ran.stderr.contains("in the run before"), "{place}: {ran:?}");
    }
}
