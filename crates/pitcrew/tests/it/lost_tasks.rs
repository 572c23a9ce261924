//! Open tasks whose files have become unreadable. A run with such tasks never counts as completed.

use std::fs;

use serde_json::{Value, json};

use crate::models_over_http::Say;
use crate::running::Running;
use crate::service::{Reply, Service};
use crate::test_env::TestEnv;

const BEGUN: &str = "
agents:
  team-lead:
    - tools: [{name: TaskCreate, input: {subject: Do it, description: All of it}}]
    - tools: [{name: TaskUpdate, input: {taskId: '1', status: in_progress}}]
    - text: It is done.
    - text: It is done, as I said.
    - wait_for: {contains: Really}
      text: It is.
    - text: It is.
    - wait_for: {contains: Really}
      text: It is.
    - text: It is.
    - wait_for: {contains: Really}
      text: It is.
    - text: It is.
";

const LOST: &str = "task #1 was open, and its file is gone or cannot be read: `pitcrew doctor` tells more, and `pitcrew task update 1 \
                    --status deleted` gives it up";

fn resumed(room: &TestEnv) -> Value {
    room.json(&["run", "--resume", "work", "Really?"])
}

#[track_caller]
fn is_stalled(ended: &Value) {
    assert_eq!((&ended["end"], &ended["exit_code"]), (&json!("stalled"), &json!(8)), "{ended:#}");
    assert_eq!(ended["open"], json!([LOST]), "{ended:#}");
}

#[test]
fn a_task_whose_file_is_torn_is_open_also_after_a_repair_and_until_it_is_given_up() {
    let room = TestEnv::new();
    let model = room.script(BEGUN);
    assert_eq!(room.run(&["run", "do it", "--team", "work", "--model", &model]).code, 8);
    let file = room.root().join("tasks/work/1.json");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 30]).unwrap();
    is_stalled(&resumed(&room));
    room.run(&["doctor", "--repair"]);
    assert!(!file.exists(), "the repair takes it away");
    is_stalled(&resumed(&room));
    room.ok(&["task", "update", "1", "--status", "deleted", "--team", "work"]);
    let ended = resumed(&room);
    assert_eq!((&ended["end"], &ended["open"]), (&json!("completed"), &json!([])), "{ended:#}");
}

#[test]
fn tasks_that_are_taken_away_while_a_run_is_at_work_are_open_at_its_end() {
    let room = TestEnv::new();
    let script = "
agents:
  team-lead:
    - tools: [{name: TaskCreate, input: {subject: Do it, description: All of it}}]
    - tools: [{name: Bash, input: {command: 'touch waiting; until test -e word; do sleep 0.05; done'}}]
    - text: It is done.
    - text: It is done.
";
    let model = room.script(script);
    let run = Running::answering(
        &mut room.command(&["run", "do it", "-t", "work", "--model", &model, "--yes", "--json"]),
    );
    let waits = || room.work().join("waiting").exists().then_some(());
    crate::patience::until("the lead waits", waits, String::new);
    fs::remove_dir_all(room.root().join("tasks/work")).unwrap();
    fs::write(room.work().join("word"), "").unwrap();
    let (code, said) = run.ended();
    let ended: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(code, Some(8), "{ended:#}");
    is_stalled(&ended);
}

#[test]
fn a_lead_that_waits_in_silence_with_a_task_open_is_stalled() {
    let call = || Say::Call("TaskCreate", json!({"subject": "Do it", "description": "All of it"}));
    let service = Service::start(move |heard, _| match heard.answers {
        0 => Reply::Say(vec![call()]),
        _ => Reply::Say(Vec::new()),
    });
    let ran = service.run(&TestEnv::new(), &["run", "do it", "--json"]);
    let ended: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(ended["end"], "stalled", "{ended:#}");
    assert_eq!(ended["open"], json!(["1 task is open: #1 Do it (pending, no owner)"]), "{ended:#}");
}

#[test]
fn what_is_open_is_said_however_a_run_ends() {
    let call = || Say::Call("TaskCreate", json!({"subject": "Do it", "description": "All of it"}));
    let refusals = [(400, "failed"), (529, "model_unavailable")];
    for (status, end) in refusals {
        let service = Service::start(move |heard, _| match heard.answers {
            0 => Reply::Say(vec![call()]),
            _ => {
                let body =
                    json!({"type": "error", "error": {"type": "some_error", "message": "no"}});
                Reply::Refuse(status, Some(("retry-after", "9999")), body)
            }
        });
        let ran = service.run(&TestEnv::new(), &["run", "do it", "--json"]);
        let ended: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(ended["end"], end, "{ended:#}");
        assert_eq!(
            ended["open"],
            json!(["1 task is open: #1 Do it (pending, no owner)"]),
            "{end}: {ended:#}"
        );
    }
}

#[test]
fn an_inbox_that_is_torn_under_a_run_ends_it_with_the_command_that_mends_it() {
    let room = TestEnv::new();
    let script = "
agents:
  team-lead:
    - tools: [{name: TaskCreate, input: {subject: Do it, description: All of it}}]
    - tools: [{name: Task, input: {name: bob, description: Wait, prompt: Wait for the word.}}]
    - wait_for: {contains: my part is done, from: message}
      text: All is done.
  bob:
    - tools: [{name: Bash, input: {command: 'touch waiting; until test -e word; do sleep 0.05; done'}}]
    - tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: my part is done, summary: done}}]
";
    let model = room.script(script);
    let run = Running::start(&room, &["run", "do it", "-t", "work", "--model", &model, "--yes"]);
    let waits = || room.work().join("waiting").exists().then_some(());
    crate::patience::until("bob waits", waits, String::new);
    fs::write(room.root().join("teams/work/inboxes/team-lead.json"), "").unwrap();
    fs::write(room.work().join("word"), "").unwrap();
    let (code, log) = run.ended();
    assert_eq!(code, Some(70), "{log}");
    assert!(log.contains("`pitcrew doctor --repair` repairs it"), "{log}");
}
