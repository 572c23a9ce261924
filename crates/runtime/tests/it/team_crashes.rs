//! Stops a run at every event, one after the other. Each time, the next run must continue as if
//! nothing had happened.

use std::collections::HashMap;

use pitcrew_agent::transcript::{Step, read};
use pitcrew_protocol::{AgentName, Frame, MessageId, PermissionMode, TaskStatus};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::run::{Asks, Begin, RunEnd, Runtime};
use pitcrew_team::Team;
use pitcrew_team::store::LogName;

use crate::team_env::{TestRun, finish, until};

/// The script of a lead and two teammates. One teammate works in plan mode and asks for a
/// permission. The team is not deleted, so that the test can check its files afterwards.
const SCRIPT: &str = r#"
agents:
  team-lead:
    - tools:
        - {name: TeamCreate, input: {team_name: probe}}
    - tools:
        - {name: TaskCreate, input: {subject: Plan, description: Plan and write plan.txt}}
        - {name: TaskCreate, input: {subject: Write, description: Write write.txt}}
    - tools:
        - {name: Task, input: {name: planner, description: Plan, prompt: Do task 1., mode: plan}}
        - {name: Task, input: {name: writer, description: Write, prompt: Do task 2.}}
    - wait_for: {contains: plan_approval_request, from: message}
    - capture:
        request: {regex: '"requestId":\s*"(plan_approval[^"]+)"', from: message}
      tools:
        - {name: SendMessage, input: {type: plan_approval_response, request_id: '${request}', recipient: planner, approve: true}}
    - wait_for: {contains: my part is done, from: message, times: 2}
    - tools:
        - {name: SendMessage, input: {type: shutdown_request, recipient: writer}}
        - {name: SendMessage, input: {type: shutdown_request, recipient: planner}}
    - wait_for: {contains: teammate_terminated, from: message, times: 2}
    - text: All is done.
  planner:
    - tools:
        - {name: TaskUpdate, input: {taskId: '1', status: in_progress}}
    - tools:
        - {name: ExitPlanMode, input: {plan: I write plan.txt.}}
    - wait_for: {contains: plan_approval_response}
    - tools:
        - {name: Bash, input: {command: echo planned > plan.txt}}
    - tools:
        - {name: TaskUpdate, input: {taskId: '1', status: completed}}
        - {name: SendMessage, input: {type: message, recipient: team-lead, content: my part is done, summary: done}}
    - wait_for: {contains: shutdown_request}
    - capture:
        request: {regex: '"requestId":\s*"(shutdown[^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
  writer:
    - tools:
        - {name: TaskUpdate, input: {taskId: '2', status: in_progress}}
        - {name: SendMessage, input: {type: message, recipient: planner, content: I write write.txt, summary: what I do}}
    - tools:
        - {name: Write, input: {file_path: write.txt, content: draft}}
    - tools:
        - {name: TaskList}
    - tools:
        - {name: Edit, input: {file_path: write.txt, old_string: draft, new_string: written}}
    - tools:
        - {name: TaskUpdate, input: {taskId: '2', status: completed}}
        - {name: SendMessage, input: {type: message, recipient: team-lead, content: my part is done, summary: done}}
    - wait_for: {contains: shutdown_request}
    - capture:
        request: {regex: '"requestId":\s*"(shutdown[^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;

pub(crate) async fn transcript(team: &Team, name: &AgentName) -> Vec<Step> {
    let lines = team.backend().log(team.dir(), &LogName::Transcript(name.clone())).await.unwrap();
    read(&lines).unwrap().entries.into_iter().map(|entry| entry.step).collect()
}

/// Checks that the transcript of an agent contains every message of its inbox exactly once. The
/// only exception is a frame (a message of the team protocol): it may be missing, because the agent
/// may have ended before the frame came.
pub(crate) async fn check_mail(team: &Team, name: &AgentName) {
    let mut delivered: HashMap<MessageId, u32> = HashMap::new();
    for step in transcript(team, name).await {
        if let Step::Mail { ids, .. } | Step::Granted { ids, .. } = step {
            ids.into_iter().for_each(|id| *delivered.entry(id).or_default() += 1);
        }
    }
    let mail = team.mail(name).await.unwrap();
    for mail in &mail {
        let times = delivered.remove(&mail.id).unwrap_or(0);
        let is_late = Frame::detect(&mail.message.text).is_some();
        assert!(
            times == 1 || (times == 0 && is_late),
            "{} was delivered {times} times: {mail:?}",
            mail.id
        );
    }
    assert!(delivered.is_empty(), "{name} was given mail that is in no inbox: {delivered:?}");
}

/// Stops a run after `events` events, resumes the run, and checks the result. Returns false if the
/// run had already ended before it could be stopped.
async fn cut_off_after(events: usize) -> bool {
    let setting = TestRun::new();
    let options = || {
        let mut options = setting.options(SCRIPT);
        (options.agent_options.asks, options.agent_options.mode) =
            (Asks::Allow, PermissionMode::Default);
        options
    };
    let mut first = Runtime::start(options()).await.unwrap();
    let mut seen = 0;
    let stopper = first.stopper();
    let mut was_cut_off = false;
    while let Some(_event) = first.events.recv().await {
        seen += 1;
        if seen == events {
            stopper.kill();
            was_cut_off = true;
        }
    }
    let mut outcome = first.outcome().await;
    if was_cut_off && outcome.end == RunEnd::Interrupted {
        let mut again = options();
        again.begin = Begin::Resume { team: "probe".to_owned(), goal: None };
        outcome = finish(Runtime::start(again).await.unwrap()).await.outcome;
    }
    assert!(
        matches!(outcome.end, RunEnd::Success { .. }),
        "cut off after {events} events: {outcome:#?}"
    );
    let team = setting.team().await;
    let tasks = team.tasks().await.unwrap();
    let ends: Vec<_> = tasks.iter().map(|task| (task.subject.as_str(), task.status)).collect();
    let done = TaskStatus::Completed;
    assert_eq!(ends, [("Plan", done), ("Write", done)], "cut off after {events} events");
    assert_eq!(std::fs::read_to_string(setting.cwd.join("plan.txt")).unwrap(), "planned\n");
    assert_eq!(std::fs::read_to_string(setting.cwd.join("write.txt")).unwrap(), "written");
    for name in ["team-lead", "planner", "writer"] {
        check_mail(&team, &AgentName::new(name).unwrap()).await;
    }
    was_cut_off
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_cut_off_at_any_event_goes_on_to_the_same_end() {
    let mut events = 1;
    while cut_off_after(events).await {
        events += 1;
    }
    assert!(events > 50, "the run has only {events} events");
}

#[tokio::test]
async fn two_processes_cannot_run_one_team() {
    let setting = TestRun::new();
    let (person, mut asks) = tokio::sync::mpsc::channel(1);
    let mut options = setting.options(SCRIPT);
    (options.agent_options.asks, options.agent_options.mode) =
        (Asks::Person(person), PermissionMode::Default);
    let mut first = Runtime::start(options).await.unwrap();
    until(&mut first, |event| matches!(event, RunEvent::PermissionAsked { .. })).await;
    let _unanswered = asks.recv().await.unwrap();
    let mut again = setting.options(SCRIPT);
    again.begin = Begin::Resume { team: "probe".to_owned(), goal: None };
    let error = Runtime::start(again).await.unwrap_err();
    let pid = std::process::id();
    assert_eq!(error.to_string(), format!("the team \"probe\" is run by process {pid}"));
}
