//! The rules of tasks.

use insta::assert_snapshot;
use pitcrew_protocol::{ErrorCode, Frame, Limits, Rate, StatusChange, TaskStatus, TaskUpdateInput};
use pitcrew_store::Event;
use pitcrew_team::{Actor, TaskListView, TaskView};
use serde_json::json;

use crate::team_env::{Crew, as_member, is, limits, name, task, update};

const START: Option<StatusChange> = Some(StatusChange::To(TaskStatus::InProgress));
const DONE: Option<StatusChange> = Some(StatusChange::To(TaskStatus::Completed));
const AGAIN: Option<StatusChange> = Some(StatusChange::To(TaskStatus::Pending));

async fn crew_with_tasks(count: usize) -> Crew {
    let crew = Crew::new().await;
    for n in 1..=count {
        crew.team.create_task(&Actor::Lead, task(&format!("task {n}")), None).await.unwrap();
    }
    crew
}

async fn change(crew: &Crew, actor: &Actor, input: TaskUpdateInput) -> Vec<String> {
    crew.team.update_task(actor, input).await.unwrap().updated_fields
}

async fn refused(crew: &Crew, actor: &Actor, input: TaskUpdateInput) -> pitcrew_protocol::ApiError {
    crew.team.update_task(actor, input).await.unwrap_err()
}

fn waits_for(id: &str, blockers: &[&str]) -> TaskUpdateInput {
    TaskUpdateInput {
        add_blocked_by: blockers.iter().map(|&b| b.to_owned()).collect(),
        ..update(id)
    }
}

fn owned_by(id: &str, owner: &str) -> TaskUpdateInput {
    TaskUpdateInput { owner: Some(owner.into()), ..update(id) }
}

fn with_status(id: &str, status: Option<StatusChange>) -> TaskUpdateInput {
    TaskUpdateInput { status, ..update(id) }
}

