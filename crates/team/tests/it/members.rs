//! Members that join and leave.

use insta::assert_snapshot;
use pitcrew_protocol::{ErrorCode, Limits, TaskStatus};
use pitcrew_store::Event;
use pitcrew_team::{Actor, Enlisted, JoinMember, SpawnRecord};

use crate::team_env::{Crew, as_member, is, limits, member, message, name, task};

#[tokio::test]
async fn a_teammate_is_written_as_recorded() {
    let crew = Crew::new().await;
    let mut spawn = member("a@b");
    spawn.call = Some("toolu_1".into());
    spawn.mode = Some("plan".into());
    spawn.plan_mode_required = true;
    let spawned = crew.team.spawn(spawn).await.unwrap();
    assert_snapshot!(serde_json::to_string_pretty(&spawned).unwrap(), @r#"
    {
      "agentId": "a-b@probe",
      "name": "a-b",
      "agentType": "general-purpose",
      "model": "claude-opus-4-6",
      "prompt": "please do it",
      "color": "yellow",
      "planModeRequired": true,
      "joinedAt": 1795175309433,
      "tmuxPaneId": "in-process",
      "cwd": "/home/dev/project",
      "subscriptions": [],
      "backendType": "in-process",
      "pitcrew": {"call":"toolu_1","mode":"plan"}
    }
    "#);
    assert_eq!(SpawnRecord::of(&spawned).unwrap().mode.as_deref(), Some("plan"));
}

#[tokio::test]
async fn whoever_starts_a_new_teammate_notes_it_and_a_call_made_again_notes_nothing() {
    let crew = Crew::new().await;
    let mut spawn = member("new");
    spawn.call = Some("toolu_1".into());
    let Enlisted::New(there) = crew.team.enlist(spawn.clone()).await.unwrap() else {
        panic!("it was there before")
    };
    assert_eq!(crew.team.enlist(spawn.clone()).await.unwrap(), Enlisted::Before(there.clone()));
    let noted = async || {
        let journal = crew.team.backend().journal_since(crew.team.dir(), 0).await.unwrap().0;
        let is_it = |event: &Event| matches!(event, Event::MemberChanged { member, state, .. } if *member == there.name && state.as_str() == "spawned");
        journal.iter().filter(|entry| is_it(&entry.event)).count()
    };
    assert_eq!(noted().await, 0);
    crew.team.note_spawned(&there.name, "team-lead").await;
    assert_eq!(crew.team.spawn(spawn).await.unwrap(), there);
    assert_eq!(noted().await, 1);
}

#[tokio::test]
async fn a_new_name_that_could_be_confused_is_refused_with_the_reason() {
    let crew = Crew::new().await;
    crew.team.spawn(member("bob1")).await.unwrap();
    crew.team.spawn(member("Борис1")).await.unwrap();
    let refused = [
        // The new name and the words of the refusal.
        ("team-le\u{430}d", "mixes letters of scripts"),
        ("b\u{43E}b", "mixes letters of scripts"),
        ("us\u{435}r", "mixes letters of scripts"),
        ("\u{443}ser1\u{3B1}", "mixes letters of scripts"),
        ("bobl", "could be confused with 'bob1'"),
        ("BOBI", "could be confused with 'bob1'"),
        ("Борисl", "mixes letters of scripts"),
        ("u5er\u{200B}", "invisible"),
        ("user", "is a reserved name"),
    ];
    let joining = |name: &str| JoinMember { name: name.into(), ..JoinMember::default() };
    for (given, words) in refused {
        for error in [
            crew.team.spawn(member(given)).await.unwrap_err(),
            crew.team.join(joining(given)).await.unwrap_err(),
        ] {
            assert!(error.message.contains(words), "{given}: {error:?}");
            let is_name_error =
                matches!(error.code, ErrorCode::InvalidRequest | ErrorCode::AgentAlreadyExists);
            assert!(is_name_error, "{given}: {error:?}");
        }
    }
    for given in ["Борис2", "ひらがなカタカナ漢字1", "한국a1", "דוד1", "bob-2", "ana"]
    {
        assert_eq!(crew.team.spawn(member(given)).await.unwrap().name.as_str(), given);
    }
}

#[tokio::test]
async fn a_taken_name_gets_the_next_number_also_when_its_owner_has_ended() {
    let crew = Crew::new().await;
    assert_eq!(crew.team.spawn(member("Worker")).await.unwrap().name.as_str(), "Worker-2");
    assert_eq!(crew.team.spawn(member("worker")).await.unwrap().name.as_str(), "worker-3");
    assert_eq!(crew.team.spawn(member("team-lead")).await.unwrap().name.as_str(), "team-lead-2");
    crew.team.remove_member(&Actor::Lead, &name("worker")).await.unwrap();
    assert_eq!(crew.team.spawn(member("worker")).await.unwrap().name.as_str(), "worker-4");
}

#[tokio::test]
async fn a_name_that_shares_an_inbox_or_is_somebody_else_s_is_refused() {
    let crew = Crew::new().await;
    crew.team.spawn(member("a b")).await.unwrap();
    for (taken, by) in [("a-b", "a b"), ("A.B", "a b"), ("team lead", "team-lead")] {
        let error = crew.team.spawn(member(taken)).await.unwrap_err();
        is(&error, ErrorCode::AgentAlreadyExists);
        assert_eq!(error.details["existing_agent"], by);
    }
    for bad in ["user", "System", "", "..", "a\nb", &"x".repeat(101)] {
        is(&crew.team.spawn(member(bad)).await.unwrap_err(), ErrorCode::InvalidRequest);
    }
    assert_eq!(crew.team.config().await.unwrap().members.len(), 4);
}

#[tokio::test]
async fn a_second_spawn_by_the_same_call_is_the_first() {
    let crew = Crew::new().await;
    let mut spawn = member("helper");
    spawn.call = Some("toolu_7".into());
    let first = crew.team.spawn(spawn.clone()).await.unwrap();
    crew.wait_ms(5000);
    assert_eq!(crew.team.spawn(spawn).await.unwrap(), first);
    assert_eq!(crew.team.config().await.unwrap().members.len(), 4);
}

#[tokio::test]
async fn colors_go_around_in_their_order() {
    let crew = Crew::new().await;
    for n in 0..7 {
        crew.team.spawn(member(&format!("m{n}"))).await.unwrap();
    }
    let config = crew.team.config().await.unwrap();
    let colors: Vec<_> = config.teammates().map(|m| m.color.clone().unwrap()).collect();
    assert_eq!(
        colors,
        ["blue", "green", "yellow", "purple", "orange", "pink", "cyan", "red", "blue"]
    );
}

#[tokio::test]
async fn a_team_takes_no_more_members_than_its_limit() {
    let crew = Crew::with(Limits { agents: 3, ..limits() }).await;
    let error = crew.team.spawn(member("more")).await.unwrap_err();
    is(&error, ErrorCode::RateLimit);
    assert_eq!(error.details["limit"], 3);
}

#[tokio::test]
async fn spawns_that_meet_get_different_names() {
    let crew = Crew::new().await;
    let spawns = (0..8).map(|_| {
        let team = crew.team.clone();
        tokio::spawn(async move { team.spawn(member("twin")).await.unwrap().name })
    });
    let mut names = std::collections::HashSet::new();
    for spawn in spawns.collect::<Vec<_>>() {
        assert!(names.insert(spawn.await.unwrap()));
    }
}

#[tokio::test]
async fn a_removed_member_leaves_its_tasks_to_the_pool_and_its_mail_to_the_dead() {
    let crew = Crew::new().await;
    for subject in ["one", "two", "three"] {
        crew.team.create_task(&Actor::Lead, task(subject), None).await.unwrap();
    }
    crew.team.claim(&as_member("worker"), Some("1")).await.unwrap();
    crew.team.claim(&as_member("worker"), Some("2")).await.unwrap();
    let mut done = crate::team_env::update("2");
    done.status = Some(pitcrew_protocol::StatusChange::To(TaskStatus::Completed));
    crew.team.update_task(&as_member("worker"), done).await.unwrap();
    crew.team.claim(&as_member("planner"), Some("3")).await.unwrap();
    let sent = crew.send(&as_member("planner"), message("worker", "are you there?")).await;
    let assigned: Vec<_> = crew.unread("worker").await.into_iter().map(|m| m.id).collect();

    let removed = crew.team.remove_member(&Actor::Lead, &name("worker")).await.unwrap();
    assert_eq!(removed.released.iter().map(|id| id.as_str()).collect::<Vec<_>>(), ["1"]);
    assert_eq!(removed.dead, assigned);
    let tasks = crew.team.tasks().await.unwrap();
    assert_eq!((tasks[0].status, &tasks[0].owner), (TaskStatus::Pending, &None));
    assert_eq!(tasks[1].owner.as_deref(), Some("worker"), "what is done stays its own");
    assert_eq!(tasks[2].owner.as_deref(), Some("planner"));
    assert_eq!(crew.unread("worker").await, []);
    let told: Vec<_> =
        crew.unread("planner").await.into_iter().filter(|m| m.message.from == "system").collect();
    assert_eq!(told.len(), 1);
    assert!(told[0].message.text.contains(&sent.receipts[0].id.0), "{}", told[0].message.text);
    is(
        &crew.team.remove_member(&Actor::Lead, &name("worker")).await.unwrap_err(),
        ErrorCode::AgentNotFound,
    );
}

#[tokio::test]
async fn only_the_lead_and_the_user_remove_members_and_nobody_the_lead() {
    let crew = Crew::new().await;
    for actor in [as_member("worker"), Actor::Outside("ci".into())] {
        let error = crew.team.remove_member(&actor, &name("planner")).await.unwrap_err();
        is(&error, ErrorCode::PermissionDenied);
    }
    let error = crew.team.remove_member(&Actor::User, &name("team-lead")).await.unwrap_err();
    is(&error, ErrorCode::PermissionDenied);
    let error = crew.team.remove_member(&Actor::User, &name("wroker")).await.unwrap_err();
    assert_eq!(error.details["did_you_mean"], "worker");
}

#[tokio::test]
async fn a_member_changes_by_name_in_any_case() {
    let crew = Crew::new().await;
    crew.team.set_mode(&Actor::User, &name("Worker"), "acceptEdits").await.unwrap();
    crew.team.set_worktree(&name("worker"), Some("/tmp/wt")).await.unwrap();
    crew.team.set_active(&name("worker"), true).await.unwrap();
    let config = crew.team.config().await.unwrap();
    let worker = config.member("worker").unwrap();
    assert_eq!(worker.mode.as_deref(), Some("acceptEdits"));
    assert_eq!((worker.worktree_path.as_deref(), worker.is_active), (Some("/tmp/wt"), Some(true)));
    is(
        &crew.team.set_mode(&Actor::Lead, &name("worker"), "yolo").await.unwrap_err(),
        ErrorCode::InvalidRequest,
    );
    let error =
        crew.team.set_mode(&as_member("worker"), &name("worker"), "default").await.unwrap_err();
    is(&error, ErrorCode::PermissionDenied);
}
