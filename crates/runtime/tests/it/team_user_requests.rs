//! Requests of the user's other processes about one member of a run: another model, a compaction, a
//! stop, and the member's pane.

use std::path::Path;
use std::sync::Arc;

use pitcrew_model::{Model, ModelError, Script, Scripted};
use pitcrew_protocol::{AgentName, ApiError, ErrorCode, PermissionMode, Program, Status};
use pitcrew_runtime::control_socket::{ControlRequest, KnockError, control_request};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::run::{OpenModel, RunEnd, RunHandle, Runtime};
use serde_json::{Value, json};

use crate::panes_process::ProcessPanes;
use crate::team_elsewhere::{LOSING, hosting};
use crate::team_env::{TestRun, finish, until};

async fn ask(setting: &TestRun, request: &ControlRequest) -> Result<Value, ApiError> {
    match control_request(&setting.root.join("teams/probe/pitcrew"), request).await {
        Ok(answer) => Ok(answer),
        Err(KnockError::Refused(error)) => Err(error),
        Err(other) => panic!("{other:?}"),
    }
}

fn model_of(member: &str, model: &str) -> ControlRequest {
    ControlRequest::Model { member: member.to_owned(), model: model.to_owned() }
}

fn compact(member: &str) -> ControlRequest {
    ControlRequest::Compact { member: Some(member.to_owned()) }
}

fn stop(member: &str) -> ControlRequest {
    ControlRequest::StopMember { member: member.to_owned() }
}

/// Opens two scripted models, `script:one` and `script:two`. Other names are no models.
fn two_models(one: &str, two: &str) -> OpenModel {
    let open = |script: &str| -> Arc<dyn Model> {
        Arc::new(Scripted::new(Script::parse(Path::new("test.yaml"), script).unwrap()))
    };
    let (one, two) = (open(one), open(two));
    Arc::new(move |name| match name {
        "script:one" => Ok(one.clone()),
        "script:two" => Ok(two.clone()),
        _ => Err(ModelError::Spec { given: name.to_owned() }),
    })
}

/// The script of a lead with the teammate bob, whose first command runs until the test creates the
/// file `go`.
const ONE: &str = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: work, prompt: Work.}}]
    - wait_for: {contains: I am on, from: message}
    - text: Done.
  bob:
    - tools: [{name: Bash, input: {command: 'until test -e go; do sleep 0.05; done'}}]
    - tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: I am on one., summary: one}}]
"#;

/// The script of the other model. Bob has made its first call with the first model.
const TWO: &str = r#"
agents:
  bob:
    - text: This was the call of the other model.
    - tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: I am on two., summary: two}}]
    - wait_for: {contains: shutdown_request}
    - capture:
        request: {from: message, regex: '"requestId":\s*"(shutdown[^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;

fn begins_command(event: &RunEvent) -> bool {
    matches!(event, RunEvent::ToolStarted { tool, .. } if tool == "Bash")
}

#[tokio::test]
async fn a_member_calls_its_new_model_from_its_next_call_on() {
    let setting = TestRun::in_files();
    let mut options = setting.options(ONE);
    options.model = "script:one".to_owned();
    options.agent_options.open_model = two_models(ONE, TWO);
    options.agent_options.models = vec!["script:one".to_owned(), "script:two".to_owned()];
    options.agent_options.mode = PermissionMode::BypassPermissions;
    let mut handle = Runtime::start(options).await.unwrap();
    until(&mut handle, begins_command).await;

    let unknown = ask(&setting, &model_of("bob", "of tomorrow")).await.unwrap_err();
    assert_eq!(
        (unknown.code, &unknown.details["valid_models"]),
        (ErrorCode::InvalidRequest, &json!(["script:one", "script:two"]))
    );
    let nobody = ask(&setting, &model_of("zoe", "script:two")).await.unwrap_err();
    assert_eq!(
        (nobody.code, &nobody.details["valid_agents"]),
        (ErrorCode::AgentNotFound, &json!(["team-lead", "bob"]))
    );
    let answer = ask(&setting, &model_of("bob", "script:two")).await.unwrap();
    assert_eq!(answer, json!({"success": true, "name": "bob", "model": "script:two"}));
    let mode_of = |mode: &str| ControlRequest::Mode { member: " BOB\n".into(), mode: mode.into() };
    let free = ask(&setting, &mode_of("bypassPermissions")).await.unwrap();
    assert_eq!(free, json!({"success": true, "name": "bob", "mode": "bypassPermissions"}));
    let broken = ask(&setting, &mode_of("plan\n")).await.unwrap_err();
    assert_eq!(broken.code, ErrorCode::InvalidRequest);
    assert!(broken.message.contains(r"there is no permission mode 'plan\n'"), "{broken:?}");
    let config = setting.team().await.config().await.unwrap();
    assert_eq!(config.member("bob").unwrap().model.as_deref(), Some("script:two"));

    std::fs::write(setting.cwd.join("go"), "").unwrap();
    let ran = finish(handle).await;
    ran.success();
    let changed = ran.events.iter().any(|event| {
        matches!(event, RunEvent::ModelChanged { agent, model }
            if agent.as_str() == "bob" && model == "script:two")
    });
    assert!(changed, "{:#?}", ran.events);
    let sent = ran.results_of("bob", "SendMessage");
    assert!(sent[0].contains("team-lead"), "{sent:?}");
    let mail = ran.events.iter().filter_map(|event| match event {
        RunEvent::ToolStarted { agent, input, .. } if agent.as_str() == "bob" => {
            input["content"].as_str()
        }
        _ => None,
    });
    assert_eq!(mail.collect::<Vec<_>>(), ["I am on two."]);
}

/// The script of a lead that is busy for ten minutes, and of a teammate that says little.
const IDLE: &str = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: work, prompt: Work.}}]
    - delay_ms: 600000
      text: Late.
  bob:
    - text: I wait.
