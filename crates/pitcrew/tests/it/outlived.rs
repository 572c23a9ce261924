//! A teammate's process continues after its lead has ended. It must obey the permissions of the
//! next run, and never the permissions of the earlier run.

use std::fs;
use std::process::{Child, Stdio};

use crate::terminal::{GOODBYE, Terminal, ended};

/// The script of a teammate that waits for a message and then runs a command.
fn obedient() -> String {
    format!(
        r#"
agents:
  team-lead:
    - tools: [{{name: Task, input: {{name: bob, description: Wait, prompt: Wait for the word.}}}}]
    - wait_for: {{contains: my part is done, from: message}}
    - tools: [{{name: SendMessage, input: {{type: shutdown_request, recipient: bob}}}}]
    - wait_for: {{contains: teammate_terminated, from: message}}
    - text: All is done.
  bob:
    - tools: [{{name: Bash, input: {{command: touch waiting}}}}]
    - text: I wait.
    - wait_for: {{contains: The word}}
    - tools: [{{name: Bash, input: {{command: touch made}}}}]
    - tools: [{{name: SendMessage, input: {{type: message, recipient: team-lead, content: my part is done, summary: done}}}}]{GOODBYE}
"#
    )
}

/// Starts the team with `flags`. When bob waits, kills the lead and sends bob the message. Returns
/// the id of bob's process.
fn orphaned(flags: &[&str]) -> Option<(Terminal, u32)> {
    let terminal = Terminal::new()?;
    let model = terminal.room.script(&obedient());
    let mut run = begun(
        &terminal,
        &[&["run", "go", "--team", "work", "--model", &model, "--teammate-mode", "tmux"], flags]
            .concat(),
    );
    terminal.until("bob waits", || terminal.room.work().join("waiting").exists().then_some(()));
    let is_idle = |entry: &serde_json::Value| entry["member"] == "bob" && entry["state"] == "idle";
    terminal.until("bob is idle", || terminal.journal().iter().any(is_idle).then_some(()));
    run.kill().unwrap();
    run.wait().unwrap();
    let bob = terminal.teammates();
    assert_eq!(bob.len(), 1);
    let sent = ended(begun(&terminal, &["send", "bob", "The word: go."]));
    assert_eq!(sent.code, 0, "{sent:?}");
    Some((terminal, bob[0]))
}

