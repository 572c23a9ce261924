//! Taking mail out of an inbox, and the frames in mail that are accepted.

use pitcrew_protocol::{ErrorCode, Message, MessageId};
use pitcrew_store::{Appended, UnreadLimit};
use pitcrew_team::{Actor, DeliveryState, IdleNotice, IdleReason};

use crate::team_env::{Crew, as_member, create, is, message, name};

#[tokio::test]
async fn a_message_is_persisted_then_injected_then_acknowledged() {
    let crew = Crew::new().await;
    let id = crew.send(&Actor::Lead, message("worker", "hello")).await.receipts[0].id.clone();
    let state = async |id: &MessageId| crew.teams.message(id).await.unwrap().state;
    assert_eq!(state(&id).await, DeliveryState::Persisted);
    crew.wait_ms(5);
    crew.team.injected(&name("worker"), std::slice::from_ref(&id)).await;
    assert_eq!(state(&id).await, DeliveryState::Injected);
    assert_eq!(crew.unread("worker").await.len(), 1, "only acknowledging marks it as read");
    crew.wait_ms(5);
    crew.team.acknowledge(&name("worker"), std::slice::from_ref(&id)).await.unwrap();
    assert_eq!(crew.unread("worker").await, []);
    let trace = crew.teams.message(&id).await.unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&trace).unwrap().replace(&id.0, "ID"), @r#"
    {
      "id": "ID",
      "team": "probe",
      "from": "team-lead",
      "to": "worker",
      "state": "acknowledged",
      "persisted_at": "2026-11-20T11:48:29.433Z",
      "injected_at": "2026-11-20T11:48:29.438Z",
      "acknowledged_at": "2026-11-20T11:48:29.443Z",
      "dead": null
    }
    "#);
}

#[tokio::test]
async fn a_message_of_another_client_is_traced_by_its_inbox() {
    let crew = Crew::new().await;
    crew.forge("worker", "planner", "hello").await;
    let id = crew.unread("worker").await[0].id.clone();
    let trace = crew.teams.message(&id).await.unwrap();
    assert_eq!((trace.state, trace.from.as_deref()), (DeliveryState::Persisted, Some("planner")));
    let inbox = name("worker").inbox_file();
    crew.backend.acknowledge(crew.team.dir(), &inbox, std::slice::from_ref(&id)).await.unwrap();
    assert_eq!(crew.teams.message(&id).await.unwrap().state, DeliveryState::Acknowledged);
    let error = crew.teams.message(&MessageId("no-such".into())).await.unwrap_err();
    is(&error, ErrorCode::MessageNotFound);
}

#[tokio::test]
async fn a_message_is_told_of_after_its_team_was_deleted() {
    let crew = Crew::new().await;
    let sent = async |text: &str| {
        crew.send(&Actor::Lead, message("worker", text)).await.receipts[0].id.clone()
    };
    let (taken, left) = (sent("hello").await, sent("are you there?").await);
    crew.team.injected(&name("worker"), std::slice::from_ref(&taken)).await;
    crew.team.acknowledge(&name("worker"), std::slice::from_ref(&taken)).await.unwrap();
    for of in ["worker", "planner"] {
        crew.team.remove_member(&Actor::Lead, &name(of)).await.unwrap();
    }
    crew.wait_ms(7);
    assert!(crew.team.delete(&Actor::Lead).await.unwrap().success);
    let trace = crew.teams.message(&taken).await.unwrap();
    assert_eq!((trace.state, trace.team.as_str()), (DeliveryState::Acknowledged, "probe"));
    assert_eq!(trace.team_deleted_at.as_deref(), Some("2026-11-20T11:48:29.440Z"));
    let trace = crew.teams.message(&left).await.unwrap();
    assert_eq!(
        (trace.state, trace.dead.unwrap().reason.as_str()),
        (DeliveryState::Dead, "worker is no longer in the team")
    );
    // A new team with the same name has no data of the old team. The old team's messages can still
    // be found.
    crew.teams.create(create("probe")).await.unwrap();
    assert_eq!(crew.teams.message(&taken).await.unwrap().state, DeliveryState::Acknowledged);
}