"#;

fn is_now(name: &'static str, wanted: Status) -> impl FnMut(&RunEvent) -> bool {
    move |event| {
        matches!(event, RunEvent::AgentChanged { agent, status, .. }
            if agent.as_str() == name && *status == wanted)
    }
}

async fn with_idle_bob(setting: &TestRun) -> RunHandle {
    let mut handle = Runtime::start(setting.options(IDLE)).await.unwrap();
    until(&mut handle, is_now("bob", Status::Idle)).await;
    handle
}

#[tokio::test]
async fn an_idle_member_compacts_when_the_user_asks_and_rests_again() {
    let setting = TestRun::in_files();
    let mut handle = with_idle_bob(&setting).await;
    let answer = ask(&setting, &compact("bob")).await.unwrap();
    assert_eq!(answer, json!({"success": true, "name": "bob"}));
    let of_bob =
        |event: &RunEvent| matches!(event, RunEvent::Compacted(it) if it.agent.as_str() == "bob");
    until(&mut handle, of_bob).await;
    until(&mut handle, is_now("bob", Status::Idle)).await;
    let nobody = ask(&setting, &compact("zoe")).await.unwrap_err();
    assert_eq!(nobody.code, ErrorCode::AgentNotFound);
    handle.stopper().kill();
    finish(handle).await;
}

#[tokio::test]
async fn the_user_stops_a_teammate_for_good_but_not_the_lead() {
    let setting = TestRun::in_files();
    let mut handle = with_idle_bob(&setting).await;
    let lead = ask(&setting, &stop("team-lead")).await.unwrap_err();
    assert_eq!(lead.code, ErrorCode::InvalidStatus);
    assert!(lead.message.contains("stop_run or end_team"), "{lead}");
    ask(&setting, &stop("bob")).await.unwrap();
    until(&mut handle, is_now("bob", Status::Killed)).await;
    let gone = async {
        while setting.team().await.config().await.unwrap().member("bob").is_some() {
            tokio::task::yield_now().await;
        }
    };
    crate::patience::in_time("bob has left the team", gone).await;
    let again = ask(&setting, &stop("bob")).await.unwrap_err();
    assert_eq!(
        (again.code, &again.details["valid_agents"]),
        (ErrorCode::AgentNotFound, &json!(["team-lead"]))
    );
    handle.stopper().kill();
    finish(handle).await;
}

#[tokio::test]
async fn the_user_stops_the_run_and_the_team_can_be_resumed() {
    let setting = TestRun::in_files();
    let handle = with_idle_bob(&setting).await;
    let answer = ask(&setting, &ControlRequest::StopRun).await.unwrap();
    assert_eq!(answer, json!({"success": true, "ending": null}));
    let ran = finish(handle).await;
    assert!(matches!(ran.outcome.end, RunEnd::Interrupted), "{:?}", ran.outcome.end);
    let config = setting.team().await.config().await.unwrap();
    assert!(config.member("bob").is_some(), "bob can be resumed");
}

#[tokio::test]
async fn a_member_in_a_process_of_its_own_keeps_its_model_and_can_be_stopped() {
    let setting = TestRun::in_files();
    let panes = ProcessPanes::new();
    let mut options = setting.options(LOSING);
    (options.hosting, _) = hosting(&panes, Program::Claude, &["sleep", "1000"]);
    let mut handle = Runtime::start(options).await.unwrap();
    until(&mut handle, |event| matches!(event, RunEvent::ToolEnded(it) if it.tool == "Task")).await;
    for request in [model_of("bob", "script:test.yaml"), compact("bob")] {
        let refused = ask(&setting, &request).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::InvalidStatus);
        assert!(refused.message.contains("runs in a process of its own"), "{refused}");
    }
    let bob = || "bob".to_owned();
    for request in
        [ControlRequest::HidePane { member: bob() }, ControlRequest::ShowPane { member: bob() }]
    {
        let refused = ask(&setting, &request).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::InternalError);
        assert!(refused.message.contains("a process cannot be"), "{refused}");
    }
    let lead = ControlRequest::HidePane { member: AgentName::lead().to_string() };
    let refused = ask(&setting, &lead).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidStatus);
    assert!(refused.message.contains("is not in a pane of this run"), "{refused}");
    ask(&setting, &stop("bob")).await.unwrap();
    let ran = finish(handle).await;
    let told = ran.outcome.agents.iter().find(|agent| agent.name.as_str() == "bob").unwrap();
    assert_eq!(told.state, Status::Killed, "{told:?}");
}
