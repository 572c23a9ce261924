//! A process dies at each possible write and is started again. No data is lost, and no data exists
//! twice.

use std::sync::Arc;

use pitcrew_protocol::{
    ApiError, ErrorCode, SendMessageInput, Status, StatusChange, TaskStatus, TaskUpdateInput,
};
use pitcrew_team::store::{Event as Noted, JournalStore as _};
use pitcrew_team::{Actor, PermissionAnswer, PermissionAsk, RequestKind, Team};
use serde_json::json;

use crate::mortal::MortalBackend;
use crate::team_env::{Crew, as_member, broadcast, limits, member, message, name, task, update};

/// The number of steps in a sequence of team operations. Each step is one operation with a call id,
/// like an agent's tool call, so a step can be repeated.
pub(crate) const STEPS: usize = 17;

pub(crate) async fn step(team: &Team, n: usize) -> Result<(), ApiError> {
    let call = format!("toolu_{n}");
    let call = Some(call.as_str());
    let (worker, planner) = (as_member("worker"), as_member("planner"));
    match n {
        0 => team.create_task(&Actor::Lead, task("build"), call).await.map(drop),
        1 => team.create_task(&planner, task("test"), call).await.map(drop),
        2 => {
            let wait = TaskUpdateInput { add_blocked_by: vec!["1".into()], ..update("2") };
            team.update_task(&Actor::Lead, wait).await.map(drop)
        }
        3 => team.claim(&worker, Some("1")).await.map(drop),
        4 => team.send(&worker, message("planner", "hello"), call).await.map(drop),
        5 => team.send(&Actor::Lead, broadcast("all of you"), call).await.map(drop),
        6..=11 => request_step(team, n, call).await,
        12 => {
            let ids: Vec<_> =
                team.unread(&name("planner")).await?.into_iter().map(|m| m.id).collect();
            team.injected(&name("planner"), &ids).await;
            team.acknowledge(&name("planner"), &ids).await
        }
        13 => {
            let done = TaskUpdateInput {
                status: Some(StatusChange::To(TaskStatus::Completed)),
                ..update("1")
            };
            team.update_task(&worker, done).await.map(drop)
        }
        14 => {
            let give = TaskUpdateInput { owner: Some("worker".into()), ..update("2") };
            team.update_task(&Actor::Lead, give).await.map(drop)
        }
        15 => {
            let mut spawn = member("tester");
            spawn.call = call.map(str::to_owned);
            team.spawn(spawn).await.map(drop)
        }
        _ => team.remove_member(&Actor::Lead, &name("worker")).await.map(drop),
    }
}

/// Runs step `n`, if step `n` sends or answers a request.
async fn request_step(team: &Team, n: usize, call: Option<&str>) -> Result<(), ApiError> {
    match n {
        6 => {
            let ask =
                SendMessageInput::ShutdownRequest { recipient: "worker".into(), content: None };
            team.send(&Actor::Lead, ask, call).await.map(drop)
        }
        7 => {
            let request_id = request(team, RequestKind::Shutdown).await?;
            let content = Some("still busy".to_owned());
            let answer = SendMessageInput::ShutdownResponse { request_id, approve: false, content };
            team.send(&as_member("worker"), answer, call).await.map(drop)
        }
        8 => team
            .request_plan_approval(&name("planner"), "/plans/a.md", "# Plan", call)
            .await
            .map(drop),
        9 => {
            let (request_id, recipient) =
                (request(team, RequestKind::Plan).await?, "planner".to_owned());
            let answer = SendMessageInput::PlanApprovalResponse {
                request_id,
                recipient,
                approve: true,
                content: None,
            };
            team.send(&Actor::Lead, answer, call).await.map(drop)
        }
        10 => {
            let ask = PermissionAsk {
                tool_name: "Bash".into(),
                tool_use_id: "toolu_10".into(),
                description: "touch".into(),
                input: json!({}),
                suggestions: Vec::new(),
                digest: None,
            };
            team.request_permission(&name("worker"), ask).await.map(drop)
        }
        _ => {
            let id = request(team, RequestKind::Permission).await?;
            let deny = PermissionAnswer::Deny { reason: "no".into() };
            team.answer_permission(&Actor::Lead, &id, deny, call).await.map(drop)
        }
    }
}

async fn request(team: &Team, kind: RequestKind) -> Result<String, ApiError> {
    let requests = team.requests().await?;
    Ok(requests.into_iter().find(|(_, r)| r.kind == kind).map(|(id, _)| id).unwrap())
}

