//! Whole runs in which the permission mode of a teammate changes.

use pitcrew_protocol::{AgentName, PermissionMode};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::question::Choice;
use pitcrew_runtime::run::{Asks, Runtime};
use pitcrew_team::Actor;

use crate::team_env::{TestRun, finish, until};

#[tokio::test]
async fn a_member_s_mode_can_be_changed_by_another_process_while_it_runs() {
    let setting = TestRun::in_files();
    let script = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: work, prompt: Work.}}]
    - text: Let us see.
  bob:
    - tools: [{name: Bash, input: {command: touch a.txt}}]
    - tools: [{name: Bash, input: {command: touch b.txt}}]
    - wait_for: {contains: shutdown_request}
    - capture:
        request: {regex: '"requestId":\s*"(shutdown[^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;
    let (person, mut asks) = tokio::sync::mpsc::channel(1);
    let mut options = setting.options(script);
    (options.agent_options.asks, options.agent_options.mode) =
        (Asks::Person(person), PermissionMode::Default);
    let mut handle = Runtime::start(options).await.unwrap();
    until(&mut handle, |event| matches!(event, RunEvent::PermissionAsked { .. })).await;
    let ask = asks.recv().await.unwrap();
    setting
        .team_elsewhere()
        .await
        .set_mode(&Actor::User, &AgentName::new("bob").unwrap(), "plan")
        .await
        .unwrap();
    until(&mut handle, |event| {
        matches!(event, RunEvent::ModeChanged { mode: PermissionMode::Plan, .. })
    })
    .await;
    ask.reply(Choice::Once);
    finish(handle).await.success();
    assert!(setting.cwd.join("a.txt").exists());
    assert!(!setting.cwd.join("b.txt").exists());
}

#[tokio::test]
async fn background_commands_of_an_agent_that_goes_into_plan_mode_are_stopped() {
    let setting = TestRun::in_files();
    let script = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: work, prompt: Work.}}]
    - text: Let us see.
  bob:
    - tools: [{name: Bash, input: {command: 'trap "touch gone" EXIT; touch set; while true; do sleep 0.1; done', run_in_background: true}}]
    - tools: [{name: Bash, input: {command: 'until test -e set; do sleep 0.05; done'}}]
    - tools: [{name: Bash, input: {command: touch a.txt}}]
    - wait_for: {contains: shutdown_request}
    - capture:
        request: {regex: '"requestId":\s*"(shutdown[^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;
    let (person, mut asks) = tokio::sync::mpsc::channel(1);
    let mut options = setting.options(script);
    (options.agent_options.asks, options.agent_options.mode) =
        (Asks::Person(person), PermissionMode::Default);
    let mut handle = Runtime::start(options).await.unwrap();
    asks.recv().await.unwrap().reply(Choice::Once);
    // The first permission request was about the first command of `bob`. The second command needs
    // no permission. So this request is about the third command, `touch a.txt`.
    let ask = asks.recv().await.unwrap();
    setting
        .team_elsewhere()
        .await
        .set_mode(&Actor::User, &AgentName::new("bob").unwrap(), "plan")
        .await
        .unwrap();
    let stopped = |event: &RunEvent| matches!(event, RunEvent::Warning { text } if text.contains("bob is in plan mode"));
    let events = until(&mut handle, stopped).await;
    let Some(RunEvent::Warning { text }) = events.last() else { panic!("{events:?}") };
    assert!(text.contains("background commands were stopped: `trap"), "{text}");
    assert!(setting.cwd.join("gone").exists());
    ask.reply(Choice::No { reason: Some("no".to_owned()) });
    finish(handle).await.success();
}
