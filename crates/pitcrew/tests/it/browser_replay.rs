//! Replays in a real browser: `pitcrew view` of recorded streams, of a live pipe and of a team, and the
//! replay of that team on the page of all teams.

use std::fs;
use std::process::Stdio;

use crate::browser::{STREAMS, Serving, TESTS, lacks};
use crate::test_env::TestEnv;

/// A lead with a teammate that works on a task.
const SCRIPT: &str = r#"
agents:
  team-lead:
    - tools: [{name: TaskCreate, input: {subject: Write the notes, description: All of them.}}]
    - tools: [{name: Task, input: {description: write, prompt: Write the notes., name: bob, subagent_type: general-purpose}}]
    - wait_for: {contains: All is written, from: message}
    - tools: [{name: SendMessage, input: {type: shutdown_request, recipient: bob, content: Done.}}]
    - wait_for: {matches: 'bob[^\n]*(has shut down|terminated)'}
    - text: The notes are written.
  bob:
    - tools: [{name: TaskUpdate, input: {taskId: "1", status: in_progress, owner: bob}}]
    - delay_ms: 700
      tools: [{name: TaskUpdate, input: {taskId: "1", status: completed}}]
    - tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: All is written., summary: done}}]
    - text: Done.
    - wait_for: {contains: '"type":"shutdown_request"'}
    - capture:
        request: {from: message, regex: '"requestId":"(shutdown-[^"]+)"'}
      tools: [{name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}]
"#;

#[test]
fn replays_of_streams_pipes_and_teams_are_played_in_the_browser() {
    if let Some(why) = lacks() {
        eprintln!("skipped: {why}");
        return;
    }
    let room = TestEnv::new();
    for (name, stream) in STREAMS {
        fs::write(room.work().join(format!("{name}.ndjson")), stream).unwrap();
    }
    fs::write(room.work().join("team.yaml"), SCRIPT).unwrap();
    let run = ["run", "write the notes", "--team", "notes", "--model", "script:team.yaml"];
    room.ok(&run);
    let serving = Serving::start(&room, &["--json", "serve", "--port", "0"]);
    let mut node = room.tool("node", &["--test", "--test-reporter=spec"]);
    node.arg(format!("{TESTS}/page.test.mjs")).stdin(Stdio::null());
    node.env("PITCREW_LINK", &serving.link).env("PITCREW_PROGRAM", env!("CARGO_BIN_EXE_pitcrew"));
    if let Some(shots) = std::env::var_os("PITCREW_SHOTS") {
        node.env("PITCREW_SHOTS", shots);
    }
    let tested = node.output().unwrap();
    let said = String::from_utf8_lossy(&tested.stdout);
    assert!(tested.status.success(), "{said}{}", String::from_utf8_lossy(&tested.stderr));
}
