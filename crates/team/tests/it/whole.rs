//! The whole life of a team, in files and in memory. A second test runs two processes on the same
//! files at the same time.

use std::sync::Arc;

use pitcrew_protocol::{Frame, SendMessageInput, StatusChange, TaskStatus, TaskUpdateInput};
use pitcrew_store::{Backend, FileBackend, FileOptions, MemoryBackend};
use pitcrew_team::{Actor, IdleNotice, IdleReason, SystemClock, Teams};

use crate::team_env::{Crew, as_member, limits, member, message, name, task, update};

/// Runs a team through planning, work, messages and its end. The result must be the same on every
/// backend.
async fn live(backend: Arc<dyn Backend>) {
    let crew = Crew::on(backend, limits()).await;
    let team = &crew.team;
    for subject in ["build", "test"] {
        team.create_task(&Actor::Lead, task(subject), Some(subject)).await.unwrap();
    }
    let wait = TaskUpdateInput { add_blocked_by: vec!["1".into()], ..update("2") };
    team.update_task(&Actor::Lead, wait).await.unwrap();
    assert_eq!(team.claim(&as_member("worker"), None).await.unwrap().id.as_str(), "1");
    team.claim(&as_member("planner"), None).await.unwrap_err();
    let done =
        TaskUpdateInput { status: Some(StatusChange::To(TaskStatus::Completed)), ..update("1") };
    team.update_task(&as_member("worker"), done).await.unwrap();
    assert_eq!(team.claim(&as_member("planner"), None).await.unwrap().id.as_str(), "2");

    crew.send(&as_member("worker"), message("planner", "built")).await;
    let mail = crew.unread("planner").await;
    let ids: Vec<_> = mail.iter().map(|m| m.id.clone()).collect();
    assert_eq!(mail.iter().map(|m| m.frame.is_some()).collect::<Vec<_>>(), [true, false]);
    team.injected(&name("planner"), &ids).await;
    team.acknowledge(&name("planner"), &ids).await.unwrap();
    assert_eq!(crew.unread("planner").await, []);

    let idle = IdleNotice {
        reason: IdleReason::Available,
        summary: None,
        completed: None,
        failure: None,
        result: None,
    };
    team.notify_idle(&name("worker"), idle).await.unwrap();
    for gone in ["worker", "planner"] {
        let ask = SendMessageInput::ShutdownRequest { recipient: gone.into(), content: None };
        crew.send(&Actor::Lead, ask).await;
        let Some(Frame::ShutdownRequest(ask)) = crew.unread(gone).await.pop().unwrap().frame else {
            panic!("no request")
        };
        let agree = SendMessageInput::ShutdownResponse {
            request_id: ask.request_id,
            approve: true,
            content: None,
        };
        crew.send(&as_member(gone), agree).await;
        team.remove_member(&Actor::Lead, &name(gone)).await.unwrap();
    }
    assert_eq!(team.task("2").await.unwrap().status, TaskStatus::Pending);
    assert!(team.delete(&Actor::Lead).await.unwrap().success);
    assert!(crew.teams.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_team_lives_in_memory() {
    live(Arc::new(MemoryBackend::new())).await;
}

#[tokio::test]
async fn a_team_lives_on_files() {
    let root = tempfile::tempdir().unwrap();
    live(Arc::new(FileBackend::open(root.path(), FileOptions::default()))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_claims_through_two_processes_one_wins() {
    let root = tempfile::tempdir().unwrap();
    let open =
        || -> Arc<dyn Backend> { Arc::new(FileBackend::open(root.path(), FileOptions::default())) };
    let crew = Crew::on(open(), limits()).await;
    for n in 0..6 {
        crew.team.spawn(member(&format!("w{n}"))).await.unwrap();
    }
    crew.team.create_task(&Actor::Lead, task("the one"), None).await.unwrap();
    let mut claims = Vec::new();
    for n in 0..6 {
        let teams = Teams::new(open(), limits(), Arc::new(SystemClock));
        claims.push(tokio::spawn(async move {
            let team = teams.open("probe").await.unwrap();
            team.claim(&as_member(&format!("w{n}")), Some("1")).await.is_ok()
        }));
    }
    let mut winners = 0;
    for claim in claims {
        winners += usize::from(claim.await.unwrap());
    }
    assert_eq!(winners, 1);
}

#[tokio::test]
async fn a_config_that_cannot_be_read_is_told_with_its_path_and_harms_no_other_team() {
    let root = tempfile::tempdir().unwrap();
    let crew =
        Crew::on(Arc::new(FileBackend::open(root.path(), FileOptions::default())), limits()).await;
    crew.teams.create(crate::team_env::create("other")).await.unwrap();
    std::fs::write(crew.team.file(), "{ not json").unwrap();
    let error = crew.team.send(&Actor::Lead, message("worker", "x"), None).await.unwrap_err();
    crate::team_env::is(&error, pitcrew_protocol::ErrorCode::InternalError);
    assert_eq!(error.details["path"], crew.team.file().display().to_string());
    assert!(error.details.contains_key("reason"));
    let list = crew.teams.list().await.unwrap();
    assert_eq!(
        list.iter().map(|t| (t.name.as_str(), t.problem.is_some())).collect::<Vec<_>>(),
        [("other", false), ("probe", true)]
    );
}