fn begun(terminal: &Terminal, args: &[&str]) -> Child {
    terminal
        .command(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Resumes the team with `flags` and waits until the team is done. Returns whether bob's command
/// ran, whether a new process was started for bob, and the output.
fn resumed(terminal: &Terminal, bob: u32, flags: &[&str]) -> (bool, bool, String) {
    let ran = ended(begun(terminal, &[&["run", "--resume", "work"], flags].concat()));
    assert_eq!((ran.code, ran.stdout.trim()), (0, "All is done."), "{flags:?}: {ran:?}");
    terminal.check_nobody_is_left();
    let starts = terminal.journal();
    let is_other = |entry: &serde_json::Value| {
        entry["event"] == "started" && entry["member"] == "bob" && entry["pid"] != u64::from(bob)
    };
    (terminal.room.work().join("made").exists(), starts.iter().any(is_other), ran.stderr)
}

fn check_is_held(before: &[&str], after: &[&str]) {
    let Some((terminal, bob)) = orphaned(before) else { return };
    let (made, anew, said) = resumed(&terminal, bob, after);
    assert!(!made, "{before:?}, then {after:?}: bob's command was run: {said}");
    assert!(anew, "{before:?}, then {after:?}: {said}");
    assert!(said.contains("bob outlived the run before"), "{said}");
}

#[test]
fn a_rule_that_is_not_given_again_holds_in_no_process_of_the_run_before() {
    check_is_held(&["--allow", "Bash"], &[]);
}

#[test]
fn a_rule_that_is_new_holds_in_every_process_of_the_run_before() {
    check_is_held(&["--allow", "Bash"], &["--allow", "Bash", "--deny", "Bash(touch made)"]);
}

#[test]
fn nobody_acts_in_a_mode_of_the_run_before_not_even_on_mail_that_waits() {
    let Some((terminal, bob)) = orphaned(&["--permission-mode", "bypassPermissions"]) else {
        return;
    };
    let (made, anew, said) = resumed(&terminal, bob, &[]);
    assert!(!made, "bob's command was run: {said}");
    // Bob's old process may still have commands that it started in the earlier permission mode.
    // These commands end only when that process ends, so the run must start a new process for bob.
    assert!(anew, "{said}");
}

#[test]
fn under_the_same_rules_it_goes_on_where_it_stands() {
    let Some((terminal, bob)) = orphaned(&["--allow", "Bash", "--deny", "Read(./key)"]) else {
        return;
    };
    let (made, anew, said) = resumed(&terminal, bob, &["--allow", "Bash"]);
    assert!(made && !anew, "{said}");
}

#[test]
fn what_the_users_settings_forbid_since_then_is_forbidden() {
    let Some((terminal, bob)) = orphaned(&["--allow", "Bash"]) else { return };
    fs::write(
        terminal.room.root().join("settings.json"),
        r#"{"permissions": {"deny": ["Bash(touch made)"]}}"#,
    )
    .unwrap();
    let (made, anew, said) = resumed(&terminal, bob, &["--allow", "Bash"]);
    assert!(!made && anew, "{said}");
}

#[test]
fn a_command_that_was_left_running_in_a_mode_of_the_run_before_ends_with_that_mode() {
    let Some(terminal) = Terminal::new() else { return };
    let model = terminal.room.script(
        r"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: Wait, prompt: Wait for the word.}}]
    - wait_for: {contains: nobody says so}
  bob:
    - tools: [{name: Bash, input: {command: 'echo $$ > running; exec sleep 1000', run_in_background: true}}]
    - text: I wait.
",
    );
    let free = ["--teammate-mode", "tmux", "--permission-mode", "bypassPermissions"];
    let mut run = begun(
        &terminal,
        &[&["run", "go", "--team", "work", "--model", &model], &free[..]].concat(),
    );
    let is_idle = |entry: &serde_json::Value| entry["member"] == "bob" && entry["state"] == "idle";
    terminal.until("bob is idle", || terminal.journal().iter().any(is_idle).then_some(()));
    let file = terminal.room.work().join("running");
    let command = terminal
        .until("the command runs", || fs::read_to_string(&file).ok()?.trim().parse::<u32>().ok());
    run.kill().unwrap();
    run.wait().unwrap();
    let mut run = begun(&terminal, &["run", "--resume", "work"]);
    let is_gone = || !std::path::Path::new(&format!("/proc/{command}")).exists();
    terminal.until("the command is ended", || is_gone().then_some(()));
    let stopped = ended(begun(&terminal, &["shutdown", "--force", "--team", "work"]));
    assert_eq!(stopped.code, 0, "{stopped:?}");
    run.wait().unwrap();
}

#[test]
fn a_kind_of_agent_that_has_fewer_tools_since_then_has_fewer_tools() {
    let Some(terminal) = Terminal::new() else { return };
    let agents = terminal.room.root().join("agents");
    fs::create_dir_all(&agents).unwrap();
    let define = |tools: &str| {
        fs::write(
            agents.join("hand.md"),
            format!("---\nname: hand\ndescription: d\ntools: {tools}\n---\nWork.\n"),
        )
    };
    define("Bash, Read").unwrap();
    let script = obedient().replace("{name: bob,", "{name: bob, subagent_type: hand,");
    let model = terminal.room.script(&script);
    let allow = ["--teammate-mode", "tmux", "--allow", "Bash"];
    let mut run = begun(
        &terminal,
        &[&["run", "go", "--team", "work", "--model", &model], &allow[..]].concat(),
    );
    let is_idle = |entry: &serde_json::Value| entry["member"] == "bob" && entry["state"] == "idle";
    terminal.until("bob is idle", || terminal.journal().iter().any(is_idle).then_some(()));
    run.kill().unwrap();
    run.wait().unwrap();
    let bob = terminal.teammates();
    define("Read").unwrap();
    assert_eq!(ended(begun(&terminal, &["send", "bob", "The word: go."])).code, 0);
    let (made, anew, said) = resumed(&terminal, bob[0], &["--allow", "Bash"]);
    assert!(!made && anew, "{said}");
}