#[tokio::test]
async fn a_new_task_is_pending_and_nobody_s() {
    let crew = Crew::new().await;
    let mut input = task("Do A");
    input.active_form = Some("Doing A".into());
    input.metadata = json!({"p": 1}).as_object().cloned();
    let made = crew.team.create_task(&as_member("worker"), input, None).await.unwrap();
    assert_snapshot!(serde_json::to_string_pretty(&made).unwrap(), @r#"
    {
      "id": "1",
      "subject": "Do A",
      "description": "what to do",
      "activeForm": "Doing A",
      "status": "pending",
      "blocks": [],
      "blockedBy": [],
      "metadata": {
        "p": 1,
        "pitcrew": {
          "createdBy": "worker",
          "createdAt": 1795175309433,
          "updatedAt": 1795175309433
        }
      }
    }
    "#);
    assert_snapshot!(serde_json::to_string_pretty(&TaskView::of(&made)).unwrap(), @r#"
    {
      "taskId": "1",
      "subject": "Do A",
      "description": "what to do",
      "activeForm": "Doing A",
      "status": "pending",
      "owner": null,
      "created_at": "2026-11-20T11:48:29.433Z",
      "updated_at": "2026-11-20T11:48:29.433Z",
      "blockedBy": [],
      "blocks": [],
      "metadata": {
        "p": 1
      }
    }
    "#);
}

#[tokio::test]
async fn a_repeated_call_makes_no_second_task() {
    let crew = Crew::new().await;
    for (actor, call) in
        [(Actor::Lead, "t1"), (Actor::Lead, "t1"), (as_member("worker"), "t1"), (Actor::Lead, "t2")]
    {
        crew.team.create_task(&actor, task("Do A"), Some(call)).await.unwrap();
    }
    assert_eq!(crew.team.tasks().await.unwrap().len(), 3);
}

#[tokio::test]
async fn what_a_task_says_is_limited() {
    let crew = Crew::new().await;
    let error =
        crew.team.create_task(&Actor::Lead, task(&"é".repeat(201)), None).await.unwrap_err();
    is(&error, ErrorCode::InvalidRequest);
    assert_eq!((&error.details["limit"], &error.details["got"]), (&200.into(), &201.into()));
    is(
        &crew.team.create_task(&Actor::Lead, task("  "), None).await.unwrap_err(),
        ErrorCode::InvalidRequest,
    );
    let mut input = task("x");
    input.description = "d".repeat(5001);
    is(
        &crew.team.create_task(&Actor::Lead, input, None).await.unwrap_err(),
        ErrorCode::InvalidRequest,
    );
    for key in ["_internal", "pitcrew"] {
        let mut input = task("x");
        input.metadata = json!({key: true}).as_object().cloned();
        is(
            &crew.team.create_task(&Actor::Lead, input, None).await.unwrap_err(),
            ErrorCode::InvalidRequest,
        );
    }
    assert_eq!(crew.team.tasks().await.unwrap(), []);
}

#[tokio::test]
async fn tasks_are_limited_in_number_and_in_rate() {
    let crew = Crew::with(Limits { tasks: 1, ..limits() }).await;
    crew.team.create_task(&Actor::Lead, task("one"), None).await.unwrap();
    is(
        &crew.team.create_task(&Actor::Lead, task("two"), None).await.unwrap_err(),
        ErrorCode::RateLimit,
    );
    let crew =
        Crew::with(Limits { task_rate: Rate { count: 1, seconds: 86_400 }, ..limits() }).await;
    crew.team.create_task(&Actor::Lead, task("one"), None).await.unwrap();
    let error = crew.team.create_task(&Actor::Lead, task("two"), None).await.unwrap_err();
    assert_eq!(error.details["retry_after_ms"], 86_400_000);
}

#[tokio::test]
async fn an_update_tells_only_what_changed() {
    let crew = crew_with_tasks(2).await;
    assert_eq!(change(&crew, &Actor::Lead, waits_for("2", &["#1"])).await, ["blockedBy"]);
    assert_eq!(change(&crew, &Actor::Lead, waits_for("2", &["1"])).await, Vec::<String>::new());
    assert_eq!(change(&crew, &Actor::Lead, owned_by("1", "worker")).await, ["owner"]);
    assert_eq!(
        change(&crew, &Actor::Lead, owned_by("1", "Worker@probe")).await,
        Vec::<String>::new()
    );
    assert_eq!(change(&crew, &as_member("worker"), with_status("1", START)).await, ["status"]);
    let input = TaskUpdateInput {
        subject: Some("task 1".into()),
        description: Some("new".into()),
        active_form: Some("doing".into()),
        ..update("1")
    };
    assert_eq!(change(&crew, &Actor::Lead, input).await, ["description", "activeForm"]);
    let done = crew.team.update_task(&as_member("worker"), with_status("1", DONE)).await.unwrap();
    assert_snapshot!(serde_json::to_string(&done).unwrap(), @r#"{"success":true,"taskId":"1","updatedFields":["status"],"statusChange":{"from":"in_progress","to":"completed"},"subject":"task 1","description":"new","status":"completed","owner":"worker","activeForm":"doing","blockedBy":[],"blocks":["2"],"created_at":"2026-11-20T11:48:29.433Z","updated_at":"2026-11-20T11:48:29.433Z"}"#);
    let task = crew.team.task("#2").await.unwrap();
    assert_eq!(task.blocked_by.len(), 1, "the file keeps completed blockers");
    let view = serde_json::to_value(TaskListView::of(&crew.team.tasks().await.unwrap())).unwrap();
    assert_eq!((&view["tasks"][1]["blockedBy"], &view["total"]), (&json!([]), &json!(2)));
}

#[tokio::test]
async fn metadata_merges_key_by_key_and_null_deletes() {
    let crew = crew_with_tasks(1).await;
    let with = |value: serde_json::Value| TaskUpdateInput {
        metadata: value.as_object().cloned(),
        ..update("1")
    };
    assert_eq!(
        change(&crew, &Actor::Lead, with(json!({"a": 1, "b": {"c": 2}}))).await,
        ["metadata"]
    );
    assert_eq!(
        change(&crew, &Actor::Lead, with(json!({"a": null, "b": {"d": 3}, "z": null}))).await,
        ["metadata"]
    );
    assert_eq!(change(&crew, &Actor::Lead, with(json!({"z": null}))).await, Vec::<String>::new());
    let view = TaskView::of(&crew.team.task("1").await.unwrap());
    assert_eq!(json!(view.metadata), json!({"b": {"d": 3}}));
    is(
        &refused(&crew, &as_member("worker"), with(json!({"_internal": true}))).await,
        ErrorCode::InvalidRequest,
    );
    is(
        &refused(&crew, &as_member("worker"), with(json!({"pitcrew": null}))).await,
        ErrorCode::InvalidRequest,
    );
}

#[tokio::test]
async fn a_teammate_that_starts_a_free_task_owns_it() {
    let crew = crew_with_tasks(1).await;
    assert_eq!(
        change(&crew, &as_member("worker"), with_status("1", START)).await,
        ["owner", "status"]
    );
    let task = crew.team.task("1").await.unwrap();
    assert_eq!((task.owner.as_deref(), task.status), (Some("worker"), TaskStatus::InProgress));
    let error = refused(&crew, &as_member("planner"), with_status("1", START)).await;
    is(&error, ErrorCode::InvalidStatus);
    assert_eq!(error.details["owner"], "worker");
    is(
        &refused(&crew, &as_member("planner"), owned_by("1", "planner")).await,
        ErrorCode::InvalidStatus,
    );
    assert_eq!(crew.team.task("1").await.unwrap(), task);
    let same = TaskUpdateInput { status: START, ..owned_by("1", "") };
    assert_eq!(change(&crew, &as_member("worker"), same).await, Vec::<String>::new());
    assert_eq!(change(&crew, &Actor::Lead, owned_by("1", "planner")).await, ["owner"]);
}

#[tokio::test]
async fn a_teammate_takes_nothing_that_another_was_given() {
    let crew = crew_with_tasks(1).await;
    change(&crew, &Actor::Lead, owned_by("1", "worker")).await;
    for input in [with_status("1", START), owned_by("1", "planner"), owned_by("1", "")] {
        is(&refused(&crew, &as_member("planner"), input).await, ErrorCode::InvalidStatus);
    }
    let both = TaskUpdateInput { status: START, ..owned_by("1", "planner") };
    is(&refused(&crew, &as_member("planner"), both).await, ErrorCode::InvalidStatus);
    assert_eq!(
        change(&crew, &as_member("worker"), owned_by("1", "planner")).await,
        ["owner"],
        "its owner hands it on"
    );
}

#[tokio::test]
async fn a_lead_that_starts_a_task_does_not_become_its_owner() {
    let crew = crew_with_tasks(1).await;
    assert_eq!(change(&crew, &Actor::Lead, with_status("1", START)).await, ["status"]);
    assert_eq!(crew.team.task("1").await.unwrap().owner, None);
}

#[tokio::test]
async fn a_blocked_task_is_not_started_by_a_teammate() {
    let crew = crew_with_tasks(3).await;
    change(&crew, &Actor::Lead, waits_for("3", &["1", "2"])).await;
    change(&crew, &as_member("worker"), with_status("1", DONE)).await;
    for refused in [
        refused(&crew, &as_member("worker"), with_status("3", START)).await,
        crew.team.claim(&as_member("worker"), Some("3")).await.unwrap_err(),
    ] {
        is(&refused, ErrorCode::InvalidStatus);
        assert_eq!(refused.details["blocked_by"], json!(["2"]));
    }
    change(&crew, &as_member("worker"), with_status("2", DONE)).await;
    change(&crew, &as_member("worker"), with_status("3", START)).await;
}

#[tokio::test]
async fn an_owner_is_told_of_its_task_also_by_itself() {
    let crew = crew_with_tasks(2).await;
    change(&crew, &Actor::Lead, owned_by("1", "worker")).await;
    change(&crew, &as_member("worker"), with_status("2", START)).await;
    let mail = crew.unread("worker").await;
    assert!(mail.iter().all(|m| matches!(m.frame, Some(Frame::TaskAssignment(_)))));
    assert_eq!(
        mail.iter().map(|m| m.message.from.as_str()).collect::<Vec<_>>(),
        ["team-lead", "worker"]
    );
    assert_snapshot!(mail[1].message.text, @r#"{"type":"task_assignment","taskId":"2","subject":"task 2","description":"what to do","assignedBy":"worker","timestamp":"2026-11-20T11:48:29.433Z"}"#);
    change(&crew, &Actor::Lead, owned_by("1", "worker")).await;
    assert_eq!(crew.unread("worker").await.len(), 2);
}

#[tokio::test]
async fn an_assignment_that_a_crash_kept_back_is_finished_once() {
    let crew = crew_with_tasks(1).await;
    change(&crew, &Actor::Lead, owned_by("1", "worker")).await;
    assert_eq!(crew.team.finish_assignments().await.unwrap(), []);
    // Recreate the state after a crash: the task is assigned, but the message about the assignment
    // and its journal entry are missing.
    let other = crew_with_tasks(1).await;
    let given = crew.team.task("1").await.unwrap();
    let edit = Box::new(move |table: &mut pitcrew_store::TaskTable| {
        table.tasks.insert(given.id.clone(), given.clone());
        Ok(())
    });
    other.backend.edit_tasks(other.team.dir(), edit).await.unwrap();
    assert_eq!(other.team.finish_assignments().await.unwrap().len(), 1);
    assert_eq!(other.team.finish_assignments().await.unwrap(), []);
    assert_eq!(
        other.unread("worker").await[0].message.text,
        crew.unread("worker").await[0].message.text
    );
}

#[tokio::test]
async fn a_circle_of_tasks_is_refused_and_changes_nothing() {
    let crew = crew_with_tasks(3).await;
    change(&crew, &Actor::Lead, waits_for("2", &["1"])).await;
    change(&crew, &Actor::Lead, waits_for("3", &["2"])).await;
    for input in [
        waits_for("1", &["1"]),
        waits_for("1", &["3"]),
        TaskUpdateInput { add_blocks: vec!["1".into()], ..update("3") },
    ] {
        let input = TaskUpdateInput { subject: Some("changed".into()), ..input };
        is(&refused(&crew, &Actor::Lead, input).await, ErrorCode::CircularDependency);
    }
    assert_eq!(crew.team.task("1").await.unwrap().subject, "task 1");
    assert_eq!(
        change(
            &crew,
            &Actor::Lead,
            TaskUpdateInput { add_blocks: vec!["3".into()], ..update("1") }
        )
        .await,
        ["blocks"]
    );
}

#[tokio::test]
async fn unknown_tasks_and_owners_are_refused() {
    let crew = crew_with_tasks(2).await;
    for id in ["3", "0", "x", "", "../1"] {
        let error = refused(&crew, &Actor::Lead, with_status(id, DONE)).await;
        is(&error, ErrorCode::TaskNotFound);
        assert_eq!(error.details["task_ids"], json!(["1", "2"]));
        is(&crew.team.task(id).await.unwrap_err(), ErrorCode::TaskNotFound);
    }
    is(&refused(&crew, &Actor::Lead, waits_for("1", &["9"])).await, ErrorCode::TaskNotFound);
    let error = refused(&crew, &Actor::Lead, owned_by("1", "wroker")).await;
    is(&error, ErrorCode::AgentNotFound);
    assert_eq!(error.details["did_you_mean"], "worker");
    crew.team.remove_member(&Actor::Lead, &name("worker")).await.unwrap();
    let error = refused(&crew, &Actor::Lead, owned_by("1", "worker")).await;
    assert_eq!(error.message, "Agent 'worker' is no longer in the team and cannot own tasks");
}

#[tokio::test]
async fn what_was_given_to_a_member_while_it_ended_goes_back_into_the_pool() {
    let crew = crew_with_tasks(3).await;
    for (id, owner) in [("1", "worker"), ("2", "team-lead"), ("3", "worker")] {
        change(&crew, &Actor::Lead, owned_by(id, owner)).await;
    }
    change(&crew, &Actor::Lead, with_status("3", DONE)).await;
    assert_eq!(crew.team.release_lost_tasks().await.unwrap(), []);
    crew.team.remove_member(&Actor::Lead, &name("worker")).await.unwrap();
    // This edit plays a writer that checked `worker` while it was a member, and writes after
    // `worker` has ended.
    let late: pitcrew_store::TaskEdit = Box::new(|table| {
        let task = table.tasks.values_mut().next().unwrap();
        (task.owner, task.status) = (Some("worker".to_owned()), TaskStatus::InProgress);
        Ok(())
    });
    crew.team.backend().edit_tasks(crew.team.dir(), late).await.unwrap();
    let released = crew.team.release_lost_tasks().await.unwrap();
    assert_eq!(released.iter().map(|id| id.as_str()).collect::<Vec<_>>(), ["1"]);
    let tasks = crew.team.tasks().await.unwrap();
    assert_eq!(
        tasks.iter().map(|task| task.owner.as_deref()).collect::<Vec<_>>(),
        [None, Some("team-lead"), Some("worker")]
    );
}

#[tokio::test]
async fn a_deleted_task_is_gone_everywhere_and_its_id_is_not_used_again() {
    let crew = crew_with_tasks(3).await;
    change(&crew, &Actor::Lead, waits_for("2", &["3"])).await;
    let deleted = crew
        .team
        .update_task(&Actor::Lead, with_status("3", Some(StatusChange::Deleted)))
        .await
        .unwrap();
    assert_snapshot!(serde_json::to_string(&deleted).unwrap(), @r#"{"success":true,"taskId":"3","updatedFields":["deleted"],"statusChange":{"from":"pending","to":"deleted"},"subject":"task 3","description":"what to do","status":"deleted","blockedBy":[],"blocks":["2"],"created_at":"2026-11-20T11:48:29.433Z","updated_at":"2026-11-20T11:48:29.433Z"}"#);
    assert_eq!(crew.team.task("2").await.unwrap().blocked_by, []);
    let next = crew.team.create_task(&Actor::Lead, task("next"), None).await.unwrap();
    assert_eq!(next.id.as_str(), "4");
}

#[tokio::test]
async fn a_completed_task_is_opened_again_by_the_lead_or_the_user_only() {
    let crew = crew_with_tasks(1).await;
    change(&crew, &as_member("worker"), with_status("1", START)).await;
    change(&crew, &as_member("worker"), with_status("1", DONE)).await;
    for member in ["worker", "planner"] {
        for status in [AGAIN, START] {
            let error = refused(&crew, &as_member(member), with_status("1", status)).await;
            is(&error, ErrorCode::InvalidStatus);
            assert_eq!(
                error.message,
                "Task #1 is completed; only the lead or the user can open it again"
            );
        }
    }
    // Setting the same status again changes nothing. The lead and the user are allowed to reopen a
    // completed task.
    assert_eq!(
        change(&crew, &as_member("worker"), with_status("1", DONE)).await,
        Vec::<String>::new()
    );
    assert_eq!(change(&crew, &Actor::Lead, with_status("1", AGAIN)).await, ["status"]);
    assert_eq!(crew.team.task("1").await.unwrap().owner.as_deref(), Some("worker"));
    change(&crew, &as_member("worker"), with_status("1", DONE)).await;
    assert_eq!(change(&crew, &Actor::User, with_status("1", START)).await, ["status"]);
}

#[tokio::test]
async fn a_task_with_an_open_blocker_is_started_by_nobody_but_the_user_with_force() {
    let crew = crew_with_tasks(2).await;
    change(&crew, &Actor::Lead, waits_for("2", &["1"])).await;
    for actor in [Actor::Lead, Actor::User, as_member("worker")] {
        let error = refused(&crew, &actor, with_status("2", START)).await;
        is(&error, ErrorCode::InvalidStatus);
        assert_eq!(
            (error.message.as_str(), &error.details["blocked_by"]),
            ("Task #2 is blocked by #1", &json!(["1"]))
        );
    }
    // In these updates, the lead adds a blocker to a task and starts the task. The first update
    // must be refused because the tasks would block each other. The second update must be refused
    // because the new blocker is open.
    let both = TaskUpdateInput { add_blocked_by: vec!["2".into()], ..with_status("1", START) };
    is(&refused(&crew, &Actor::Lead, both).await, ErrorCode::CircularDependency);
    crew.team.create_task(&Actor::Lead, task("third"), None).await.unwrap();
    let both = TaskUpdateInput { add_blocked_by: vec!["1".into()], ..with_status("3", START) };
    is(&refused(&crew, &Actor::Lead, both).await, ErrorCode::InvalidStatus);
    assert_eq!(crew.team.task("3").await.unwrap().blocked_by, []);
    for actor in [Actor::Lead, as_member("worker")] {
        let error = crew.team.force_task(&actor, with_status("2", START)).await.unwrap_err();
        is(&error, ErrorCode::PermissionDenied);
    }
    crew.team.force_task(&Actor::User, with_status("2", START)).await.unwrap();
    assert_eq!(crew.team.task("2").await.unwrap().status, TaskStatus::InProgress);
    // A task in progress is allowed to get a new blocker. A completed blocker does not prevent the
    // start of a task.
    change(&crew, &Actor::Lead, waits_for("2", &["3"])).await;
    for id in ["1", "3"] {
        change(&crew, &Actor::Lead, with_status(id, DONE)).await;
    }
    change(&crew, &Actor::Lead, with_status("2", AGAIN)).await;
    assert_eq!(change(&crew, &Actor::Lead, with_status("2", START)).await, ["status"]);
}

#[tokio::test]
async fn the_reference_client_s_own_tasks_are_hidden() {
    let crew = crew_with_tasks(1).await;
    let edit = Box::new(|table: &mut pitcrew_store::TaskTable| {
        let mut internal = table.tasks.values().next().unwrap().clone();
        internal.id = pitcrew_protocol::TaskId::from_number(2);
        internal.metadata = json!({"_internal": true}).as_object().cloned();
        table.tasks.insert(internal.id.clone(), internal);
        Ok(())
    });
    crew.backend.edit_tasks(crew.team.dir(), edit).await.unwrap();
    assert_eq!(crew.team.tasks().await.unwrap().len(), 1);
    for error in [
        crew.team.task("2").await.unwrap_err(),
        crew.team.claim(&as_member("worker"), Some("2")).await.unwrap_err(),
        refused(&crew, &Actor::Lead, with_status("2", DONE)).await,
        refused(&crew, &Actor::Lead, waits_for("1", &["2"])).await,
    ] {
        is(&error, ErrorCode::TaskNotFound);
    }
}

#[tokio::test]
async fn the_journal_tells_each_change_of_a_task() {
    let crew = crew_with_tasks(1).await;
    change(&crew, &as_member("worker"), with_status("1", START)).await;
    change(&crew, &as_member("worker"), with_status("1", START)).await;
    change(&crew, &as_member("worker"), with_status("1", DONE)).await;
    change(&crew, &Actor::User, with_status("1", Some(StatusChange::Deleted))).await;
    let told =
        crew.backend.journal_since(crew.team.dir(), 0).await.unwrap().0.into_iter().filter_map(
            |e| match e.event {
                Event::TaskChanged { by, change, .. } => Some(format!("{by} {change}")),
                _ => None,
            },
        );
    assert_eq!(
        told.collect::<Vec<_>>(),
        ["team-lead created", "worker claimed", "worker completed", "user deleted"]
    );
}
