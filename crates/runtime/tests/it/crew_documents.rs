//! What the founding documents say of tools and agents, tried in runs.

use pitcrew_protocol::{AgentName, Frame};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::gate::PermissionMode;
use pitcrew_runtime::run::{Asks, Runtime};

use crate::crew_setting::{Setting, WAITER, finish, until};

/// Two teammates, of whom `ann` writes to `bob` what `tools` say, and then waits to be shut down.
fn ann_writes(tools: &str) -> String {
    format!(
        r#"
agents:
  team-lead:
    - tools:
        - {{name: Task, input: {{name: bob, description: wait, prompt: Wait.}}}}
        - {{name: Task, input: {{name: ann, description: write, prompt: Write.}}}}
    - text: Go.
  ann:
    - tools: [{tools}]
    - text: I wrote.
    - wait_for: {{contains: shutdown_request}}
    - capture:
        request: {{regex: '"requestId":\s*"([^"]+)"'}}
      tools:
        - {{name: SendMessage, input: {{type: shutdown_response, request_id: '${{request}}', approve: true}}}}
{WAITER}"#
    )
}

/// The summaries of the idle notices that the lead got from `ann`.
async fn idle_summaries(tools: &str) -> Vec<Option<String>> {
    let setting = Setting::in_files();
    let mut handle = Runtime::start(setting.options(&ann_writes(tools))).await.unwrap();
    let is_idle = |event: &RunEvent| {
        let RunEvent::AgentChanged { agent, status, .. } = event else { return false };
        agent.as_str() == "ann" && *status == pitcrew_runtime::agent::Status::Idle
    };
    until(&mut handle, is_idle).await;
    let mail = setting.team().await.mail(&AgentName::lead()).await.unwrap();
    finish(handle).await;
    let of_ann = mail.into_iter().filter(|mail| mail.message.from == "ann");
    of_ann
        .filter_map(|mail| match mail.frame {
            Some(Frame::IdleNotification(idle)) => Some(idle.summary),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn an_idle_notice_says_what_was_written_last_to_a_peer_and_nothing_of_mail_to_the_lead() {
    let to_lead = "{name: SendMessage, input: {type: message, recipient: team-lead, content: hi, summary: hello}}";
    assert_eq!(idle_summaries(to_lead).await, [None]);
    let to_bob = "{name: SendMessage, input: {type: message, recipient: bob@probe, content: the api is ready, summary: API is ready}}";
    let both = format!("{to_bob}, {to_lead}");
    assert_eq!(idle_summaries(&both).await, [Some("[to bob] API is ready".to_owned())]);
    let refused =
        "{name: SendMessage, input: {type: message, recipient: nobody, content: hello, summary: hello again}}";
    assert_eq!(idle_summaries(refused).await, [None]);
}

#[tokio::test]
async fn mail_to_a_teammate_that_failed_is_refused_with_its_failure() {
    let setting = Setting::new();
    let script = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: work, prompt: Work.}}]
    - wait_for: {contains: bob has failed, from: message}
    - tools: [{name: SendMessage, input: {type: message, recipient: bob, content: hello, summary: hello again}}]
    - text: So it is.
  bob:
    - tools: [{name: TaskList}]
    - text: '${missing}'
"#;
    let ran = setting.run(setting.options(script)).await;
    let refused = &ran.results_of("team-lead", "SendMessage")[0];
    assert!(refused.contains("was not delivered: it failed"), "{refused}");
    assert!(!refused.contains("shut down"), "{refused}");
}

async fn tools_at_start(mode: PermissionMode) -> Vec<String> {
    let setting = Setting::new();
    let mut options = setting.options("agents: {team-lead: [{text: Done.}]}");
    (options.furnishings.mode, options.furnishings.asks) = (mode, Asks::Allow);
    let ran = setting.run(options).await;
    let started = ran.events.iter().find_map(|event| match event {
        RunEvent::Started(started) => Some(started.tools.clone()),
        _ => None,
    });
    started.unwrap()
}

#[tokio::test]
async fn a_run_begins_with_the_tools_that_its_mode_offers() {
    let tools = tools_at_start(PermissionMode::Default).await;
    assert!(tools.contains(&"Bash".to_owned()) && !tools.contains(&"ExitPlanMode".to_owned()), "{tools:?}");
    let tools = tools_at_start(PermissionMode::Plan).await;
    assert!(tools.contains(&"Bash".to_owned()) && tools.contains(&"ExitPlanMode".to_owned()), "{tools:?}");
    let tools = tools_at_start(PermissionMode::Delegate).await;
    let expected = [
        "SendMessage",
        "Task",
        "TaskCreate",
        "TaskGet",
        "TaskList",
        "TaskStop",
        "TaskUpdate",
        "TeamCreate",
        "TeamDelete",
    ];
    let mut tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    tools.sort_unstable();
    assert_eq!(tools, expected);
}
