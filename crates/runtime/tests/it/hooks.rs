//! Tests hooks as real processes. The data that each hook receives is compared to recordings.

use std::fs;
use std::path::{Path, PathBuf};

use pitcrew_permission::gate::Gate;
use pitcrew_permission::settings::{Layer, Settings};
use pitcrew_protocol::PermissionMode;
use pitcrew_runtime::hooks::{
    Decision, HookEvent, HookKind, HookOutcome, HookScope, HookSession, Hooks, TaskFields,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::patience::{in_time, until};

fn hooks(section: Value) -> Hooks {
    let settings = Settings::merge(vec![(Layer::Project, json!({ "hooks": section }))]).unwrap();
    Hooks::from_settings(&settings, None)
}

async fn run_for(hooks: &Hooks, event: &HookEvent, cancel: &CancellationToken) -> HookOutcome {
    let gate = Gate::from_settings(&Settings::default(), None).unwrap();
    hooks.run(event, HookScope { gate: Some(&gate), background: None, cancel }).await
}

fn for_tools(commands: &[&str]) -> Hooks {
    let entries: Vec<Value> =
        commands.iter().map(|command| json!({"type": "command", "command": command})).collect();
    hooks(json!({"PreToolUse": [{"matcher": "Bash", "hooks": entries}]}))
}

fn event(cwd: &Path) -> HookEvent {
    HookEvent {
        session: HookSession {
            session_id: "s".to_owned(),
            transcript_path: PathBuf::from("/t.jsonl"),
            cwd: cwd.to_path_buf(),
            permission_mode: PermissionMode::Default,
        },
        kind: HookKind::PreToolUse {
            tool_name: "Bash".to_owned(),
            tool_input: json!({"command": "ls"}),
            tool_use_id: "t1".to_owned(),
        },
    }
}

async fn run(hooks: &Hooks, cwd: &Path) -> HookOutcome {
    in_time("the hooks have ended", run_for(hooks, &event(cwd), &CancellationToken::new())).await
}

#[tokio::test]
async fn a_hook_gets_the_payload_in_the_working_folder_and_answers() {
    let dir = tempfile::tempdir().unwrap();
    let command = r#"cat > seen.json; echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","additionalContext":"mail"}}'"#;
    let outcome = run(&for_tools(&[command]), dir.path()).await;
    assert_eq!(outcome.additional_context, ["mail"]);
    assert!(outcome.warnings.is_empty(), "{outcome:?}");
    let seen: Value =
        serde_json::from_str(&fs::read_to_string(dir.path().join("seen.json")).unwrap()).unwrap();
    assert_eq!(seen["tool_input"], json!({"command": "ls"}));
    assert_eq!(seen["hook_event_name"], "PreToolUse");
}

#[tokio::test]
async fn exit_code_two_blocks_with_its_complaint() {
    let dir = tempfile::tempdir().unwrap();
    let outcome = run(&for_tools(&["echo 'no rm here' >&2; exit 2"]), dir.path()).await;
    let reason = "no rm here".to_owned();
    assert_eq!(outcome.decision, Some(Decision::Deny { reason: reason.clone() }));
    assert_eq!(outcome.feedback, Some(reason));
}

#[tokio::test]
async fn hooks_run_at_once_and_the_same_command_once() {
    let dir = tempfile::tempdir().unwrap();
    // Each hook waits for the file of the other hook. If the hooks ran one after the other, the
    // first hook would wait forever.
    let first = "touch a; until [ -e b ]; do sleep 0.01; done; echo x >> count";
    let second = "touch b; until [ -e a ]; do sleep 0.01; done; echo x >> count";
    let outcome = run(&for_tools(&[first, second, first]), dir.path()).await;
    assert!(outcome.warnings.is_empty(), "{outcome:?}");
    assert_eq!(fs::read_to_string(dir.path().join("count")).unwrap(), "x\nx\n");
}

#[tokio::test]
async fn a_hook_that_does_not_read_a_big_payload_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    let mut event = event(dir.path());
    event.kind = HookKind::PreToolUse {
        tool_name: "Bash".to_owned(),
        tool_input: json!({"command": "x".repeat(1 << 20)}),
        tool_use_id: "t1".to_owned(),
    };
    let hooks = for_tools(&["exec 0<&-; echo '{\"decision\":\"approve\"}'"]);
    let outcome = run_for(&hooks, &event, &CancellationToken::new()).await;
    assert!(matches!(outcome.decision, Some(Decision::Allow { .. })), "{outcome:?}");
    assert!(outcome.warnings.is_empty(), "{outcome:?}");
}

#[tokio::test]
async fn a_hook_past_its_deadline_is_killed_with_its_children() {
    let command = "sh -c 'echo $$ > new; mv new child; exec sleep 1000' & wait";
    // On a busy machine, a short deadline may pass before the child process has started. So the
    // test also tries longer deadlines.
    for deadline_s in [0.5, 5.0, 50.0] {
        let dir = tempfile::tempdir().unwrap();
        let hook = json!({"type": "command", "command": command, "timeout": deadline_s});
        let hooks = hooks(json!({"PreToolUse": [{"hooks": [hook]}]}));
        let outcome = run(&hooks, dir.path()).await;
        let warning = outcome.warnings.first().unwrap();
        assert!(
            warning.ends_with(&format!("took longer than {deadline_s} s and was killed")),
            "{warning}"
        );
        assert!(outcome.decision.is_none());
        let child = dir.path().join("child");
        if child.exists() {
            assert_gone(&child).await;
            return;
        }
    }
    panic!("the hook never got so far");
}

