//! Tests in which version 2.1.332 of the reference client leads a session. In some tests, a pitcrew
//! teammate joins the session. In the other tests, the client itself starts a pitcrew teammate
//! instead of a teammate in the client.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::script::{Script, calls, once_told, says, sends};
use super::stage::{Client, Stage};

fn spawn(name: &str) -> Value {
    calls(
        "Task",
        json!({"description": "a teammate", "prompt": format!("ROLE:{name} go"), "subagent_type": "general-purpose",
               "name": name}),
    )
}

/// The model's turns for a lead that first spawns a teammate, because a lead without a teammate
/// does not read its inbox.
fn lead(turns: impl IntoIterator<Item = Value>) -> Vec<Value> {
    [spawn("worker"), says("spawned")].into_iter().chain(turns).collect()
}

#[test]
fn a_teammate_of_ours_works_in_a_session_of_today_and_nothing_that_is_written_is_new() {
    let script = Script::default()
        .role(
            "lead",
            lead([
                once_told("I have joined", says("welcome")),
                once_told("it is made", says("well done")),
            ]),
        )
        .role("worker", [says("nothing to do")])
        .role(
            "joiner",
            [
                sends("team-lead", "I have joined", "joined"),
                calls(
                    "Bash",
                    json!({"command": "echo mine > made.txt", "description": "make a file"}),
                ),
                sends("team-lead", "it is made", "made"),
            ],
        );
    let Some(stage) = Stage::set(Client::Today, &script) else { return };
    let lead = stage.client_leads();
    stage.shown(&lead, "spawned");
    stage.entry("worker");
    let team = stage.team();
    stage.pane(&[
        "pitcrew",
        "join",
        &team,
        "--as",
        "joiner",
        "--append-system-prompt",
        "ROLE:joiner",
        "--model",
        "anthropic/claude-sonnet-5-5",
    ]);
    let answered =
        || stage.kept("joiner").into_iter().find(|text| text.contains("permission_response"));
    stage.answer(&lead, "echo mine > made.txt", "Enter", answered);
    stage.told("lead", "it is made");
    assert_eq!(fs::read_to_string(stage.work().join("made.txt")).unwrap(), "mine\n");

    stage.record("claude-2.1.332/session-team");

    // The client runs the teammate `worker` of its session in a pane. pitcrew must find the process
    // of `worker`, and therefore must show `worker` as running.
    let shown = stage.pitcrew(&["--json", "team", "show", &team]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let of = |name: &str| {
        shown["runs"].as_array().unwrap().iter().find(|it| it["name"] == name).cloned().unwrap()
    };
    assert_eq!(
        (&of("worker")["state"], &of("joiner")["state"]),
        (&json!("running"), &json!("running")),
        "{shown}"
    );

    let compared = stage.pitcrew(&["doctor", "--reference"]);
    assert_eq!(compared.code, 0, "{}", compared.stdout);
    assert!(
        compared
            .stdout
            .starts_with("claude 2.1.332, which was recorded\nnothing new in 1 config, "),
        "{}",
        compared.stdout
    );
}

#[test]
fn a_session_starts_ours_as_its_own_teammate() {
    let script = Script::default()
        .role("lead", lead([once_told("I am of pitcrew", says("welcome"))]))
        .role("worker", [sends("team-lead", "I am of pitcrew", "hello"), says("over")]);
    let Some(stage) = Stage::set(Client::Today, &script) else { return };
    let program = stage.work().join("teammate");
    fs::write(&program, "#!/bin/sh\nexec pitcrew agent \"$@\"\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    stage.client_leads_with(&[("CLAUDE_CODE_TEAMMATE_COMMAND", program.to_str().unwrap())]);
    stage.told("lead", "I am of pitcrew");
    assert!(stage.was_told("worker", "ROLE:worker go"));
    let shown = stage.pitcrew(&["--json", "team", "show", &stage.team()]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let worker =
        shown["runs"].as_array().unwrap().iter().find(|it| it["name"] == "worker").unwrap();
    assert_eq!(
        (&worker["program"], &worker["state"]),
        (&json!("pitcrew"), &json!("running")),
        "{shown}"
    );
}
