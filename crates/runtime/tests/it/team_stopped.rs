//! Runs that are stopped, and teammates that approve their shutdown. The tests check which members
//! stay in the team, which requests are void in the next run, and what happens to messages that are
//! not delivered yet.

use std::time::Duration;

use pitcrew_protocol::{Program, TeamCreateInput};
use pitcrew_runtime::control_socket::{ControlRequest, ENDED_BY, ENDING, control_request};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::hosting::LaunchStage;
use pitcrew_runtime::run::{Asks, Begin, RunEnd, Runtime};
use pitcrew_team::{CreateTeam, FirstRun, MadeBy, OnTaken, RunBounds};
use rustix::process::Signal;
use serde_json::json;

use crate::panes_process::ProcessPanes;
use crate::patience::PATIENCE;
use crate::team_elsewhere::{Played, hosting, stages};
use crate::team_env::{TestRun, finish, until};

#[tokio::test]
async fn a_stopped_run_asks_nobody_to_leave_and_goes_on_with_everybody() {
    let setting = TestRun::new();
    let script = r#"
agents:
  team-lead:
    - tools:
        - {name: Task, input: {name: polite, description: wait, prompt: Wait.}}
        - {name: Task, input: {name: deaf, description: wait, prompt: Wait.}}
    - wait_for: {contains: I woke up, from: message}
    - text: Finished.
  deaf:
    - tools: [{name: Bash, input: {command: test -e wake-up || sleep 1000}}]
    - tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: I woke up, summary: up}}]
    - wait_for: {contains: shutdown_request}
    - capture:
        request: {regex: '"requestId":\s*"([^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
  polite:
    - wait_for: {contains: shutdown_request}
    - capture:
        request: {regex: '"requestId":\s*"([^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;
    let mut options = setting.options(script);
    // The shutdown grace is ten minutes. If the run waited that long, the test would hang.
    (options.agent_options.asks, options.agent_options.shutdown_grace) =
        (Asks::Allow, Duration::from_secs(600));
    let mut handle = Runtime::start(options).await.unwrap();
    let stopper = handle.stopper();
    until(
        &mut handle,
        |event| matches!(event, RunEvent::ToolStarted { agent, .. } if agent.as_str() == "deaf"),
    )
    .await;
    stopper.stop();
    let ran = finish(handle).await;
    assert_eq!(ran.outcome.end, RunEnd::Interrupted);
    let config = setting.team().await.config().await.unwrap();
    let left: Vec<_> = config.teammates().map(|member| member.name.as_str()).collect();
    assert_eq!(left, ["polite", "deaf"]);
    assert_eq!(setting.team().await.requests().await.unwrap(), std::collections::BTreeMap::new());

    std::fs::write(setting.cwd.join("wake-up"), "").unwrap();
    let mut again = setting.options(script);
    again.begin = Begin::Resume { team: "probe".to_owned(), goal: None };
    again.agent_options.asks = Asks::Allow;
    let ran = setting.run(again).await;
    ran.success();
    assert_eq!(setting.team().await.config().await.unwrap().teammates().count(), 0);
}

#[tokio::test]
async fn a_run_that_was_killed_before_its_lead_read_the_goal_is_resumed_with_goal_and_limits() {
    for setting in [TestRun::in_files(), TestRun::new()] {
        let bounds = RunBounds { deny: vec!["Write".to_owned()], ..RunBounds::default() };
        let input =
            TeamCreateInput { team_name: "probe".to_owned(), description: None, agent_type: None };
        // Creating the team is the first step of a run. A run that is killed after this step leaves
        // exactly this team.
        let create = CreateTeam {
            input,
            cwd: setting.cwd.to_string_lossy().into_owned(),
            model: "script:probe".to_owned(),
            session_id: "6a4f8ee8-8c9d-4b5d-9d0a-0d6a3c6f2b11".to_owned(),
            on_taken: OnTaken::Number,
            made_by: MadeBy::Run,
            first_run: Some(FirstRun {
                goal: "Mend the parser.".to_owned(),
                bounds: bounds.clone(),
            }),
        };
        setting.teams.create(create).await.unwrap();
        assert_eq!(setting.team().await.kept_bounds().await.unwrap(), bounds);
        let script = "agents: {team-lead: [{text: I did.}]}";
        let (mut again, model) = setting.overheard(script);
        again.begin = Begin::Resume { team: "probe".to_owned(), goal: Some("Fast.".to_owned()) };
        setting.run(again).await.success();
        let heard = model.told_to("team-lead");
        assert!(heard.iter().any(|text| text == "Mend the parser.\n\nFast."), "{heard:?}");
        let unread = setting.team().await.unread_goal().await.unwrap();
        assert_eq!(unread, None, "the lead's transcript contains the goal now");
    }
}

#[tokio::test]
async fn what_a_run_asked_on_its_way_out_is_void_when_the_team_goes_on() {
    let setting = TestRun::in_files();
    let script = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: wait, prompt: Wait.}}]
    - text: I let it run.
    - wait_for: {contains: I go on, from: message}
      text: I wait.
    - text: Finished.
  bob:
    - wait_for: {contains: shutdown_request}
      text: I wait.
    - tools: [{name: Bash, input: {command: test -e wake-up || sleep 1000}}]
    - wait_for: {contains: is void}
    - tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: I go on, summary: going on}}]
    - wait_for: {contains: '"type":"shutdown_request"', times: 2}
    - capture:
        request: {regex: '"requestId":\s*"(shutdown[^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;
    let mut options = setting.options(script);
    options.agent_options.asks = Asks::Allow;
    options.agent_options.shutdown_grace = Duration::from_secs(600);
    let mut handle = Runtime::start(options).await.unwrap();
    let is_asked = |event: &RunEvent| matches!(event, RunEvent::ToolStarted { agent, .. } if agent.as_str() == "bob");
    until(&mut handle, is_asked).await;
    handle.stopper().kill();
    finish(handle).await;
    std::fs::write(setting.cwd.join("wake-up"), "").unwrap();
    let mut again = setting.options(script);
    again.begin = Begin::Resume { team: "probe".to_owned(), goal: None };
    (again.agent_options.asks, again.agent_options.shutdown_grace) =
        (Asks::Allow, Duration::from_secs(600));
    let ran = setting.run(again).await;
    let team = setting.team().await;
    ran.success();
    let sent = ran.results_of("bob", "SendMessage");
    assert!(sent.len() == 2 && sent[1].contains("Shutdown approved"), "{sent:?}");
    assert_eq!(
        team.config().await.unwrap().teammates().count(),
        0,
        "the second request was obeyed"
    );
}

