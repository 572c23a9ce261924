//! Tests of a team whose lead has died: a teammate becomes the lead and completes the work.

use pitcrew_agent::transcript::{Step, read};
use pitcrew_protocol::{AgentName, ErrorCode, SendMessageInput, Status, TaskStatus};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::run::{Begin, RunError, Runtime};
use pitcrew_team::store::LogName;
use pitcrew_team::{Actor, Team};

use crate::team_env::{TestRun, finish, until};

/// The script of a lead with two teammates. One teammate completes half of its task.
const FIRST: &str = r#"
agents:
  team-lead:
    - tools:
        - {name: TeamCreate, input: {team_name: probe}}
    - tools:
        - {name: TaskCreate, input: {subject: Write it, description: Write both halves}}
    - tools:
        - {name: Task, input: {name: writer, description: Write, prompt: Do task 1.}}
        - {name: Task, input: {name: other, description: Wait, prompt: Wait.}}
    - {delay_ms: 600000, text: Late.}
  writer:
    - tools:
        - {name: TaskUpdate, input: {taskId: '1', status: in_progress}}
    - tools:
        - {name: Write, input: {file_path: half.txt, content: one half}}
    - wait_for: {contains: never said}
  other:
    - wait_for: {contains: never said}
"#;

/// The script after the takeover: the member `writer` is now the lead. Its first two answers repeat
/// the answers that it gave as `writer`.
const SECOND: &str = r#"
agents:
  team-lead:
    - text: first
    - text: second
    - tools:
        - {name: TaskUpdate, input: {taskId: '1', status: in_progress, owner: team-lead}}
        - {name: Read, input: {file_path: half.txt}}
    - tools:
        - {name: Edit, input: {file_path: half.txt, old_string: one half, new_string: both halves}}
        - {name: TaskUpdate, input: {taskId: '1', status: completed}}
        - {name: SendMessage, input: {type: shutdown_request, recipient: other}}
    - wait_for: {contains: teammate_terminated, from: message}
    - text: The lead is dead, long live the lead.
  other:
    - wait_for: {contains: shutdown_request}
    - capture:
        request: {regex: '"requestId":\s*"([^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;

fn name(name: &str) -> AgentName {
    AgentName::new(name).unwrap()
}

/// Runs the first script until both teammates are idle, and then kills the run.
async fn killed(setting: &TestRun) -> Team {
    let mut run = Runtime::start(setting.options(FIRST)).await.unwrap();
    let mut idle = std::collections::HashSet::new();
    until(&mut run, |event| {
        if let RunEvent::AgentChanged { agent, status: Status::Idle, .. } = event {
            idle.insert(agent.clone());
        }
        idle.contains(&name("writer")) && idle.contains(&name("other"))
    })
    .await;
    run.stopper().kill();
    let _outcome = run.outcome().await;
    setting.team().await
}

fn taking_over(member: Option<&str>) -> Begin {
    Begin::TakeOver {
        team: "probe".to_owned(),
        member: member.map(name),
        goal: Some("Be quick.".to_owned()),
    }
}

async fn steps(team: &Team, log: LogName) -> Vec<Step> {
    let lines = team.backend().log(team.dir(), &log).await.unwrap();
    read(&lines).unwrap().entries.into_iter().map(|entry| entry.step).collect()
}

/// Checks the team after `writer` has become the lead and the run has ended.
async fn check(setting: &TestRun, team: &Team) {
    let config = team.config().await.unwrap();
    assert_eq!(config.members.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(), ["team-lead"]);
    let tasks = team.tasks().await.unwrap();
    assert_eq!(
        (tasks[0].status, tasks[0].owner.as_deref()),
        (TaskStatus::Completed, Some("team-lead"))
    );
    assert_eq!(std::fs::read_to_string(setting.cwd.join("half.txt")).unwrap(), "both halves");
    assert_eq!(team.take_over().await.unwrap(), None);
}

async fn a_member_takes_over(setting: TestRun) {
    let team = killed(&setting).await;
    let mail = SendMessageInput::Message {
        recipient: "team-lead".to_owned(),
        content: "for whoever leads".to_owned(),
        summary: Some("news".to_owned()),
    };
    team.send(&Actor::Member(name("other")), mail, None).await.unwrap();
    let (mut options, overheard) = setting.overheard(SECOND);
    options.begin = taking_over(Some("writer"));
    let ran = finish(Runtime::start(options).await.unwrap()).await;
    assert_eq!(ran.success(), "The lead is dead, long live the lead.");
    let told = overheard.told_to("team-lead").join("\n");
    for part in [
        "Do task 1.",
        "Be quick.",
        "for whoever leads",
        "\"writer\"",
        "- other (",
        "- #1 [pending] Write it",
    ] {
        assert!(told.contains(part), "{part:?} is missing in {told}");
    }
    check(&setting, &team).await;
}

#[tokio::test]
async fn a_member_goes_on_as_the_lead_with_what_it_knows() {
    a_member_takes_over(TestRun::new()).await;
    a_member_takes_over(TestRun::in_files()).await;
}

#[tokio::test]
async fn the_conversation_of_the_dead_lead_is_kept_and_a_take_over_that_a_crash_cut_off_is_finished()
 {
    let setting = TestRun::in_files();
    let team = killed(&setting).await;
    let old = steps(&team, LogName::Transcript(AgentName::lead())).await;
    let noted = team.begin_take_over(&Actor::User, &name("writer")).await.unwrap();
    let mut options = setting.options(SECOND);
    options.begin = Begin::Resume { team: "probe".to_owned(), goal: None };
    let ran = finish(Runtime::start(options).await.unwrap()).await;
    assert_eq!(ran.success(), "The lead is dead, long live the lead.");
    check(&setting, &team).await;
    let kept =
        steps(&team, LogName::Former { agent: AgentName::lead(), until_ms: noted.at_ms }).await;
    assert_eq!(kept, old);
}

#[tokio::test]
async fn nobody_takes_over_from_a_lead_that_lives() {
    let setting = TestRun::new();
    let mut run = Runtime::start(setting.options(FIRST)).await.unwrap();
    until(
        &mut run,
        |event| matches!(event, RunEvent::AgentChanged { agent, .. } if agent.as_str() == "writer"),
    )
    .await;
    let mut options = setting.options(SECOND);
    options.begin = taking_over(Some("writer"));
    let error = Runtime::start(options).await.unwrap_err();
    assert!(matches!(error, RunError::Held { pid, .. } if pid == std::process::id()), "{error}");
    assert_eq!(setting.team().await.take_over().await.unwrap(), None);
}

#[tokio::test]
async fn only_a_member_with_a_conversation_of_ours_takes_over() {
    let setting = TestRun::new();
    let team = killed(&setting).await;
    team.spawn(pitcrew_team::SpawnMember { name: "new".to_owned(), ..Default::default() })
        .await
        .unwrap();
    for (member, code) in [
        ("nobody", ErrorCode::AgentNotFound),
        ("new", ErrorCode::InvalidStatus),
        ("team-lead", ErrorCode::PermissionDenied),
    ] {
        let mut options = setting.options(SECOND);
        options.begin = taking_over(Some(member));
        match Runtime::start(options).await.unwrap_err() {
            RunError::Team(error) => assert_eq!(error.code, code, "{member}: {error}"),
            error => panic!("{member}: {error}"),
        }
    }
    assert_eq!(team.take_over().await.unwrap(), None);
    assert_eq!(team.config().await.unwrap().members.len(), 4);
}
