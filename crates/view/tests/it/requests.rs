//! The requests of a user interface in another process, sent to the host of a real run.

use pitcrew_protocol::{ApiError, ErrorCode, PermissionMode, Status};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::run::RunEnd;
use pitcrew_view::client::{self, PlanVerdict};
use pitcrew_view::host::What;
use pitcrew_view::lead::LeadError;
use serde_json::json;

use crate::host_env::Hosted;
use crate::script::name;

/// The script of a lead that is busy for ten minutes, and of teammates that say little and approve
/// no shutdown.
const SCRIPT: &str = "
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: work, prompt: Work.}}]
    - delay_ms: 600000
      text: Late.
  bob:
    - text: I wait.
  eve:
    - text: I wait too.
";

fn is_run(wanted: impl Fn(&RunEvent) -> bool) -> impl Fn(&What) -> bool {
    move |what| matches!(what, What::Run(event) if wanted(event))
}

#[track_caller]
fn refused<T: std::fmt::Debug>(answered: Result<T, LeadError>) -> ApiError {
    match answered {
        Err(LeadError::Refused { error, .. }) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_request_of_a_user_interface_reaches_the_host() {
    let mut hosted = Hosted::start(SCRIPT).await;
    let (team, bob, eve) = (hosted.team_elsewhere().await, name("bob"), name("eve"));
    let is_idle = |event: &RunEvent| matches!(event, RunEvent::AgentChanged { agent, status: Status::Idle, .. } if agent.as_str() == "bob");
    hosted.until(is_run(is_idle)).await;

    assert!(client::set_mode(&team, &bob, PermissionMode::Plan).await.unwrap());
    hosted.until(is_run(|event| matches!(event, RunEvent::ModeChanged { .. }))).await;
    assert!(client::set_model(&team, &bob, "script:test.yaml").await.unwrap());
    hosted.until(is_run(|event| matches!(event, RunEvent::ModelChanged { .. }))).await;
    assert!(client::compact(&team, Some(&bob)).await.unwrap());
    hosted.until(is_run(|event| matches!(event, RunEvent::Compacted(_)))).await;

    let permissions = client::permissions(&team).await.unwrap().unwrap();
    assert_eq!((permissions.granted, permissions.left_out), (Vec::new(), 0));

    let sent_back = PlanVerdict::SentBack { feedback: Some("smaller".to_owned()) };
    let no_plan = refused(client::answer_plan(&team, ("plan-0", &bob), sent_back).await);
    assert_eq!(no_plan.details["open_requests"], json!([]));
    for no_pane in [
        refused(client::hide_pane(&team, &bob).await),
        refused(client::show_pane(&team, &bob).await.map(|it| it.is_some())),
    ] {
        assert_eq!(no_pane.code, ErrorCode::InvalidStatus);
    }

    let input = json!({"name": "eve", "description": "wait", "prompt": "Wait."});
    let spawned = client::spawn(&team, input).await.unwrap().unwrap();
    assert_eq!(spawned["agent_id"], "eve@probe");
    assert!(client::shut_down(&team, &eve, Some("done".to_owned())).await.unwrap());
    assert!(client::stop_member(&team, &eve).await.unwrap());
    let is_stopped = |event: &RunEvent| matches!(event, RunEvent::AgentChanged { agent, status: Status::Killed, .. } if agent.as_str() == "eve");
    hosted.until(is_run(is_stopped)).await;
    let ending = client::end_team(&team, Some(10)).await.unwrap().unwrap();
    assert!(ending.ended_by_ms.is_some());
    assert!(matches!(hosted.host.outcome().await.end, RunEnd::ShutDown));
    assert!(client::permissions(&team).await.unwrap().is_none());
    assert!(!client::stop_run(&team).await.unwrap(), "no process runs the team any more");
}