#[tokio::test]
async fn mail_that_comes_while_a_teammate_agrees_to_shut_down_is_seen_or_its_sender_told() {
    let setting = TestRun::in_files();
    let script = r#"
agents:
  team-lead:
    - tools:
        - {name: Task, input: {name: bob, description: wait, prompt: Wait.}}
        - {name: Task, input: {name: ann, description: wait, prompt: Wait.}}
    - tools: [{name: SendMessage, input: {type: shutdown_request, recipient: bob}}]
    - tools: [{name: SendMessage, input: {type: message, recipient: ann, content: write to bob now, summary: now}}]
    - wait_for: {contains: bob has shut down, from: message}
    - tools: [{name: SendMessage, input: {type: shutdown_request, recipient: ann}}]
    - wait_for: {contains: ann has shut down, from: message}
    - text: Finished.
  bob:
    - wait_for: {contains: shutdown_request}
    - capture:
        request: {regex: '"requestId":\s*"(shutdown[^"]+)"'}
      delay_ms: 1500
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
  ann:
    - wait_for: {contains: write to bob now}
    - tools: [{name: SendMessage, input: {type: message, recipient: bob, content: did you see it, summary: one}}]
    - wait_for: {contains: shutdown_request}
    - capture:
        request: {regex: '"requestId":\s*"(shutdown[^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;
    let (options, overheard) = setting.overheard(script);
    setting.run(options).await.success();
    let has =
        |agent: &str, text: &str| overheard.told_to(agent).iter().any(|told| told.contains(text));
    let is_told = has("ann", "to bob was not delivered: bob is no longer in the team");
    assert!(has("bob", "did you see it") || is_told, "it was neither seen nor told as dead");
}

/// The script of a lead whose work is done as soon as its teammate is idle.
const DONE: &str = "
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: d, prompt: Do it.}}]
    - {repeat: {at_most: 100, turns: [{text: It is done.}]}}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_asked_to_end_its_team_says_why_it_was_ending_already() {
    for was_ending in [false, true] {
        let setting = TestRun::in_files();
        let panes = ProcessPanes::new();
        let mut options = setting.options(DONE);
        options.hosting = hosting(&panes, Program::Claude, &["sleep", "1000"]).0;
        options.agent_options.shutdown_grace = PATIENCE;
        let mut handle = Runtime::start(options).await.unwrap();
        until(&mut handle, |event| stages(std::slice::from_ref(event)) == [LaunchStage::Started])
            .await;
        let bob = Played::bob(&setting).await;
        bob.mail().await;
        bob.is_active(true).await;
        if was_ending {
            bob.is_active(false).await;
            bob.is_idle().await;
            until(&mut handle, |event| matches!(event, RunEvent::ShuttingDown { .. })).await;
        }
        let ask = ControlRequest::EndTeam { wait_seconds: None };
        let answer =
            control_request(&setting.root.join("teams/probe/pitcrew"), &ask).await.unwrap();
        let expected = if was_ending { json!("the work is done") } else { json!(null) };
        assert_eq!(answer[ENDING], expected);
        let ended_by = answer[ENDED_BY].as_i64();
        let teams_clock = setting.team_elsewhere().await.teams().now_ms();
        let left_ms = ended_by.map(|ended_by| ended_by - teams_clock);
        let patience_ms = i64::try_from(PATIENCE.as_millis()).unwrap();
        assert_eq!(left_ms.is_some(), !was_ending, "{answer}");
        assert!(left_ms.is_none_or(|left_ms| 0 < left_ms && left_ms <= patience_ms), "{answer}");
        bob.says_goodbye().await;
        let _either = panes.processes()[0].signal(Signal::TERM).unwrap();
        let end = finish(handle).await.outcome.end;
        assert_eq!(end == RunEnd::ShutDown, !was_ending, "{end:?}");
    }
}
