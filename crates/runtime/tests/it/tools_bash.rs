//! The tool Bash and background shells, with real processes.

use std::fs;

use pitcrew_tools::{ShellState, plain_tools};
use serde_json::{Value, json};

use crate::patience::until;
use crate::tools_env::{TestEnv, is_alive, pids, pids_in, until_gone};

/// Starts four processes that write their ids to the file `pids`. The first is a child of the
/// shell. The second is in another session. The third is in another session and ignores TERM. The
/// fourth is like the third, and has an empty environment.
const FAMILY: &str = "sleep 300 & echo $! >> pids
    setsid bash -c 'echo $$ >> pids; exec sleep 300' &
    setsid bash -c 'trap \"\" TERM; echo $$ >> pids; while :; do sleep 0.1; done' &
    env -i setsid bash -c 'trap \"\" TERM; echo $$ >> pids; while :; do sleep 0.1; done' &
    wait";

/// The number of process ids that [`FAMILY`] writes.
const FAMILY_SIZE: usize = 4;

fn fixture(path: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/claude-2.1.39/");
    fs::read_to_string(format!("{root}{path}")).unwrap()
}

#[test]
fn every_tool_has_the_recorded_parameters() {
    let recorded: Value = serde_json::from_str(&fixture("tool-input-schemas.json")).unwrap();
    for tool in plain_tools() {
        let mut schema = tool.input_schema();
        for (_, parameter) in schema["properties"].as_object_mut().unwrap() {
            assert!(parameter["description"].is_string());
            parameter.as_object_mut().unwrap().remove("description");
        }
        let mut wanted = recorded[tool.name()].clone();
        wanted.as_object_mut().unwrap().remove("$schema");
        assert_eq!(schema, wanted, "{}", tool.name());
    }
}

#[tokio::test]
async fn a_result_has_the_recorded_shape() {
    let recorded = fixture("stream-json/team-lifecycle.ndjson");
    let recorded = recorded
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|line| line["tool_use_result"]["stdout"].is_string())
        .unwrap();
    let setting = TestEnv::new();
    let outcome = setting.call("Bash", json!({"command": "echo out; echo err >&2"})).await;
    assert_eq!(outcome.text, "out\nerr");
    assert_eq!(
        outcome.data,
        json!({
            "stdout": "out", "stderr": "err", "interrupted": false,
            "isImage": false, "noOutputExpected": false,
        })
    );
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&outcome.data), keys(&recorded["tool_use_result"]));
}

#[tokio::test]
async fn a_failure_tells_the_exit_code_as_recorded() {
    let setting = TestEnv::new();
    let outcome = setting.call("Bash", json!({"command": "echo out; echo err >&2; exit 3"})).await;
    assert!(outcome.is_error);
    assert_eq!(outcome.text, "Exit code 3\nerr\n\nout");
    assert_eq!(outcome.data, json!("Error: Exit code 3\nerr\n\nout"));
}

#[tokio::test]
async fn long_output_is_cut_in_the_middle() {
    let setting = TestEnv::new();
    let text = setting.done("Bash", json!({"command": "seq 1 500000; seq 1 500000 >&2"})).await;
    assert!(text.starts_with("1\n2\n3\n"), "{text:.50}");
    assert!(text.ends_with("\n499999\n500000"));
    assert_eq!(text.matches("bytes cut from the middle").count(), 2);
    assert!(text.chars().count() < setting.context.limits.output_chars + 200);
}

