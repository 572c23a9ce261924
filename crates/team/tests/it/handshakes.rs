//! Requests between lead and teammates, and the answers to these requests.

use std::sync::Arc;

use insta::assert_snapshot;
use pitcrew_protocol::{ErrorCode, Frame, Limits, SendMessageInput, TaskUpdateInput};
use pitcrew_store::Event;
use pitcrew_team::{Actor, IdleNotice, IdleReason, PermissionAnswer, PermissionAsk, RequestKind};
use serde_json::json;

use crate::mortal::MortalBackend;
use crate::team_env::{Crew, as_member, is, limits, message, name, task, update};

fn ask_shutdown(of: &str) -> SendMessageInput {
    SendMessageInput::ShutdownRequest { recipient: of.into(), content: Some("we are done".into()) }
}

fn shutdown(request_id: &str, approve: bool) -> SendMessageInput {
    let content = (!approve).then(|| "still busy".to_owned());
    SendMessageInput::ShutdownResponse { request_id: request_id.into(), approve, content }
}

fn plan(request_id: &str, recipient: &str, approve: bool) -> SendMessageInput {
    let content = (!approve).then(|| "more detail please".to_owned());
    SendMessageInput::PlanApprovalResponse {
        request_id: request_id.into(),
        recipient: recipient.into(),
        approve,
        content,
    }
}

fn bash() -> PermissionAsk {
    PermissionAsk {
        tool_name: "Bash".into(),
        tool_use_id: "toolu_9".into(),
        description: "touch a file".into(),
        input: json!({"command": "touch out.txt"}),
        suggestions: vec![
            json!({"type": "setMode", "mode": "acceptEdits", "destination": "session"}),
        ],
        digest: None,
    }
}

async fn requested(crew: &Crew, of: &str) -> String {
    crew.send(&Actor::Lead, ask_shutdown(of)).await;
    let Some(Frame::ShutdownRequest(frame)) = crew.unread(of).await.pop().unwrap().frame else {
        panic!("no request")
    };
    frame.request_id
}

async fn handed_in(crew: &Crew, by: &str, call: &str) -> String {
    crew.team
        .request_plan_approval(&name(by), "/plans/a.md", "# Plan", Some(call))
        .await
        .unwrap()
        .request_id
}

