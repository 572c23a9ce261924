//! Tests of `pitcrew agent` and `pitcrew join`, which run a member in a process of its own. The
//! tests kill, stop, park and shut down such members. A parked member waits without a lead, and
//! continues when a lead runs again.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::patience::until;
use crate::running::Running;
use crate::test_env::{Ran, TestEnv, append};

/// The script of members that run a slow task, and shut down when they are asked to.
const MEMBERS: &str = r#"
agents:
  bob: &member
    - tools: [{name: Bash, input: {command: echo one >> counted}}]
    - delay_ms: 400
      tools: [{name: Bash, input: {command: echo two >> counted}}]
    - wait_for: {contains: shutdown_request}
      text: I counted to two.
    - capture:
        request: {from: message, regex: '"requestId":"(shutdown-[^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
  guest: *member
"#;

/// The permission mode in which no tool call needs an answer from the user.
pub(crate) const FREE: &str = "bypassPermissions";

impl Running {
    /// Starts `pitcrew agent` for the member `bob`. A lead has already added bob to the team.
    fn bob(room: &TestEnv) -> Self {
        Self::start(
            room,
            &["agent", "--team-name", "crew", "--agent-name", "bob", "--permission-mode", FREE],
        )
    }
}

/// Returns a test environment with the team `crew`. According to the config, the member bob runs in
/// a pane, but no process is started. bob's inbox contains the message to count to two.
fn crew_with_bob() -> TestEnv {
    let room = TestEnv::with_crew();
    let model = room.script(MEMBERS);
    change_bob(
        &room,
        &[("tmuxPaneId", json!("%7")), ("backendType", json!("tmux")), ("model", json!(model))],
    );
    change_bob(&room, &[("cwd", json!(room.work()))]);
    room.ok(&["send", "bob", "Count to two."]);
    room
}

fn change_bob(room: &TestEnv, fields: &[(&str, Value)]) {
    let mut config = room.json_file("teams/crew/config.json");
    let bob = config["members"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .find(|member| member["name"] == "bob")
        .unwrap();
    for (field, value) in fields {
        bob[field] = value.clone();
    }
    std::fs::write(
        room.root().join("teams/crew/config.json"),
        serde_json::to_string_pretty(&config).unwrap(),
    )
    .unwrap();
}

/// Returns a member's entry in the config, or null if the config has no such member.
fn member(room: &TestEnv, name: &str) -> Value {
    let config = room.json_file("teams/crew/config.json");
    let members = config["members"].as_array().unwrap().clone();
    members.into_iter().find(|member| member["name"] == name).unwrap_or_default()
}

fn counted(room: &TestEnv) -> String {
    std::fs::read_to_string(room.work().join("counted")).unwrap_or_default()
}

/// Sends a shutdown request to a member, in the form that the lead of another client writes to an
/// inbox.
fn dismiss(room: &TestEnv, name: &str) {
    let request = json!({"type": "shutdown_request", "requestId": format!("shutdown-1@{name}"), "from": "team-lead"});
    let time = "2026-01-01T00:00:00.000Z";
    let mail =
        json!({"from": "team-lead", "text": request.to_string(), "timestamp": time, "read": false});
    append(&room.root().join(format!("teams/crew/inboxes/{name}.json")), mail);
}

#[test]
fn a_member_that_agrees_to_shut_down_ends_its_process_with_0() {
    let room = crew_with_bob();
    let mut bob = Running::bob(&room);
    bob.until("bob is idle");
    assert_eq!(counted(&room), "one\ntwo\n");
    dismiss(&room, "bob");
    let (code, log) = bob.ended();
    assert_eq!(code, Some(0), "{log}");
    let inbox = room.json_file("teams/crew/inboxes/team-lead.json");
    let frames: Vec<&str> =
        inbox.as_array().unwrap().iter().map(|mail| mail["text"].as_str().unwrap()).collect();
    let goodbye: Value = serde_json::from_str(frames.last().unwrap()).unwrap();
    assert_eq!(
        (&goodbye["type"], &goodbye["paneId"], &goodbye["backendType"]),
        (&json!("shutdown_approved"), &json!("%7"), &json!("tmux"))
    );
    assert_eq!(member(&room, "bob")["name"], "bob", "its lead takes it out");
}

#[test]
fn a_member_that_was_killed_goes_on_from_its_transcript() {
    let room = crew_with_bob();
    // In this script the second step waits for an hour. The test therefore always kills the first
    // process before the second step is done.
    room.script(&MEMBERS.replace("delay_ms: 400", "delay_ms: 3600000"));
    let bob = Running::bob(&room);
    until(
        "the first step is done",
        || (counted(&room) == "one\n").then_some(()),
        || counted(&room),
    );
    bob.signal(Signal::KILL);
    assert_eq!(bob.ended().0, None);
    room.script(MEMBERS);
    let mut again = Running::bob(&room);
    again.until("bob is idle");
    assert!(counted(&room).ends_with("two\n"), "{}", counted(&room));
    let transcript =
        std::fs::read_to_string(room.root().join("teams/crew/pitcrew/transcripts/bob.ndjson"))
            .unwrap();
    assert_eq!(transcript.matches("Count to two.").count(), 1, "{transcript}");
    again.signal(Signal::TERM);
    again.ended();
}

#[test]
fn a_member_that_is_terminated_ends_in_order_and_stays_in_the_team() {
    let room = crew_with_bob();
    let mut bob = Running::bob(&room);
    bob.until("bob Bash(echo one");
    bob.signal(Signal::TERM);
    let (code, log) = bob.ended();
    assert_eq!(code, Some(143), "{log}");
    assert!(log.contains("pitcrew agent --team-name crew --agent-name bob"), "{log}");
    assert_eq!(member(&room, "bob")["isActive"], false);
    let mut again = Running::bob(&room);
    again.until("bob is idle");
    again.signal(Signal::TERM);
    again.ended();
}

#[test]
fn a_second_process_of_a_member_is_refused() {
    let room = crew_with_bob();
    let mut bob = Running::bob(&room);
    bob.until("bob is idle");
    let second = room.run(&["--json", "agent", "--agent-id", "bob@crew"]);
    assert_eq!(second.code, 4, "{second:?}");
    assert!(second.stdout.contains(&format!("run by process {}", bob.id())), "{second:?}");
    bob.signal(Signal::TERM);
    bob.ended();
}

#[test]
fn only_a_member_that_is_there_and_is_no_lead_can_be_run() {
    let room = crew_with_bob();
    for (args, code) in [
        (&["agent", "--team-name", "crew", "--agent-name", "nobody"][..], 3),
        (&["agent", "--team-name", "nowhere", "--agent-name", "bob"], 3),
        (&["agent", "--team-name", "crew", "--agent-name", "team-lead", "--model", "haiku"], 2),
        (&["agent", "--agent-id", "bob"], 2),
        (&["agent", "--agent-id", "bob@crew", "--agent-name", "ann"], 2),
        (&["agent", "--team-name", "crew"], 2),
        (&["join", "crew", "--as", "bob", "--model", "haiku"], 4),
        (&["join", "crew", "--as", "team-lead", "--model", "haiku"], 2),
        (&["join", "nowhere", "--as", "guest", "--model", "haiku"], 3),
    ] {
        let ran = room.run(args);
        assert_eq!(ran.code, code, "{args:?}: {ran:?}");
    }
}

#[test]
fn a_guest_works_and_leaves_the_team_when_its_lead_asks_it_to() {
    let room = crew_with_bob();
    let model = room.script(MEMBERS);
    let mut guest = Running::start(
        &room,
        &["join", "crew", "--as", "guest", "--model", &model, "--permission-mode", FREE],
    );
    guest.until("guest is idle");
    assert_eq!(counted(&room), "one\ntwo\n");
    let is_at_rest = || (member(&room, "guest")["isActive"] == false).then_some(());
    until("the guest is at rest", is_at_rest, || member(&room, "guest").to_string());
    dismiss(&room, "guest");
    let (code, log) = guest.ended();
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(member(&room, "guest"), Value::Null);
}

#[test]
fn a_member_whose_lead_was_killed_is_parked_and_goes_on_under_the_next() {
    let room = crew_with_bob();
    // Adds fields to bob's entry in the config. pitcrew writes the same fields for a teammate that
    // a lead spawned in a pane.
    change_bob(
        &room,
        &[
            ("pitcrew", json!({"call": "toolu_1"})),
            ("backendType", json!("pane")),
            ("tmuxPaneId", json!("7")),
        ],
    );
    let lead =
        |model: &str| Running::start(&room, &["run", "--resume", "crew", "wait", "--model", model]);
    let model = room.script(&format!("{MEMBERS}  team-lead: [{{repeat: {{at_most: 100000, turns: [{{delay_ms: 200, tools: [{{name: TaskList}}]}}]}}}}]\n"));
    // bob is started before the lead. A resumed lead starts only members that have no process, so
    // it does not start bob a second time.
    let mut bob = Running::bob(&room);
    bob.until("bob is parked");
    let mut first = lead(&model);
    first.until("team-lead TaskList");
    bob.until("bob is idle");
    first.signal(Signal::KILL);
    assert_eq!(first.ended().0, None);
    bob.until("bob is parked");
    room.ok(&["send", "bob", "Are you there?"]);
    let _second = lead(&model);
    bob.until("bob is idle");
    bob.until("bob reads mail from operator");
}

#[test]
fn the_stream_and_the_result_are_the_members_own() {
    let room = crew_with_bob();
    let stream = ["--permission-mode", FREE, "--output-format", "stream-json", "--max-turns", "2"];
    let ran = room.run(&[&["agent", "--agent-id", "bob@crew"], &stream[..]].concat());
    assert_eq!(ran.code, 7, "{ran:?}");
    let lines: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["system", "assistant", "user", "assistant", "user", "result"]);
    assert_eq!(lines.last().unwrap()["num_turns"], 2);
}

#[test]
fn a_lead_of_another_client_starts_us_by_its_own_flags_alone_and_under_any_name() {
    let room = crew_with_bob();
    let model = room.script(MEMBERS);
    let other_name = room.work().join("teammate");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_pitcrew"), &other_name).unwrap();
    let recorded = [
        "--agent-id",
        "bob@crew",
        "--agent-name",
        "bob",
        "--team-name",
        "crew",
        "--agent-color",
        "blue",
    ];
    let session = [
        "--parent-session-id",
        "ce6ab3f9-b18c-4b7a-a580-def3cf6d3691",
        "--agent-type",
        "general-purpose",
    ];
    // The reference client's command line for a teammate of a session contains `--model` twice:
    // first with the lead's own model, then with the model that the user chose. Only the last value
    // counts.
    let twice = [
        "--dangerously-skip-permissions",
        "--model",
        "no such model",
        "--model",
        &model,
        "--max-turns",
        "2",
    ];
    let args = [&recorded[..], &session, &twice].concat();
    let ran = Ran::of(room.tool(other_name.to_str().unwrap(), &args).output().unwrap());
    assert_eq!((ran.code, counted(&room).as_str()), (7, "one\ntwo\n"), "{ran:?}");
    let both = room.run(
        &[&recorded[..], &["--dangerously-skip-permissions", "--permission-mode", "plan"]].concat(),
    );
    assert_eq!(both.code, 2, "{both:?}");
}