#[tokio::test]
async fn each_command_starts_afresh_in_the_working_folder() {
    let mut setting = TestEnv::new();
    let variables = [("GREETING", "hello"), ("GIT_DIR", "/elsewhere")];
    setting.context.env.extend(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
    setting.done("Bash", json!({"command": "cd / && export GREETING=changed"})).await;
    let text =
        setting.done("Bash", json!({"command": "pwd; echo $GREETING ${GIT_DIR-unset}"})).await;
    assert_eq!(text, "ROOT/project\nhello unset");
}

#[tokio::test]
async fn output_that_is_no_text_is_replaced() {
    let setting = TestEnv::new();
    let text = setting.done("Bash", json!({"command": r"printf 'a\377b'"})).await;
    assert_eq!(text, "a\u{FFFD}b");
}

#[tokio::test]
async fn a_grandchild_that_keeps_the_pipe_open_does_not_hold_the_answer_up() {
    let setting = TestEnv::new();
    let text = setting.done("Bash", json!({"command": "sleep 300 & echo $!"})).await;
    let (pid, note) = text.split_once('\n').unwrap();
    let pid = pid.parse().unwrap();
    assert!(note.contains("still running"), "{note}");
    assert!(is_alive(pid));
    setting.context.shells.stop_all(&setting.context.limits).await;
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn a_grandchild_that_never_stops_writing_does_not_hold_the_answer_up() {
    let setting = TestEnv::new();
    let endless = "{ echo y; touch begun; exec yes; } & echo $! > pids; until [ -e begun ]; do sleep 0.01; done";
    let text = setting.done("Bash", json!({"command": endless})).await;
    assert!(text.starts_with("y\n"), "{text:.50}");
    until_gone(&pids(&setting.path("pids"), 1).await).await;
}

#[tokio::test]
async fn the_deadline_ends_everything_a_command_started() {
    // On a busy machine, a short timeout may pass before all processes have started. So the test
    // also tries longer timeouts.
    for timeout_ms in [3_000, 30_000, 90_000] {
        let mut setting = TestEnv::new();
        setting.context.limits.stop_grace = std::time::Duration::from_millis(200);
        let command = format!("{FAMILY}; echo never");
        let outcome =
            setting.call("Bash", json!({"command": command, "timeout": timeout_ms})).await;
        assert!(outcome.is_error);
        let words = format!("The command was stopped after {timeout_ms} ms");
        assert!(outcome.text.starts_with(&words), "{}", outcome.text);
        assert_eq!(outcome.data["interrupted"], json!(true));
        let family = pids_in(&setting.path("pids"));
        assert!(!family.iter().any(|pid| is_alive(*pid)));
        if family.len() == FAMILY_SIZE {
            return;
        }
    }
    panic!("the command never got so far");
}

#[tokio::test]
async fn an_interrupt_ends_everything_a_command_started() {
    let mut setting = TestEnv::new();
    setting.context.limits.stop_grace = std::time::Duration::from_millis(200);
    let input = json!({"command": FAMILY});
    let interrupt = async {
        let family = pids(&setting.path("pids"), FAMILY_SIZE).await;
        assert!(family.iter().all(|pid| is_alive(*pid)));
        setting.context.cancel.cancel();
        family
    };
    let (outcome, family) = tokio::join!(setting.call("Bash", input), interrupt);
    assert!(outcome.is_error && outcome.text.contains("interrupted"), "{}", outcome.text);
    assert!(!family.iter().any(|pid| is_alive(*pid)));
}

#[tokio::test]
async fn a_call_that_is_dropped_ends_everything_it_started() {
    let setting = TestEnv::new();
    let file = setting.path("pids");
    let family = tokio::select! {
        _ = setting.call("Bash", json!({"command": FAMILY})) => panic!("it waits for ever"),
        family = pids(&file, FAMILY_SIZE) => family,
    };
    until_gone(&family).await;
}

#[tokio::test]
async fn a_background_command_runs_on_and_is_stopped_by_its_id() {
    let setting = TestEnv::new();
    let input = json!({"command": format!("echo begun; {FAMILY}"), "run_in_background": true});
    let outcome = setting.call("Bash", input).await;
    let id = outcome.data["backgroundTaskId"].as_str().unwrap();
    let family = pids(&setting.path("pids"), FAMILY_SIZE).await;
    let shells = setting.context.shells.list();
    assert_eq!(shells[0].state, ShellState::Running);
    let output = until("the output is written", async || {
        fs::read_to_string(&shells[0].output).ok().filter(|output| !output.is_empty())
    });
    assert_eq!(output.await, "begun\n");
    let unknown = setting.refused("TaskStop", json!({"task_id": "nobody"})).await;
    assert!(unknown.contains(&format!("running: {id}")), "{unknown}");
    setting.done("TaskStop", json!({"shell_id": id})).await;
    assert!(!family.iter().any(|pid| is_alive(*pid)));
    assert!(fs::read_to_string(&shells[0].output).unwrap().ends_with("[stopped]\n"));
}

#[tokio::test]
async fn a_background_command_that_ended_tells_its_exit_code() {
    let setting = TestEnv::new();
    let input = json!({"command": "echo out; exit 4", "run_in_background": true});
    let outcome = setting.call("Bash", input).await;
    let shell = until("it has ended", async || {
        let shell = setting.context.shells.list().remove(0);
        (shell.state != ShellState::Running).then_some(shell)
    })
    .await;
    assert_eq!(shell.state, ShellState::Exited(Some(4)));
    assert_eq!(fs::read_to_string(shell.output).unwrap(), "out\n\n[ended with exit code 4]\n");
    let stop = json!({"task_id": outcome.data["backgroundTaskId"]});
    assert!(setting.refused("TaskStop", stop).await.contains("ended already"));
}

#[tokio::test]
async fn background_output_is_bounded_on_disk() {
    let mut setting = TestEnv::new();
    setting.context.limits.background_bytes = 10;
    let input = json!({"command": "seq 1 100000", "run_in_background": true});
    setting.done("Bash", input).await;
    let shell = until("it has ended", async || {
        let shell = setting.context.shells.list().remove(0);
        (shell.state != ShellState::Running).then_some(shell)
    });
    assert_eq!(
        fs::read_to_string(shell.await.output).unwrap(),
        "1\n2\n3\n4\n5\n\n[the rest of the output was not kept]\n[ended with exit code 0]\n"
    );
}

#[tokio::test]
async fn dropping_the_last_handle_stops_background_commands() {
    let setting = TestEnv::new();
    setting.done("Bash", json!({"command": FAMILY, "run_in_background": true})).await;
    let family = pids(&setting.path("pids"), FAMILY_SIZE).await;
    drop(setting);
    until_gone(&family).await;
}

#[tokio::test]
async fn a_command_that_cannot_be_run_is_an_error() {
    let mut setting = TestEnv::new();
    let nul = setting.refused("Bash", json!({"command": "echo \0"})).await;
    assert!(nul.contains("could not be run"), "{nul}");
    setting.context.cwd = setting.path("gone");
    let gone = setting.refused("Bash", json!({"command": "true"})).await;
    insta::assert_snapshot!(gone, @"the command could not be run: the working folder ROOT/project/gone does not exist");
}

#[tokio::test]
async fn bad_input_is_told_in_the_recorded_words() {
    let setting = TestEnv::new();
    let text = setting.refused("Bash", json!({"cmd": "ls"})).await;
    insta::assert_snapshot!(text, @r"
    <tool_use_error>InputValidationError: Bash failed due to the following issues:
    The required parameter `command` is missing
    The parameter `cmd` is not known</tool_use_error>
    ");
    let text = setting.refused("Shell", json!({})).await;
    insta::assert_snapshot!(text, @"<tool_use_error>Error: No such tool available: Shell. There are: Bash, Read, Write, Edit, Glob, Grep, TaskStop</tool_use_error>");
}