#[tokio::test]
async fn a_shutdown_request_is_answered_once_by_whom_it_was_put_to() {
    let crew = Crew::new().await;
    let id = requested(&crew, "worker").await;
    assert_eq!(id, "shutdown-1795175309433@worker");
    let error = crew.refused(&as_member("planner"), shutdown(&id, true)).await;
    is(&error, ErrorCode::PermissionDenied);
    is(&crew.refused(&Actor::Lead, shutdown(&id, true)).await, ErrorCode::PermissionDenied);
    let sent = crew.send(&as_member("worker"), shutdown(&id, true)).await;
    assert_snapshot!(sent.answer.text().replace(&id, "ID"), @r#"
    {
      "success": true,
      "message": "Shutdown approved. Agent worker is now exiting.",
      "request_id": "ID"
    }
    "#);
    let mail = crew.unread("team-lead").await;
    assert_snapshot!(mail[0].message.text.replace(&id, "ID"), @r#"{"type":"shutdown_approved","requestId":"ID","from":"worker","timestamp":"2026-11-20T11:48:29.433Z","paneId":"in-process","backendType":"in-process"}"#);
    assert!(mail[0].frame.is_some());
    let error = crew.refused(&as_member("worker"), shutdown(&id, false)).await;
    is(&error, ErrorCode::InvalidStatus);
    assert_eq!(error.details["approved"], true);
    assert_eq!(crew.unread("team-lead").await.len(), 1);
}

#[tokio::test]
async fn the_last_words_of_who_approves_its_shutdown_reach_the_lead_before_its_goodbye_once() {
    let crew = Crew::new().await;
    let id = requested(&crew, "worker").await;
    let content = Some("All tasks complete. Ready to shut down.".to_owned());
    let goodbye =
        SendMessageInput::ShutdownResponse { request_id: id.clone(), approve: true, content };
    crew.refused(&as_member("planner"), goodbye.clone()).await;
    for _ in 0..2 {
        crew.team.send(&as_member("worker"), goodbye.clone(), Some("toolu_7")).await.unwrap();
    }
    crew.send(&as_member("worker"), goodbye).await;
    is(&crew.refused(&as_member("worker"), shutdown(&id, false)).await, ErrorCode::InvalidStatus);
    let mail = crew.unread("team-lead").await;
    assert_eq!(mail.len(), 2, "{mail:?}");
    assert_eq!((mail[0].message.from.as_str(), mail[0].frame.is_none()), ("worker", true));
    assert_eq!(mail[0].message.text, "All tasks complete. Ready to shut down.");
    assert!(matches!(mail[1].frame, Some(Frame::ShutdownApproved(_))));
}

#[tokio::test]
async fn an_answer_that_a_full_disk_refused_is_sent_by_the_next_attempt_once() {
    for approve in [true, false] {
        let disk = Arc::new(MortalBackend::default());
        let crew = Crew::on(disk.clone(), limits()).await;
        let id = requested(&crew, "worker").await;
        let (worker, answer) = (as_member("worker"), shutdown(&id, approve));
        disk.refuse_mail(true);
        let error = crew.team.send(&worker, answer.clone(), Some("toolu_1")).await.unwrap_err();
        is(&error, ErrorCode::InternalError);
        disk.refuse_mail(false);
        let error = crew.refused(&worker, shutdown(&id, !approve)).await;
        is(&error, ErrorCode::InvalidStatus);
        crew.team.send(&worker, answer, Some("toolu_2")).await.unwrap();
        crew.team.finish_answers().await.unwrap();
        let mail = crew.unread("team-lead").await;
        assert_eq!(mail.len(), 1, "{mail:?}");
    }
}

#[tokio::test]
async fn who_approves_its_shutdown_is_told_so_again_after_a_restart_sent_the_approval() {
    let disk = Arc::new(MortalBackend::default());
    let crew = Crew::on(disk.clone(), limits()).await;
    let id = requested(&crew, "worker").await;
    let worker = as_member("worker");
    disk.refuse_mail(true);
    crew.team.send(&worker, shutdown(&id, true), Some("toolu_1")).await.unwrap_err();
    disk.refuse_mail(false);
    crew.team.finish_answers().await.unwrap();
    let sent = crew.team.send(&worker, shutdown(&id, true), Some("toolu_2")).await.unwrap();
    assert!(sent.answer.text().contains("Shutdown approved"), "{}", sent.answer.text());
    assert_eq!(crew.unread("team-lead").await.len(), 1);
}

#[tokio::test]
async fn a_rejected_shutdown_says_why() {
    let crew = Crew::new().await;
    let id = requested(&crew, "worker").await;
    let silent = SendMessageInput::ShutdownResponse {
        request_id: id.clone(),
        approve: false,
        content: None,
    };
    is(&crew.refused(&as_member("worker"), silent).await, ErrorCode::InvalidRequest);
    crew.send(&as_member("worker"), shutdown(&id, false)).await;
    assert_snapshot!(crew.unread("team-lead").await[0].message.text.replace(&id, "ID"), @r#"{"type":"shutdown_rejected","requestId":"ID","from":"worker","reason":"still busy","timestamp":"2026-11-20T11:48:29.433Z"}"#);
}

#[tokio::test]
async fn only_the_lead_and_the_user_ask_for_a_shutdown_and_never_of_the_lead() {
    let crew = Crew::new().await;
    is(
        &crew.refused(&as_member("planner"), ask_shutdown("worker")).await,
        ErrorCode::PermissionDenied,
    );
    is(&crew.refused(&Actor::User, ask_shutdown("team-lead")).await, ErrorCode::InvalidRequest);
    is(&crew.refused(&Actor::User, ask_shutdown("nobody")).await, ErrorCode::AgentNotFound);
    crew.send(&Actor::User, ask_shutdown("worker")).await;
    let mail = crew.unread("worker").await;
    assert_eq!(mail[0].message.from, "team-lead");
    assert!(matches!(mail[0].frame, Some(Frame::ShutdownRequest(_))));
}

#[tokio::test]
async fn requests_of_one_millisecond_have_ids_of_their_own_and_no_id_is_made_twice() {
    let crew = Crew::new().await;
    let first = requested(&crew, "worker").await;
    let second = requested(&crew, "worker").await;
    let plan = handed_in(&crew, "planner", "toolu_p").await;
    assert_eq!(
        [first.as_str(), &second, &plan],
        [
            "shutdown-1795175309433@worker",
            "shutdown-1795175309434@worker",
            "plan_approval-1795175309435@planner@probe"
        ]
    );
    // Each of the two shutdown requests gets its own answer. If the planner repeats its call, no
    // new plan request is created.
    crew.send(&as_member("worker"), shutdown(&second, false)).await;
    is(
        &crew.refused(&as_member("worker"), shutdown(&second, true)).await,
        ErrorCode::InvalidStatus,
    );
    crew.send(&as_member("worker"), shutdown(&first, false)).await;
    assert_eq!(handed_in(&crew, "planner", "toolu_p").await, plan);
    // After a request is removed, its id is never used again, because an old answer to this id may
    // still exist.
    crew.team.remove_member(&Actor::Lead, &name("planner")).await.unwrap();
    assert_eq!(requested(&crew, "worker").await, "shutdown-1795175309436@worker");
}

#[tokio::test]
async fn an_answer_to_an_unknown_request_names_the_open_ones() {
    let crew = Crew::new().await;
    let id = requested(&crew, "worker").await;
    let error = crew.refused(&as_member("worker"), shutdown("shutdown-1@worker", true)).await;
    is(&error, ErrorCode::InvalidStatus);
    assert_eq!(error.details["open_requests"], json!([id]));
    is(&crew.refused(&Actor::Lead, plan("nope", "planner", true)).await, ErrorCode::InvalidStatus);
}

#[tokio::test]
async fn a_plan_is_approved_by_the_lead_alone_and_by_nobody_for_itself() {
    let crew = Crew::new().await;
    let id = handed_in(&crew, "planner", "toolu_p").await;
    assert_eq!(id, "plan_approval-1795175309433@planner@probe");
    assert_snapshot!(crew.unread("team-lead").await[0].message.text.replace(&id, "ID"), @r##"{"type":"plan_approval_request","from":"planner","timestamp":"2026-11-20T11:48:29.433Z","planFilePath":"/plans/a.md","planContent":"# Plan","requestId":"ID"}"##);
    for nobody in
        [as_member("planner"), as_member("worker"), Actor::User, Actor::Outside("ci".into())]
    {
        is(&crew.refused(&nobody, plan(&id, "planner", true)).await, ErrorCode::PermissionDenied);
    }
    let error = crew.refused(&Actor::Lead, plan(&id, "worker", true)).await;
    is(&error, ErrorCode::InvalidStatus);
    assert_eq!(error.details["from"], "planner");
    assert_eq!(crew.unread("planner").await, []);
    crew.send(&as_member("team-lead"), plan(&id, "planner@probe", true)).await;
    assert_snapshot!(crew.unread("planner").await[0].message.text.replace(&id, "ID"), @r#"{"type":"plan_approval_response","requestId":"ID","approved":true,"timestamp":"2026-11-20T11:48:29.433Z","permissionMode":"default"}"#);
    is(&crew.refused(&Actor::Lead, plan(&id, "planner", false)).await, ErrorCode::InvalidStatus);
}

#[tokio::test]
async fn the_users_answer_to_a_plan_is_the_leads_command_with_the_user_as_its_author() {
    let crew = Crew::new().await;
    let id = handed_in(&crew, "planner", "toolu_p").await;
    let why = Some("test more".to_owned());
    crew.team.answer_plan_for_user(&id, "planner", false, why).await.unwrap();
    let again = handed_in(&crew, "planner", "toolu_q").await;
    let words = Some("go ahead".to_owned());
    crew.team.answer_plan_for_user(&again, "planner", true, words).await.unwrap();
    let leads = handed_in(&crew, "planner", "toolu_r").await;
    crew.send(&Actor::Lead, plan(&leads, "planner", true)).await;
    crew.send(&Actor::User, ask_shutdown("worker")).await;
    let spent = crew.team.answer_plan_for_user(&again, "planner", true, None).await.unwrap_err();
    is(&spent, ErrorCode::InvalidStatus);

    let mail = crew.unread("planner").await;
    let of_lead = mail.iter().filter(|mail| mail.frame.is_some());
    assert!(of_lead.clone().all(|mail| mail.message.from == "team-lead"), "{mail:?}");
    assert_eq!(of_lead.count(), 3, "teammates obey the lead alone");
    assert_eq!(
        authors(&crew).await,
        [
            "planner plan_approval_request -",
            "team-lead plan_approval_response user",
            "planner plan_approval_request -",
            "team-lead plan_approval_response user",
            "user text -",
            "planner plan_approval_request -",
            "team-lead plan_approval_response -",
            "team-lead shutdown_request user",
        ]
    );
}

#[tokio::test]
async fn the_history_of_a_message_has_its_author() {
    let crew = Crew::new().await;
    let id = handed_in(&crew, "planner", "toolu_p").await;
    let sent = crew.team.answer_plan_for_user(&id, "planner", true, None).await.unwrap();
    let trace = crew.team.teams().message(&sent.receipts[0].id).await.unwrap();
    assert_eq!((trace.from.as_deref(), trace.author.as_deref()), (Some("team-lead"), Some("user")));
}

/// Returns sender, frame and author of each message in the journal.
async fn authors(crew: &Crew) -> Vec<String> {
    let journal = crew.backend.journal_since(crew.team.dir(), 0).await.unwrap().0;
    let messages = journal.into_iter().filter_map(|entry| match entry.event {
        Event::MessagePersisted { from, author, frame, .. } => {
            let (frame, author) = (frame.as_deref(), author.as_deref());
            Some(format!("{from} {} {}", frame.unwrap_or("text"), author.unwrap_or("-")))
        }
        _ => None,
    });
    messages.collect()
}

#[tokio::test]
async fn the_lead_gets_a_notice_from_the_system() {
    let crew = Crew::new().await;
    let notice = format!("The user has stopped bob.{}", "x".repeat(20_000));
    crew.team.notify_lead(&notice, "the user stopped a teammate").await.unwrap();
    let mail = crew.unread("team-lead").await.remove(0);
    assert_eq!((mail.message.from.as_str(), mail.message.text.len()), ("system", 10_000));
}

#[tokio::test]
async fn an_approved_planner_goes_on_in_its_own_mode() {
    let crew = Crew::new().await;
    crew.team.set_mode(&Actor::Lead, &name("planner"), "acceptEdits").await.unwrap();
    let id = handed_in(&crew, "planner", "toolu_p").await;
    crew.send(&Actor::Lead, plan(&id, "planner", true)).await;
    let Some(Frame::PlanApprovalResponse(frame)) = crew.unread("planner").await[0].frame.clone()
    else {
        panic!()
    };
    assert_eq!(frame.permission_mode.as_deref(), Some("acceptEdits"));
    let id = handed_in(&crew, "planner", "toolu_q").await;
    crew.send(&Actor::Lead, plan(&id, "planner", false)).await;
    let Some(Frame::PlanApprovalResponse(frame)) = crew.unread("planner").await[1].frame.clone()
    else {
        panic!()
    };
    assert_eq!(
        (frame.permission_mode, frame.feedback.as_deref()),
        (None, Some("more detail please"))
    );
}

#[tokio::test]
async fn words_with_an_approval_come_as_a_message_and_only_a_refusal_has_feedback() {
    let crew = Crew::new().await;
    let id = handed_in(&crew, "planner", "toolu_p").await;
    let approve = SendMessageInput::PlanApprovalResponse {
        request_id: id,
        recipient: "planner".into(),
        approve: true,
        content: Some("mind the tests".into()),
    };
    for _ in 0..2 {
        crew.team.send(&Actor::Lead, approve.clone(), Some("toolu_a")).await.unwrap();
    }
    let mail = crew.unread("planner").await;
    let Some(Frame::PlanApprovalResponse(frame)) = mail[0].frame.clone() else {
        panic!("{mail:?}")
    };
    assert_eq!((frame.approved, frame.feedback), (true, None));
    assert_eq!(
        (mail[1].message.from.as_str(), mail[1].message.text.as_str()),
        ("team-lead", "mind the tests")
    );
    assert_eq!(mail.len(), 2, "a repeated call sends nothing twice");
}

#[tokio::test]
async fn a_permission_is_asked_and_answered_as_recorded() {
    let crew = Crew::new().await;
    let asked = crew.team.request_permission(&name("worker"), bash()).await.unwrap();
    let id = asked.request_id.clone();
    assert_eq!(crew.team.request_permission(&name("worker"), bash()).await.unwrap(), asked);
    let mail = crew.unread("team-lead").await;
    assert_eq!(mail.len(), 1);
    assert_snapshot!(mail[0].message.text.replace(&id, "ID"), @r#"{"type":"permission_request","request_id":"ID","agent_id":"worker","tool_name":"Bash","tool_use_id":"toolu_9","description":"touch a file","input":{"command":"touch out.txt"},"permission_suggestions":[{"type":"setMode","mode":"acceptEdits","destination":"session"}]}"#);
    let allow = || PermissionAnswer::Allow {
        updated_input: json!({"command": "touch out.txt"}),
        updates: vec![],
        digest: None,
    };
    for nobody in [as_member("worker"), as_member("planner"), Actor::User] {
        let error = crew.team.answer_permission(&nobody, &id, allow(), None).await.unwrap_err();
        is(&error, ErrorCode::PermissionDenied);
    }
    crew.team.answer_permission(&Actor::Lead, &id, allow(), None).await.unwrap();
    assert_snapshot!(crew.unread("worker").await[0].message.text.replace(&id, "ID"), @r#"{"type":"permission_response","request_id":"ID","subtype":"success","response":{"updated_input":{"command":"touch out.txt"},"permission_updates":[]}}"#);
    let deny = PermissionAnswer::Deny { reason: "no".into() };
    is(
        &crew.team.answer_permission(&Actor::Lead, &id, deny, None).await.unwrap_err(),
        ErrorCode::InvalidStatus,
    );
    let outcomes =
        crew.backend.journal_since(crew.team.dir(), 0).await.unwrap().0.into_iter().filter_map(
            |e| match e.event {
                Event::Permission { outcome, tool, .. } => Some((tool, outcome.to_string())),
                _ => None,
            },
        );
    let bash = |outcome: &str| ("Bash".to_owned(), outcome.to_owned());
    assert_eq!(outcomes.collect::<Vec<_>>(), [bash("asked"), bash("asked"), bash("allowed")]);
}

#[tokio::test]
async fn an_answer_to_another_call_than_the_one_that_asks_is_refused() {
    let crew = Crew::new().await;
    let ask = PermissionAsk { digest: Some("d1".to_owned()), ..bash() };
    let id = crew.team.request_permission(&name("worker"), ask).await.unwrap().request_id;
    let allow = |digest: &str| PermissionAnswer::Allow {
        updated_input: json!({}),
        updates: vec![],
        digest: Some(digest.to_owned()),
    };
    let stale =
        crew.team.answer_permission(&Actor::Lead, &id, allow("d2"), None).await.unwrap_err();
    is(&stale, ErrorCode::InvalidStatus);
    assert!(
        stale.message.contains("is about a different call than the one that was shown"),
        "{stale}"
    );
    assert!(crew.unread("worker").await.is_empty());
    crew.team.answer_permission(&Actor::Lead, &id, allow("d1"), None).await.unwrap();
    assert_snapshot!(crew.unread("worker").await[0].message.text.replace(&id, "ID"), @r#"{"type":"permission_response","request_id":"ID","subtype":"success","response":{"updated_input":{},"permission_updates":[],"digest":"d1"}}"#);
}

#[tokio::test]
async fn a_denied_permission_carries_its_reason() {
    let crew = Crew::new().await;
    let id = crew.team.request_permission(&name("worker"), bash()).await.unwrap().request_id;
    let deny = PermissionAnswer::Deny { reason: "not in this repository".into() };
    crew.team.answer_permission(&Actor::Lead, &id, deny, None).await.unwrap();
    assert_snapshot!(crew.unread("worker").await[0].message.text.replace(&id, "ID"), @r#"{"type":"permission_response","request_id":"ID","subtype":"error","error":"not in this repository"}"#);
}

#[tokio::test]
async fn a_request_of_another_client_is_answered_from_the_inbox_it_stands_in() {
    let crew = Crew::new().await;
    let request = r#"{"type":"plan_approval_request","from":"planner","planContent":"do","requestId":"plan_approval-1@planner@probe"}"#;
    crew.forge("team-lead", "worker", request).await;
    let answer = || plan("plan_approval-1@planner@probe", "planner", true);
    is(&crew.refused(&Actor::Lead, answer()).await, ErrorCode::InvalidStatus);
    crew.forge("team-lead", "planner", request).await;
    crew.send(&Actor::Lead, answer()).await;
    assert!(crew.unread("planner").await[0].frame.is_some());
    is(&crew.refused(&Actor::Lead, answer()).await, ErrorCode::InvalidStatus);
    let request =
        r#"{"type":"shutdown_request","requestId":"shutdown-5@worker","from":"team-lead"}"#;
    crew.forge("worker", "team-lead", request).await;
    crew.send(&as_member("worker"), shutdown("shutdown-5@worker", true)).await;
}

#[tokio::test]
async fn a_repeated_call_of_a_request_or_an_answer_does_nothing_twice() {
    let crew = Crew::new().await;
    let mut ids = std::collections::HashSet::new();
    for _ in 0..2 {
        let sent =
            crew.team.send(&Actor::Lead, ask_shutdown("worker"), Some("toolu_s")).await.unwrap();
        ids.insert(
            serde_json::to_value(&sent.answer).unwrap()["request_id"].as_str().unwrap().to_owned(),
        );
    }
    assert_eq!((ids.len(), crew.unread("worker").await.len()), (1, 1));
    let id = ids.into_iter().next().unwrap();
    for _ in 0..2 {
        crew.team.send(&as_member("worker"), shutdown(&id, true), Some("toolu_a")).await.unwrap();
    }
    assert_eq!(crew.unread("team-lead").await.len(), 1);
    let error = crew
        .team
        .send(&as_member("worker"), shutdown(&id, false), Some("toolu_b"))
        .await
        .unwrap_err();
    is(&error, ErrorCode::InvalidStatus);
}

#[tokio::test]
async fn of_answers_that_meet_one_is_given() {
    let crew = Crew::new().await;
    let id = requested(&crew, "worker").await;
    let answers = (0..8).map(|n| {
        let (team, id) = (crew.team.clone(), id.clone());
        tokio::spawn(async move {
            let approve = n % 2 == 0;
            let sent = team.send(&as_member("worker"), shutdown(&id, approve), None).await;
            sent.is_ok().then_some(approve)
        })
    });
    let mut given = Vec::new();
    for answer in answers.collect::<Vec<_>>() {
        given.extend(answer.await.unwrap());
    }
    // The decision that came first may be repeated. The other decision is refused each time.
    given.dedup();
    assert_eq!((given.len(), crew.unread("team-lead").await.len()), (1, 1));
}

#[tokio::test]
async fn an_answer_that_was_recorded_and_not_sent_is_finished_once() {
    let crew = Crew::new().await;
    let id = requested(&crew, "worker").await;
    crew.send(&as_member("worker"), shutdown(&id, true)).await;
    let sent = crew.unread("team-lead").await[0].clone();
    // Recreate the state after a crash between the recording of a frame and its sending: the text
    // of the frame is still recorded as unsent.
    let (request, text) = (id.clone(), sent.message.text.clone());
    let put_back = Box::new(move |ledger: &mut Option<serde_json::Value>| {
        ledger.as_mut().unwrap()["requests"][&request]["answer"]["frame"]["unsent"] = json!(text);
        Ok(())
    });
    crew.backend.edit_document(crew.team.dir(), "requests", put_back).await.unwrap();
    assert_eq!(crew.team.finish_answers().await.unwrap(), [sent.id]);
    assert_eq!(crew.team.finish_answers().await.unwrap(), []);
    assert_eq!(crew.unread("team-lead").await.len(), 1);
    let requests = crew.team.requests().await.unwrap();
    assert_eq!(requests[&id].kind, RequestKind::Shutdown);
    assert!(requests[&id].answer.as_ref().unwrap().approved);
}

#[tokio::test]
async fn a_plan_of_a_member_that_ended_cannot_be_answered() {
    let crew = Crew::new().await;
    let id = handed_in(&crew, "planner", "toolu_p").await;
    crew.team.remove_member(&Actor::Lead, &name("planner")).await.unwrap();
    let error = crew.refused(&Actor::Lead, plan(&id, "planner", true)).await;
    is(&error, ErrorCode::AgentNotFound);
    assert_eq!(error.details["state"], "dead");
    assert_eq!(crew.unread("team-lead").await, [], "nobody is bothered with it any more");
    assert!(crew.team.requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn nobody_speaks_for_the_lead_of_a_session() {
    let crew = Crew::new().await;
    let edit = |config: &mut pitcrew_protocol::TeamConfig| {
        config.members[0].tmux_pane_id = Some("leader".into());
        Ok(())
    };
    crew.backend.edit_team(crew.team.dir(), std::sync::Arc::new(edit)).await.unwrap();
    is(&crew.refused(&Actor::User, ask_shutdown("worker")).await, ErrorCode::PermissionDenied);
    crew.send(&Actor::User, message("worker", "hello")).await;
    let stored = crew.unread("worker").await;
    assert_eq!(stored[0].message.kind.as_deref(), Some("message"));
}

#[tokio::test]
async fn no_request_answer_assignment_or_notice_waits_for_room_in_an_inbox() {
    let crew = Crew::with(Limits { unread_messages: 0, ..limits() }).await;
    is(&crew.refused(&Actor::Lead, message("worker", "a text")).await, ErrorCode::RateLimit);
    let id = handed_in(&crew, "planner", "toolu_p").await;
    crew.send(&Actor::Lead, plan(&id, "planner", true)).await;
    let asked = crew.team.request_permission(&name("worker"), bash()).await.unwrap();
    let deny = PermissionAnswer::Deny { reason: "no".into() };
    crew.team.answer_permission(&Actor::Lead, &asked.request_id, deny, None).await.unwrap();
    let made = crew.team.create_task(&Actor::Lead, task("do it"), None).await.unwrap();
    let owner = Some("worker".into());
    crew.team
        .update_task(&Actor::Lead, TaskUpdateInput { owner, ..update(made.id.as_str()) })
        .await
        .unwrap();
    let notice = IdleNotice {
        reason: IdleReason::Available,
        summary: None,
        completed: None,
        failure: None,
        result: None,
    };
    crew.team.notify_idle(&name("planner"), notice).await.unwrap();
    let id = requested(&crew, "worker").await;
    crew.send(&as_member("worker"), shutdown(&id, true)).await;
    let kinds = async |of: &str| {
        let mail = crew.unread(of).await;
        mail.into_iter().map(|mail| mail.frame.unwrap().kind().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(kinds("planner").await, ["plan_approval_response"]);
    assert_eq!(
        kinds("worker").await,
        ["permission_response", "task_assignment", "shutdown_request"]
    );
    let to_lead =
        ["plan_approval_request", "permission_request", "idle_notification", "shutdown_approved"];
    assert_eq!(kinds("team-lead").await, to_lead);
}
