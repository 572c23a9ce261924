//! Every line of a stream must be valid under `docs/stream.schema.json`. The tests check recorded
//! lines and lines that pitcrew writes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::terminal::GOODBYE;
use crate::test_env::TestEnv;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn schema() -> Validator {
    let text = std::fs::read_to_string(repository().join("docs/stream.schema.json")).unwrap();
    jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap()
}

/// Checks every line against the schema, and returns the kinds of lines in the text.
fn check(schema: &Validator, text: &str) -> BTreeSet<String> {
    let kind_of = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        let errors: Vec<String> =
            schema.iter_errors(&value).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new(), "{line}");
        let of = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        match value["subtype"].as_str() {
            Some("pitcrew_team_event") => of("event"),
            Some(subtype) => format!("{} {subtype}", of("type")),
            None => of("type"),
        }
    };
    text.lines().map(kind_of).collect()
}

#[test]
fn every_recorded_line_of_a_stream_fits_the_schema() {
    let schema = schema();
    let mut lines = 0;
    for client in std::fs::read_dir(repository().join("fixtures")).unwrap() {
        let Ok(streams) = std::fs::read_dir(client.unwrap().path().join("stream-json")) else {
            continue;
        };
        for stream in streams {
            let text = std::fs::read_to_string(stream.unwrap().path()).unwrap();
            check(&schema, &text);
            lines += text.lines().count();
        }
    }
    assert!(lines > 50, "{lines}");
}

/// The script of a team that produces every kind of line: thoughts, tasks, messages, a plan, a
/// subagent, a refused call, a failing teammate, and shutdowns.
fn eventful() -> String {
    let spawn = |name: &str, more: &str| {
        format!(
            "{{name: Task, input: {{name: {name}, subagent_type: general-purpose, description: w, prompt: Go.{more}}}}}"
        )
    };
    format!(
        "
agents:
  team-lead:
    - thinking: Let me see.
      text: I begin.
      tools: [{{name: TeamCreate, input: {{team_name: work, description: All of it}}}}]
    - tools:
        - {{name: TaskCreate, input: {{subject: One, description: All of it}}}}
        - {{name: Task, input: {{subagent_type: Explore, description: look, prompt: Look.}}}}
        - {{name: Bash, input: {{command: touch refused}}}}
        - {{name: NoSuchTool, input: {{}}}}
        - {{name: TaskGet, input: {{}}}}
    - tools: [{}, {}, {}]
    - wait_for: {{contains: plan_approval_request, from: message}}
    - capture:
        plan: {{from: message, regex: '(plan_approval-[^\"\\\\]+)'}}
      tools:
        - {{name: SendMessage, input: {{type: plan_approval_response, request_id: '${{plan}}', recipient: bob, approve: true}}}}
        - {{name: TaskUpdate, input: {{taskId: '1', status: completed}}}}
        - {{name: TaskList}}
    - wait_for: {{all: [{{contains: 'teammate_id=\"ann\"'}}, {{contains: failed, from: message}}]}}
    - text: It is done.
  Explore#*:
    - tools: [{{name: Glob, input: {{pattern: '*'}}}}]
    - text: There is nothing.
  bob:
    - tools: [{{name: ExitPlanMode, input: {{plan: 1. Do it.}}}}]
    - wait_for: {{contains: plan_approval_response, from: message}}
    - text: I did it.{GOODBYE}
  ann:
    - tools: [{{name: SendMessage, input: {{type: message, recipient: team-lead, content: hello, summary: hello}}}}]
    - text: I am idle.{GOODBYE}
  cat:
    - capture: {{x: {{regex: '(never said)'}}}}
      text: '${{x}}'
",
        spawn("bob", ", mode: plan"),
        spawn("ann", ""),
        spawn("cat", "")
    )
}

#[test]
fn every_line_of_ours_fits_the_schema_however_the_run_ends() {
    let (schema, room) = (schema(), TestEnv::new());
    let model = room.script(&eventful());
    let stream = ["--output-format", "stream-json", "--include-team-events"];
    let ran =
        room.run(&[&["run", "go", "--team", "work", "--model", &model], &stream[..]].concat());
    let kinds = check(&schema, &ran.stdout);
    for kind in [
        "system init",
        "assistant",
        "user",
        "agent_started",
        "message_injected",
        "agent_changed",
        "tool_ended",
    ] {
        assert!(kinds.contains(kind), "{kind}: {ran:?}");
    }
    let last: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["failed_agents"][0]["teammate_id"], "cat@work", "{last:#}");
    let reason = last["failed_agents"][0]["reason"].as_str().unwrap();
    assert!(!reason.is_empty(), "{last:#}");
    let plain = ran
        .stdout
        .lines()
        .filter(|line| !line.contains("pitcrew_team_event"))
        .collect::<Vec<_>>()
        .join("\n");
    assert!(plain.contains(&json!(reason).to_string()), "without team events too");
    let usage = &last["modelUsage"][&model];
    assert_eq!(
        (&usage["webSearchRequests"], &usage["contextWindow"]),
        (&json!(0), &json!(128_000)),
        "{last:#}"
    );
    assert_eq!(
        last["usage"]["server_tool_use"],
        json!({"web_search_requests": 0, "web_fetch_requests": 0})
    );

    let endless =
        "agents: {team-lead: [{repeat: {at_most: 9999, turns: [{tools: [{name: TaskList}]}]}}]}";
    let model = room.script(endless);
    let cut = room.run(
        &[&["run", "go", "--team", "cut", "--model", &model, "--max-turns", "2"], &stream[..]]
            .concat(),
    );
    assert!(check(&schema, &cut.stdout).contains("result error_max_turns"), "{cut:?}");
    let broken = room.script("agents: {bob: [{text: So}]}");
    let failed =
        room.run(&[&["run", "go", "--team", "not", "--model", &broken], &stream[..]].concat());
    assert!(check(&schema, &failed.stdout).contains("result error_during_execution"), "{failed:?}");
}

#[test]
fn the_schema_refuses_a_line_without_what_readers_need() {
    let schema = schema();
    let text = std::fs::read_to_string(
        repository().join("fixtures/claude-2.1.39/stream-json/team-lifecycle.ndjson"),
    );
    for line in text.unwrap().lines() {
        let whole: Value = serde_json::from_str(line).unwrap();
        for field in ["type", "session_id", "uuid", "message", "usage", "modelUsage", "tools"] {
            let mut without = whole.clone();
            if without.as_object_mut().unwrap().shift_remove(field).is_some() {
                assert!(!schema.is_valid(&without), "{field}: {without}");
            }
        }
    }
}
