//! Questions that were put to the lead's person and are answered by somebody else.

use pitcrew_protocol::{AgentName, Frame};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::gate::PermissionMode;
use pitcrew_runtime::run::{Ask, Asks, RunHandle, Runtime};
use pitcrew_team::{Actor, JoinMember, PermissionAsk, Team};
use serde_json::json;
use tokio::sync::mpsc;

use crate::crew_setting::{Setting, finish, until};

/// A lead that is at it for very long.
const LEAD: &str = "agents: {team-lead: [{tools: [{name: TaskList}]}, {delay_ms: 600000, text: Late.}]}";

fn guest() -> AgentName {
    AgentName::new("guest").unwrap()
}

/// A run with a guest, which has asked for a permission: the run, the question as its person sees it, the request.
async fn asked(setting: &Setting) -> (RunHandle, Team, Ask, String) {
    let (person, mut asks) = mpsc::channel(1);
    let mut options = setting.options(LEAD);
    (options.furnishings.asks, options.furnishings.mode) = (Asks::Person(person), PermissionMode::Default);
    let mut handle = Runtime::start(options).await.unwrap();
    until(&mut handle, |event| matches!(event, RunEvent::ToolEnded(_))).await;
    let team = setting.team().await;
    let join = JoinMember {
        name: "guest".to_owned(),
        agent_type: "general-purpose".to_owned(),
        model: "script:test.yaml".to_owned(),
        cwd: setting.cwd.to_string_lossy().into_owned(),
        ..JoinMember::default()
    };
    team.join(join).await.unwrap();
    let ask = PermissionAsk {
        tool_name: "Bash".to_owned(),
        tool_use_id: "toolu_1".to_owned(),
        description: "curl".to_owned(),
        input: json!({"command": "curl example.org"}),
        suggestions: Vec::new(),
    };
    let request = team.request_permission(&guest(), ask).await.unwrap().request_id;
    let ask = asks.recv().await.unwrap();
    assert_eq!((ask.agent.as_str(), ask.tool.as_str()), ("guest", "Bash"));
    (handle, team, ask, request)
}

async fn check_it_is_taken_back(setting: &Setting, approved: bool) {
    let (mut handle, team, mut ask, request) = asked(setting).await;
    team.settle_permission(&guest(), &request, approved).await.unwrap();
    ask.answer.closed().await;
    let told = until(&mut handle, |event| matches!(event, RunEvent::PermissionAnswered { .. })).await;
    let Some(RunEvent::PermissionAnswered { agent, call, refused }) = told.last() else { panic!("{told:?}") };
    assert_eq!((agent.as_str(), call.as_str(), refused.is_none()), ("guest", "toolu_1", approved));
    let unread = team.unread(&AgentName::lead()).await.unwrap();
    assert!(unread.iter().all(|mail| !matches!(mail.frame, Some(Frame::PermissionRequest(_)))), "{unread:?}");
    let answer = team.requests().await.unwrap()[&request].answer.clone().unwrap();
    assert_eq!(answer.approved, approved);
    handle.stopper().stop();
    finish(handle).await;
    assert!(team.unread(&guest()).await.unwrap().is_empty(), "the lead has answered as well");
}

#[tokio::test]
async fn a_question_that_was_answered_beside_the_member_is_taken_back_from_the_leads_person() {
    check_it_is_taken_back(&Setting::new(), true).await;
    check_it_is_taken_back(&Setting::in_files(), true).await;
}

#[tokio::test]
async fn a_question_that_was_denied_beside_the_member_is_taken_back_from_the_leads_person() {
    check_it_is_taken_back(&Setting::in_files(), false).await;
}

#[tokio::test]
async fn a_question_is_taken_back_when_another_process_of_the_users_answers_it() {
    let setting = Setting::in_files();
    let (handle, team, mut ask, request) = asked(&setting).await;
    let allow = pitcrew_team::PermissionAnswer::Allow { updated_input: json!({}), updates: Vec::new() };
    setting.team_elsewhere().await.answer_permission(&Actor::Lead, &request, allow, None).await.unwrap_err();
    assert!(!ask.answer.is_closed(), "nobody but the lead's process speaks for it");
    team.settle_permission(&guest(), &request, true).await.unwrap();
    ask.answer.closed().await;
    handle.stopper().stop();
    finish(handle).await;
}
