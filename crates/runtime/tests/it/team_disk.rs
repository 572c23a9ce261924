//! Agents on a slow disk. The tests check which steps wait for a write and which do not. To delay a
//! write, a test holds a lock.

use pitcrew_protocol::{PermissionMode, Status};
use std::fs::{self, File};
use std::path::PathBuf;

use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::run::{RunEnd, RunHandle, Runtime};
use serde_json::Value;

use crate::team_env::{Blocked, TestRun, WAITER, finish, until};

/// Starts a run with a lead. The lead spawns the teammate `bob` as soon as the file `go` exists.
/// `bob` then reads `file`, and waits until it is shut down.
async fn before_bob(setting: &TestRun, file: &str) -> RunHandle {
    let script = format!(
        r#"
agents:
  team-lead:
    - tools: [{{name: Bash, input: {{command: 'until [ -e go ]; do sleep 0.01; done'}}}}]
    - tools: [{{name: Task, input: {{name: bob, description: read, prompt: Read.}}}}]
    - wait_for: {{contains: is idle, from: message}}
    - text: Thank you.
  bob:
    - tools: [{{name: Read, input: {{file_path: '{file}'}}}}]
    - text: I have read it.
{WAITER}"#
    );
    let mut options = setting.options(&script);
    options.agent_options.mode = PermissionMode::BypassPermissions;
    let mut handle = Runtime::start(options).await.unwrap();
    until(&mut handle, |event| matches!(event, RunEvent::ToolStarted { .. })).await;
    handle
}

fn go(setting: &TestRun) {
    fs::write(setting.cwd.join("go"), "").unwrap();
}

fn team_folder(setting: &TestRun) -> PathBuf {
    setting.root.join("teams/probe")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_thinks_while_its_transcript_is_on_its_way_to_the_disk_and_acts_when_it_is_there()
{
    let setting = TestRun::in_files();
    let transcript = team_folder(&setting).join("pitcrew/transcripts/bob.ndjson");
    let mut handle = before_bob(&setting, transcript.to_str().unwrap()).await;
    let held = File::create(&transcript).unwrap();
    held.lock().unwrap();
    go(&setting);
    until(
        &mut handle,
        |event| matches!(event, RunEvent::Answered(answered) if answered.agent.as_str() == "bob"),
    )
    .await;
    assert_eq!(fs::read_to_string(&transcript).unwrap(), "");
    drop(held);
    let ran = finish(handle).await;
    ran.success();
    let read = ran.results_of("bob", "Read").join("\n");
    assert!(read.contains(r#""kind":"told""#) && read.contains(r#""kind":"assistant""#), "{read}");
}

fn warns(event: &RunEvent, says: &str) -> bool {
    matches!(event, RunEvent::Warning { text } if text.contains(says))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_user_learns_when_the_disk_refuses_the_journal_and_when_it_takes_it_again() {
    let setting = TestRun::in_files();
    fs::write(setting.cwd.join("a.txt"), "a").unwrap();
    let mut handle = before_bob(&setting, "a.txt").await;
    let journal = team_folder(&setting).join("pitcrew/journal.ndjson");
    let blocked = Blocked::file(&journal);
    go(&setting);
    until(&mut handle, |event| warns(event, "the team's journal cannot be written")).await;
    drop(blocked);
    let ran = finish(handle).await;
    ran.success();
    let again = ran.events.iter().filter(|event| warns(event, "the team's journal")).count();
    assert_eq!(again, 1, "it is told once that the journal is written again: {:#?}", ran.events);
    let kept = fs::read_to_string(&journal).unwrap();
    assert!(kept.contains("bob"), "what was refused is written later: {kept}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_tasks_cannot_be_read_is_not_complete() {
    let setting = TestRun::in_files();
    let script = "
agents:
  team-lead:
    - tools: [{name: TaskCreate, input: {subject: Paint, description: Paint it.}}]
    - tools: [{name: Bash, input: {command: 'until [ -e go ]; do sleep 0.01; done'}}]
    - text: It is painted.
    - text: It surely is.
";
    let mut options = setting.options(script);
    options.agent_options.mode = PermissionMode::BypassPermissions;
    let mut handle = Runtime::start(options).await.unwrap();
    let is_bash =
        |event: &RunEvent| matches!(event, RunEvent::ToolStarted { tool, .. } if tool == "Bash");
    until(&mut handle, is_bash).await;
    let (tasks, aside) = (setting.root.join("tasks/probe"), setting.cwd.join("aside"));
    // A file in place of the folder cannot be read as tasks.
    fs::rename(&tasks, &aside).unwrap();
    fs::write(&tasks, "").unwrap();
    go(&setting);
    let ran = finish(handle).await;
    let RunEnd::Broken { reason } = &ran.outcome.end else { panic!("{:?}", ran.outcome.end) };
    assert!(reason.contains("tasks/probe"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_goes_on_while_its_mail_is_being_marked_read_and_rests_when_it_is() {
    let setting = TestRun::in_files();
    fs::write(setting.cwd.join("a.txt"), "a").unwrap();
    let mut handle = before_bob(&setting, "a.txt").await;
    let inbox = team_folder(&setting).join("inboxes/bob.json");
    let lock = inbox.with_extension("json.lock");
    let mail = r#"[{"from":"team-lead","text":"Mind the gap.","timestamp":"2026-11-20T10:00:00.000Z","read":false}]"#;
    fs::write(&inbox, mail).unwrap();
    fs::create_dir(&lock).unwrap();
    let is_read = || {
        let mail: Value = serde_json::from_slice(&fs::read(&inbox).unwrap()).unwrap();
        mail[0]["read"] == true
    };
    go(&setting);
    until(
        &mut handle,
        |event| matches!(event, RunEvent::ToolEnded(ended) if ended.agent.as_str() == "bob"),
    )
    .await;
    assert!(!is_read(), "it was marked read under somebody else's lock");
    fs::remove_dir(&lock).expect("the lock was not waited for until it was stale");
    until(&mut handle, |event| {
        matches!(event, RunEvent::AgentChanged { agent, status, .. }
            if agent.as_str() == "bob" && *status == Status::Idle)
    })
    .await;
    assert!(is_read(), "it rests, and its mail is unread");
    finish(handle).await.success();
}