/// Returns the part of the team's state that must be the same with and without a crash.
pub(crate) async fn outcome(team: &Team) -> Vec<String> {
    let mut lines = Vec::new();
    for of in ["team-lead", "worker", "planner", "tester"] {
        let mut mail: Vec<String> = Vec::new();
        for m in team.mail(&name(of)).await.unwrap() {
            let text =
                m.frame.as_ref().map_or(m.message.text.split(':').next().unwrap(), |f| f.kind());
            let text =
                if m.message.from == "system" { "a message was not delivered" } else { text };
            mail.push(format!(
                "{of} <- {}: {text} (read: {})",
                m.message.from,
                m.message.is_read()
            ));
        }
        mail.sort();
        lines.extend(mail);
    }
    for task in team.tasks().await.unwrap() {
        let blockers: Vec<_> = task.blocked_by.iter().map(ToString::to_string).collect();
        lines.push(format!(
            "{} {} {} {:?} {blockers:?}",
            task.id,
            task.subject,
            task.status.as_str(),
            task.owner
        ));
    }
    let config = team.config().await.unwrap();
    lines.push(config.members.iter().map(|m| m.name.to_string()).collect::<Vec<_>>().join(" "));
    for request in team.requests().await.unwrap().values() {
        lines.push(format!("{:?} {:?}", request.kind, request.answer.as_ref().map(|a| a.approved)));
    }
    lines
}

/// Runs all steps, with a crash at the point `dies_at`. Returns the final state, and true if the
/// process died.
async fn day(dies_at: u64) -> (Vec<String>, bool) {
    let backend = Arc::new(MortalBackend::default());
    let crew = Crew::on(backend.clone(), limits()).await;
    backend.die_at(dies_at);
    let mut died = false;
    for n in 0..STEPS {
        let done = step(&crew.team, n).await;
        if dies_at == 0 || died || backend.passed() < dies_at {
            done.unwrap();
            continue;
        }
        died = true;
        backend.die_at(0);
        crew.wait_ms(5000);
        crew.team.finish_removals().await.unwrap();
        crew.team.finish_answers().await.unwrap();
        crew.team.finish_assignments().await.unwrap();
        match step(&crew.team, n).await {
            Err(error) if n == STEPS - 1 => {
                assert_eq!(error.code, ErrorCode::AgentNotFound, "it was removed already")
            }
            again => again.unwrap(),
        }
    }
    backend.die_at(0);
    (outcome(&crew.team).await, died)
}

#[tokio::test]
async fn a_death_at_any_write_loses_nothing_and_doubles_nothing() {
    let (expected, _) = day(0).await;
    insta::assert_snapshot!(expected.join("\n"), @r#"
    team-lead <- planner: plan_approval_request (read: false)
    team-lead <- system: a message was not delivered (read: false)
    team-lead <- worker: shutdown_rejected (read: false)
    team-lead <- worker: {"type" (read: false)
    worker <- team-lead: all of you (read: true)
    worker <- team-lead: permission_response (read: true)
    worker <- team-lead: shutdown_request (read: true)
    worker <- team-lead: task_assignment (read: true)
    worker <- worker: {"type" (read: true)
    planner <- team-lead: all of you (read: true)
    planner <- team-lead: plan_approval_response (read: true)
    planner <- worker: hello (read: true)
    1 build completed Some("worker") []
    2 test pending None ["1"]
    team-lead planner tester
    Permission Some(false)
    Plan Some(true)
    Shutdown Some(false)
    "#);
    let mut point = 0;
    loop {
        point += 1;
        let (outcome, died) = day(point).await;
        assert_eq!(outcome, expected, "with a death at point {point}");
        if !died {
            break;
        }
    }
    assert!(point > 100, "the day has only {point} points");
}

#[tokio::test]
async fn journal_entries_that_the_disk_refuses_are_written_in_order_before_the_next() {
    let backend = Arc::new(MortalBackend::default());
    let crew = Crew::on(backend.clone(), limits()).await;
    let noted = |detail: &str| Noted::MemberChanged {
        member: name("worker"),
        state: Status::Active.into(),
        detail: Some(detail.to_owned()),
    };
    backend.die_at(1);
    crew.team.note([noted("first")]).await;
    crew.team.note([noted("second")]).await;
    assert!(crew.team.is_journal_behind());
    backend.die_at(0);
    crew.team.note([noted("third")]).await;
    assert!(!crew.team.is_journal_behind());
    let journal = backend.journal_since(crew.team.dir(), 0).await.unwrap().0;
    let details: Vec<_> = journal
        .into_iter()
        .filter_map(|entry| match entry.event {
            Noted::MemberChanged { state, detail, .. } => state.status().and(detail),
            _ => None,
        })
        .collect();
    assert_eq!(details, ["first", "second", "third"]);
}