#[tokio::test]
async fn a_cancelled_hook_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let hooks = for_tools(&["echo $$ > new; mv new child; exec sleep 1000"]);
    let cancel = CancellationToken::new();
    let file = dir.path().join("child");
    let cancelling = async {
        until("the hook runs", async || file.exists().then_some(())).await;
        cancel.cancel();
    };
    let event = event(dir.path());
    let (outcome, ()) = tokio::join!(run_for(&hooks, &event, &cancel), cancelling);
    assert!(outcome.warnings.first().unwrap().ends_with("was cancelled"));
    assert_gone(&file).await;
}

#[tokio::test]
async fn a_grandchild_that_keeps_the_pipe_does_not_hold_the_hook_up() {
    let dir = tempfile::tempdir().unwrap();
    let command = "sh -c 'echo $$ > child; exec sleep 1000' & until [ -s child ]; do sleep 0.01; done; echo '{\"decision\":\"approve\"}'";
    let outcome = run(&for_tools(&[command]), dir.path()).await;
    assert!(matches!(outcome.decision, Some(Decision::Allow { .. })), "{outcome:?}");
    assert_gone(&dir.path().join("child")).await;
}

#[tokio::test]
async fn a_missing_folder_is_a_warning() {
    let outcome = run(&for_tools(&["true"]), Path::new("/no/such/folder")).await;
    assert!(outcome.warnings.first().unwrap().contains("cannot be run"), "{outcome:?}");
}

/// Waits until the process with the id in `file` has ended.
async fn assert_gone(file: &Path) {
    let id: u32 = fs::read_to_string(file).unwrap().trim().parse().unwrap();
    let state = PathBuf::from(format!("/proc/{id}/stat"));
    let is_gone = || fs::read_to_string(&state).map_or(true, |stat| stat.contains(") Z "));
    until("the process is gone", async || is_gone().then_some(())).await;
}

#[test]
fn every_recorded_payload_is_written_field_for_field() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/claude-2.1.39/hooks.ndjson");
    let recorded = fs::read_to_string(path).unwrap();
    let mut rebuilt = 0;
    for line in recorded.lines() {
        let payload: Value = serde_json::from_str(line).unwrap();
        let Some(event) = rebuild(&payload) else {
            assert_eq!(payload["hook_event_name"], "SubagentStart");
            continue;
        };
        assert_eq!(serde_json::to_string(&event).unwrap(), payload.to_string());
        rebuilt += 1;
    }
    assert_eq!(rebuilt, 49);
}

fn rebuild(payload: &Value) -> Option<HookEvent> {
    let text = |field: &str| payload[field].as_str().unwrap().to_owned();
    let flag = || payload["stop_hook_active"].as_bool().unwrap();
    let kind = match payload["hook_event_name"].as_str().unwrap() {
        "PreToolUse" => HookKind::PreToolUse {
            tool_name: text("tool_name"),
            tool_input: payload["tool_input"].clone(),
            tool_use_id: text("tool_use_id"),
        },
        "PostToolUse" => HookKind::PostToolUse {
            tool_name: text("tool_name"),
            tool_input: payload["tool_input"].clone(),
            tool_response: payload["tool_response"].clone(),
            tool_use_id: text("tool_use_id"),
        },
        "UserPromptSubmit" => HookKind::UserPromptSubmit { prompt: text("prompt") },
        "SessionStart" => HookKind::SessionStart { source: text("source") },
        "SessionEnd" => HookKind::SessionEnd { reason: text("reason") },
        "Stop" => HookKind::Stop { stop_hook_active: flag() },
        "SubagentStop" => HookKind::SubagentStop {
            stop_hook_active: flag(),
            agent_id: text("agent_id"),
            agent_transcript_path: text("agent_transcript_path").into(),
            agent_type: text("agent_type"),
        },
        "TeammateIdle" => HookKind::TeammateIdle {
            teammate_name: text("teammate_name"),
            team_name: text("team_name"),
            stop_hook_active: false,
        },
        "TaskCompleted" => HookKind::TaskCompleted(TaskFields {
            task_id: text("task_id"),
            task_subject: text("task_subject"),
            task_description: text("task_description"),
            teammate_name: Some(text("teammate_name")),
            team_name: Some(text("team_name")),
        }),
        _ => return None,
    };
    let mode =
        payload.get("permission_mode").map(|mode| PermissionMode::deserialize(mode).unwrap());
    Some(HookEvent {
        session: HookSession {
            session_id: text("session_id"),
            transcript_path: text("transcript_path").into(),
            cwd: text("cwd").into(),
            permission_mode: mode.unwrap_or_default(),
        },
        kind,
    })
}
