//! Tests that the binary keeps the promises of the four documents that founded pitcrew (see
//! `docs/conformance.md`). Before these tests existed, independent readers compared pitcrew with
//! the documents.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::terminal::{GOODBYE, ended};
use crate::test_env::{Ran, TestEnv};

/// Returns the results of the tool calls of the agent `of`, from its transcript, in order.
fn results(room: &TestEnv, of: &str) -> Vec<String> {
    let text = fs::read_to_string(
        room.find("teams/work").join(format!("pitcrew/transcripts/{of}.ndjson")),
    )
    .unwrap();
    let steps = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    steps
        .filter(|step| step["kind"] == "result")
        .map(|step| step["text"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_lead_may_read_the_outputs_that_it_is_told_to_read_and_nothing_beside_them() {
    let room = TestEnv::new();
    let model = room.script(&format!(
        r"
agents:
  team-lead:
    - tools: [{{name: Task, input: {{description: d, prompt: x, subagent_type: general-purpose, name: w}}}}]
    - wait_for: {{contains: '<output_file>', from: message}}
      text: waiting
    - capture: {{o: {{regex: '<output_file>([^<]+)<', from: message}}}}
      tools: [{{name: Read, input: {{file_path: '${{o}}'}}}}]
    - capture: {{p: {{regex: '<output_file>([^<]+)/w.log<', from: message}}}}
      tools: [{{name: Grep, input: {{pattern: hello, path: '${{p}}', output_mode: content}}}}]
    - tools: [{{name: Read, input: {{file_path: '${{p}}/../bounds.json'}}}}]
    - tools: [{{name: Write, input: {{file_path: '${{o}}', content: forged}}}}]
    - tools: [{{name: SendMessage, input: {{type: shutdown_request, recipient: w}}}}]
    - wait_for: {{contains: teammate_terminated, from: message}}
    - text: over
  w:
    - text: hello from w{GOODBYE}
"
    ));
    let ran = room.run(&["run", "go", "--team", "work", "--model", &model]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let results = results(&room, "team-lead");
    assert!(results[1].contains("hello from w"), "{results:#?}");
    assert!(results[2].contains("hello from w"), "{results:#?}");
    assert!(
        results[3].starts_with("Permission denied") || results[3].contains("denied"),
        "{results:#?}"
    );
    assert!(results[4].contains("team"), "{results:#?}");
}

#[test]
fn a_lead_takes_no_other_teams_name() {
    let room = TestEnv::new();
    room.ok(&["team", "create", "other"]);
    let model = room.script(
        "
agents:
  team-lead:
    - tools: [{name: TeamCreate, input: {team_name: Other}}]
    - tools: [{name: TeamCreate, input: {team_name: another}}]
    - text: over
",
    );
    let ran = room.run(&["run", "go", "--team", "work", "--model", &model]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let results = results(&room, "team-lead");
    assert!(results[0].contains("existing_team: other"), "{results:#?}");
    assert!(results[1].contains("work"), "{results:#?}");
}

#[test]
fn a_team_is_made_in_plan_mode_too() {
    let room = TestEnv::new();
    let model = room.script(
        "
agents:
  team-lead:
    - tools: [{name: TeamCreate, input: {team_name: planned}}]
    - tools: [{name: TeamDelete, input: {}}]
    - text: over
",
    );
    let ran =
        room.run(&["run", "go", "--team", "work", "--permission-mode", "plan", "--model", &model]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let results = results(&room, "team-lead");
    assert!(results[0].contains("work"), "{results:#?}");
    assert!(results[1].contains("not available in plan mode"), "{results:#?}");
}

/// Runs pitcrew on a simulated machine that has this policy file. The simulation mounts a file
/// system. If mounting is not possible here, prints a message and returns `None`.
fn under_policy(room: &TestEnv, policy: &str, args: &[&str]) -> Option<Ran> {
    let etc = room.temporary().join("etc");
    if !etc.exists() {
        assert!(
            room.tool("cp", &["-a", "/etc", etc.to_str().unwrap()]).status().unwrap().success()
        );
    }
    fs::create_dir_all(etc.join("claude-code")).unwrap();
    fs::write(etc.join("claude-code/managed-settings.json"), policy).unwrap();
    let mount = "mount --bind \"$0\" /etc || exit 99; exec \"$@\"";
    let first = ["-m", "sh", "-c", mount, etc.to_str().unwrap(), env!("CARGO_BIN_EXE_pitcrew")];
    let mut command = room.tool("unshare", &[&first[..], args].concat());
    let ran = ended(
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?,
    );
    if ran.code == 99 || ran.stderr.starts_with("unshare") {
        eprintln!("skipped: what the machine's policy sets: {}", ran.stderr);
        return None;
    }
    Some(ran)
}

#[test]
fn nothing_overrides_the_machines_policy_not_even_the_command_line() {
    let room = TestEnv::new();
    let script = "
agents:
  team-lead:
    - tools: [{name: Write, input: {file_path: made.txt, content: x}}]
    - text: over
";
    let model = room.script(script);
    let other = room.temporary().join("other.yaml");
    fs::write(&other, script.replace("over", "other")).unwrap();
    let args = ["run", "go", "--model", &model, "--permission-mode", "acceptEdits"];
    let Some(ran) = under_policy(&room, r#"{"permissions": {"defaultMode": "plan"}}"#, &args)
    else {
        return;
    };
    assert!(!room.work().join("made.txt").exists(), "{ran:?}");
    assert!(ran.stderr.contains("--permission-mode acceptEdits has no effect"), "{ran:?}");
    let policy = format!(r#"{{"model": "script:{}"}}"#, other.display());
    let Some(ran) = under_policy(&room, &policy, &args) else { return };
    assert_eq!(ran.stdout, "other\n", "{ran:?}");
    assert!(ran.stderr.contains("--model") && room.work().join("made.txt").exists(), "{ran:?}");
}
