//! Tests of small details in the form of messages and files. pitcrew must write these details as
//! other clients do in recorded files, and as the founding documents of the protocol require. The
//! tests check the details in a whole run of the binary.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::terminal::{GOODBYE, Terminal, ended};
use crate::test_env::TestEnv;

/// The script of a lead with the two teammates ann and bob. Each teammate prints two environment
/// variables, sends a message to the lead, and shuts down when it is asked to. The lead makes a
/// task and assigns it to ann.
fn pair() -> String {
    let mate = |name: &str| {
        format!(
            "  {name}:
    - tools: [{{name: Bash, input: {{command: 'echo \"$CLAUDECODE $CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS\" > {name}.env'}}}}]
    - tools: [{{name: SendMessage, input: {{type: message, recipient: team-lead, content: my part is done, summary: s}}}}]{GOODBYE}
"
        )
    };
    format!(
        "
agents:
  team-lead:
    - tools: [{{name: TaskCreate, input: {{subject: s, description: d}}}}]
    - tools:
        - {{name: Task, input: {{name: ann, subagent_type: general-purpose, description: an errand, prompt: Work.}}}}
        - {{name: Task, input: {{name: bob, subagent_type: general-purpose, description: an errand, prompt: Work.}}}}
        - {{name: TaskUpdate, input: {{taskId: '1', owner: ann, status: completed}}}}
    - wait_for: {{contains: my part is done, from: message, times: 2}}
    - tools:
        - {{name: TeamDelete}}
        - {{name: SendMessage, input: {{type: shutdown_request, recipient: ann}}}}
        - {{name: SendMessage, input: {{type: shutdown_request, recipient: bob}}}}
    - wait_for: {{contains: teammate_terminated, from: message, times: 2}}
    - text: All are gone.
{}{}",
        mate("ann"),
        mate("bob")
    )
}

/// Returns the results of tool calls in an output in the format `stream-json`.
fn results(stdout: &str) -> Vec<Value> {
    let lines = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter_map(|line| line.get("tool_use_result").cloned()).collect()
}

fn spawned(results: &[Value]) -> Vec<&Value> {
    results.iter().filter(|result| result["status"] == "teammate_spawned").collect()
}

#[test]
fn a_run_in_panes_has_the_recorded_forms_of_messages_frames_and_places() {
    let Some(terminal) = Terminal::new() else { return };
    let ran = ended(terminal.start(&pair(), &["--output-format", "stream-json"]));
    assert_eq!(ran.code, 0, "{ran:?}");
    let results = results(&ran.stdout);
    let place =
        |it: &&Value| json!([it["tmux_session_name"], it["tmux_window_name"], it["is_splitpane"]]);
    let places: Vec<Value> = spawned(&results).iter().map(place).collect();
    assert_eq!(places, [json!(["pitcrew", "work", false]), json!(["pitcrew", "work", true])]);
    let deletion =
        results.iter().find(|it| it["success"] == false).unwrap()["message"].as_str().unwrap();
    let recorded =
        "active member(s): ann, bob. Use requestShutdown to gracefully terminate teammates first. ";
    assert!(deletion.contains(recorded), "{deletion}");
    for name in ["ann", "bob"] {
        let env = fs::read_to_string(terminal.room.work().join(format!("{name}.env"))).unwrap();
        assert_eq!(env, "1 1\n", "{name}");
        let inbox = terminal.room.json_file(&format!("teams/work/inboxes/{name}.json"));
        assert_eq!(
            (&inbox[0]["text"], inbox[0].get("summary")),
            (&json!("Work."), None),
            "{inbox:#}"
        );
    }
    let mut kinds = Vec::new();
    for name in ["ann", "bob", "team-lead"] {
        let inbox = terminal.room.json_file(&format!("teams/work/inboxes/{name}.json"));
        for message in inbox.as_array().unwrap() {
            let Ok(frame) = serde_json::from_str::<Value>(message["text"].as_str().unwrap()) else {
                continue;
            };
            // A frame is a message whose text is a JSON object. Frames about permissions have no
            // timestamp, so they are skipped.
            let Some(made_at) = frame.get("timestamp") else { continue };
            assert_eq!(made_at, &message["timestamp"], "{message:#}");
            kinds.push(frame["type"].as_str().unwrap().to_owned());
        }
    }
    kinds.sort();
    kinds.dedup();
    assert_eq!(
        kinds,
        ["idle_notification", "shutdown_approved", "shutdown_request", "task_assignment"]
    );
    let sent = fs::read_to_string(terminal.room.find("teams/work/pitcrew/transcripts/ann.ndjson"))
        .unwrap();
    assert!(
        sent.contains(r#"\"target\": \"@team-lead\",\n    \"targetColor\": \"red\""#),
        "{sent}"
    );
}

#[test]
fn a_pane_beside_the_lead_is_a_split_pane_and_its_window_has_a_name() {
    let Some(terminal) = Terminal::new() else { return };
    terminal.tmux(&["rename-window", "-t", &terminal.theirs, "desk"]);
    let server = terminal.tmux(&["display-message", "-p", "#{socket_path},#{pid},0"]);
    let mut run = terminal.run_in("tmux", &pair(), &["--output-format", "stream-json"]);
    run.env("TMUX", server).env("TMUX_PANE", &terminal.theirs);
    let run =
        run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let ran = ended(run);
    assert_eq!(ran.code, 0, "{ran:?}");
    let results = results(&ran.stdout);
    for it in spawned(&results) {
        let place = (&it["tmux_session_name"], &it["tmux_window_name"], &it["is_splitpane"]);
        assert_eq!(place, (&json!("mine"), &json!("desk"), &json!(true)), "{it:#}");
    }
    assert_eq!(spawned(&results).len(), 2, "{results:#?}");
}

const FAILING: &str = "
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, subagent_type: general-purpose, description: d, prompt: Work.}}]
    - wait_for: {contains: teammate_terminated, from: message}
    - text: bob is gone.
    - text: bob is gone, as I said.
  bob:
    - {capture: {z: {regex: 'no(match)'}}, text: '${z}'}