#[tokio::test]
async fn an_idle_notice_is_a_frame_in_the_lead_s_inbox() {
    let crew = Crew::new().await;
    let notice = IdleNotice {
        reason: IdleReason::Available,
        summary: Some("did A".into()),
        completed: Some(("1".into(), "completed".into())),
        failure: None,
        result: Some("A is done".into()),
    };
    crew.team.notify_idle(&name("worker"), notice).await.unwrap();
    let mail = crew.unread("team-lead").await;
    assert!(mail[0].frame.is_some());
    assert_eq!(mail[0].message.color.as_deref(), Some("blue"));
    insta::assert_snapshot!(mail[0].message.text, @r#"{"type":"idle_notification","from":"worker","timestamp":"2026-11-20T11:48:29.433Z","idleReason":"available","summary":"did A","completedTaskId":"1","completedStatus":"completed","result":"A is done"}"#);
}

#[tokio::test]
async fn a_frame_counts_only_from_who_may_send_it() {
    let idle = r#"{"type":"idle_notification","from":"worker"}"#;
    let shutdown = r#"{"type":"shutdown_request","requestId":"r","from":"team-lead"}"#;
    let approval = r#"{"type":"plan_approval_response","requestId":"r","approved":true}"#;
    let leave = r#"{"type":"permission_response","request_id":"r","subtype":"success"}"#;
    let plan = r#"{"type":"plan_approval_request","from":"worker","requestId":"r"}"#;
    let ask =
        r#"{"type":"permission_request","request_id":"r","agent_id":"worker","tool_name":"Bash"}"#;
    let own_task = r#"{"type":"task_assignment","taskId":"1","assignedBy":"planner"}"#;
    let agreed = r#"{"type":"shutdown_approved","requestId":"r","from":"worker"}"#;
    let terminated = r#"{"type":"teammate_terminated","message":"x"}"#;
    for (to, from, text, counts) in [
        ("team-lead", "worker", idle, true),
        ("team-lead", "planner", idle, false),
        ("team-lead", "stranger", idle, false),
        ("planner", "worker", idle, false),
        ("worker", "team-lead", shutdown, true),
        ("worker", "planner", shutdown, false),
        ("team-lead", "team-lead", shutdown, false),
        ("worker", "team-lead", approval, true),
        ("worker", "planner", approval, false),
        ("worker", "worker", approval, false),
        ("worker", "team-lead", leave, true),
        ("worker", "planner", leave, false),
        ("team-lead", "worker", plan, true),
        ("team-lead", "planner", plan, false),
        ("team-lead", "worker", ask, true),
        ("team-lead", "planner", ask, false),
        ("planner", "worker", ask, false),
        ("worker", "team-lead", own_task, true),
        ("worker", "planner", own_task, true),
        ("planner", "worker", own_task, false),
        ("worker", "stranger", own_task, false),
        ("team-lead", "worker", agreed, true),
        ("team-lead", "planner", agreed, false),
        ("team-lead", "system", terminated, false),
    ] {
        let crew = Crew::new().await;
        crew.forge(to, from, text).await;
        let mail = crew.unread(to).await;
        assert_eq!(mail[0].frame.is_some(), counts, "{from} -> {to}: {text}");
    }
}

#[tokio::test]
async fn a_last_idle_notice_of_a_member_that_ended_is_tolerated_and_its_requests_are_not() {
    let crew = Crew::new().await;
    crew.team.remove_member(&Actor::Lead, &name("worker")).await.unwrap();
    crew.forge("team-lead", "worker", r#"{"type":"idle_notification","from":"worker"}"#).await;
    crew.forge(
        "team-lead",
        "worker",
        r#"{"type":"plan_approval_request","from":"worker","requestId":"r"}"#,
    )
    .await;
    let mail = crew.unread("team-lead").await;
    assert_eq!(mail.iter().map(|m| m.frame.is_some()).collect::<Vec<_>>(), [true, false]);
}

#[tokio::test]
async fn read_messages_past_the_bound_leave_our_own_inboxes() {
    let crew = Crew::new().await;
    for n in 0..101 {
        crew.send(&as_member("planner"), message("worker", &n.to_string())).await;
    }
    let ids: Vec<_> = crew.unread("worker").await.into_iter().map(|m| m.id).collect();
    crew.team.acknowledge(&name("worker"), &ids[..100]).await.unwrap();
    assert_eq!(crew.team.mail(&name("worker")).await.unwrap().len(), 101);
    crew.team.acknowledge(&name("worker"), &ids[100..]).await.unwrap();
    assert_eq!(crew.team.mail(&name("worker")).await.unwrap().len(), 50);
    assert_eq!(crew.teams.message(&ids[0]).await.unwrap().state, DeliveryState::Acknowledged);
}

#[tokio::test]
async fn read_messages_before_thousands_of_unread_ones_leave_an_inbox_when_it_is_looked_at() {
    let crew = Crew::new().await;
    let inbox = name("worker").inbox_file();
    for n in 0..2_600 {
        let message = Message::new("planner", n.to_string(), "2026-11-20T11:48:29.735Z".into());
        let message = message.with_id(&MessageId(format!("m{n}")));
        assert_eq!(
            crew.backend.append(crew.team.dir(), &inbox, message, UnreadLimit::None).await.unwrap(),
            Appended::New
        );
    }
    // The test plays another client that marks the first 600 messages as read. Marking them moves
    // no message out of the inbox. The later call of `collect` moves most of them.
    let read: Vec<MessageId> = (0..600).map(|n| MessageId(format!("m{n}"))).collect();
    crew.backend.acknowledge(crew.team.dir(), &inbox, &read).await.unwrap();
    assert_eq!(crew.team.collect(&name("worker")).await.unwrap().mail.len(), 2_000);
    let left = crew.team.mail(&name("worker")).await.unwrap();
    assert_eq!((left.len(), left[0].id.0.as_str()), (2_050, "m550"));
}