";

#[track_caller]
fn is_told_once(room: &TestEnv) {
    let transcript =
        fs::read_to_string(room.find("teams/work/pitcrew/transcripts/team-lead.ndjson")).unwrap();
    let count = |text: &str| transcript.matches(text).count();
    assert_eq!(
        (count("<status>failed</status>"), count("bob has failed.")),
        (1, 1),
        "{transcript}"
    );
}

#[test]
fn a_lead_learns_once_why_a_teammate_failed_here_and_in_a_pane() {
    let room = TestEnv::new();
    let model = room.script(FAILING);
    let ran = room.run(&["run", "go", "--team", "work", "--model", &model]);
    assert!(ran.stdout.contains("bob is gone"), "{ran:?}");
    is_told_once(&room);
    let Some(terminal) = Terminal::new() else { return };
    let ran = ended(terminal.start(FAILING, &[]));
    assert!(ran.stdout.contains("bob is gone"), "{ran:?}");
    is_told_once(&terminal.room);
}

#[test]
fn an_empty_summary_is_refused() {
    let room = TestEnv::with_crew();
    let refused = room.run(&["send", "bob", "hello", "--summary", " "]);
    assert_eq!(
        (refused.code, refused.stderr.contains("summary is empty")),
        (2, true),
        "{refused:?}"
    );
    assert_eq!(room.json(&["inbox", "bob"])["total"], 0);
}

#[test]
fn task_files_in_the_form_of_the_api_reference_are_read_and_kept_up_to_date() {
    let room = TestEnv::with_crew();
    let folder = room.root().join("tasks/crew");
    let task = |id: &str, status: &str, blocked_by: &[&str]| {
        let task = json!({
            "taskId": id, "subject": "s", "description": "d", "status": status, "owner": null,
            "created_at": "2026-02-11T14:30:00Z", "updated_at": "2026-02-11T14:35:00Z", "blockedBy": blocked_by,
            "blocks": [], "metadata": {},
        });
        fs::write(folder.join(format!("{id}.json")), task.to_string()).unwrap();
    };
    task("1", "pending", &["2"]);
    task("2", "deleted", &[]);
    let doctor = room.run(&["doctor"]);
    assert!(!doctor.stdout.contains("2.json"), "{doctor:?}");
    assert_eq!(room.json(&["task", "list"])["total"], 1);
    assert_eq!(room.run(&["task", "get", "2"]).code, 3, "a deleted task is not there");
    room.ok(&["task", "claim", "1", "--as", "bob"]);
    let file = room.json_file("tasks/crew/1.json");
    let since = file["metadata"]["pitcrew"]["updatedAt"].as_i64().unwrap();
    let updated_at: jiff::Timestamp = file["updated_at"].as_str().unwrap().parse().unwrap();
    assert_eq!(updated_at.as_millisecond(), since, "{file:#}");
    assert_eq!(file["created_at"], "2026-02-11T14:30:00Z");
    assert_eq!(room.json(&["task", "create", "next"])["taskId"], "3", "an id is not used again");
}

const REFUSED: &str = "
agents:
  team-lead:
    - tools:
        - {name: TeamCreate, input: {description: x}}
        - {name: TeamDelete, input: {x: y}}
        - {name: Task, input: {subagent_type: general-purpose, name: z, prompt: x}}
        - {name: Task, input: {subagent_type: general-purpose, team_name: nosuch, name: z, prompt: x, description: x}}
        - {name: Task, input: {subagent_type: bogus, name: z, prompt: x, description: x}}
        - {name: Task, input: {subagent_type: general-purpose, name: z, prompt: x, description: x, mode: bogus}}
    - text: over
";

#[test]
fn the_leads_own_tools_refuse_in_the_forms_of_all_others() {
    let room = TestEnv::new();
    let model = room.script(REFUSED);
    let ran = room.run(&[
        "run",
        "go",
        "--team",
        "work",
        "--model",
        &model,
        "--output-format",
        "stream-json",
    ]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let results = results(&ran.stdout);
    let (malformed, refused) = results.split_at(3);
    for result in malformed {
        assert!(
            result.as_str().is_some_and(|text| text.starts_with("InputValidationError: [")),
            "{result}"
        );
    }
    let codes: Vec<&Value> = refused.iter().map(|result| &result["error"]).collect();
    assert_eq!(codes, ["team_not_found", "invalid_request", "invalid_request"], "{refused:#?}");
    assert_eq!(refused[0]["details"]["available_teams"], json!(["work"]));
    for tool in ["TeamCreate", "TeamDelete", "Task"] {
        let text = format!(
            "<tool_use_error>InputValidationError: {tool} failed due to the following issue"
        );
        assert!(ran.stdout.contains(&text), "{tool}: {}", ran.stdout);
    }
}
