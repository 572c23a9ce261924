//! The records of started processes and panes, and members that join by themselves.

use pitcrew_protocol::{ErrorCode, PaneHost, ProcessRef, Program};
use pitcrew_store::Event;
use pitcrew_team::{Actor, Escaped, JoinMember, MAIL_WAITS_MS, PanePlace, SpawnRecord, Started};

use crate::team_env::{Crew, as_member, is, member, message, name};

fn started(pid: u32) -> Started {
    Started {
        process: Some(ProcessRef { pid, start_ticks: 77 }),
        pane: Some(PanePlace { host: PaneHost::of("tmux"), id: "%3".into() }),
        program: Program::Pitcrew.into(),
        bounds: None,
        owner: ProcessRef { pid: 1, start_ticks: 2 },
        at_ms: 3,
        deadline_ms: Some(4),
    }
}

fn joining(name: &str) -> JoinMember {
    JoinMember {
        name: name.into(),
        agent_type: "general-purpose".into(),
        model: "script".into(),
        cwd: "/home/dev".into(),
        ..JoinMember::default()
    }
}

#[tokio::test]
async fn what_was_started_stays_known_until_it_is_forgotten() {
    let crew = Crew::new().await;
    let worker = name("worker");
    assert!(crew.team.started().await.unwrap().is_empty());
    crew.team.note_started(&worker, started(10)).await.unwrap();
    crew.team.note_started(&worker, Started { deadline_ms: None, ..started(10) }).await.unwrap();
    crew.team.remove_member(&Actor::Lead, &worker).await.unwrap();
    let all = crew.team.started().await.unwrap();
    assert_eq!(all.get(&worker), Some(&Started { deadline_ms: None, ..started(10) }));
    crew.team.forget_started(&worker).await.unwrap();
    crew.team.forget_started(&worker).await.unwrap();
    assert!(crew.team.started().await.unwrap().is_empty());
    let journal = crew.backend.journal_since(crew.team.dir(), 0).await.unwrap().0;
    let stops: Vec<_> = journal
        .into_iter()
        .map(|e| e.event)
        .filter(|e| matches!(e, Event::Stopped { .. }))
        .collect();
    assert_eq!(
        stops,
        [Event::Stopped { member: worker, pid: Some(10), pane: Some("tmux:%3".into()) }]
    );
}

#[tokio::test]
async fn an_escaped_process_is_recorded_once_until_it_is_forgotten() {
    let crew = Crew::new().await;
    let escaped = |pid: u32, command: &str| Escaped {
        process: ProcessRef { pid, start_ticks: 77 },
        member: name("worker"),
        command: command.into(),
        owner: ProcessRef { pid: 1, start_ticks: 2 },
        at_ms: 3,
    };
    let (first, second) = (escaped(10, "a"), escaped(11, "b"));
    assert_eq!(
        crew.team.note_escaped(vec![first.clone()]).await.unwrap(),
        std::slice::from_ref(&first)
    );
    let again = vec![escaped(10, "later"), second.clone()];
    assert_eq!(crew.team.note_escaped(again).await.unwrap(), std::slice::from_ref(&second));
    assert_eq!(crew.team.escaped().await.unwrap(), [first.clone(), second.clone()]);
    crew.team.forget_escaped(vec![first.process]).await.unwrap();
    assert_eq!(crew.team.escaped().await.unwrap(), [second]);
}

#[tokio::test]
async fn a_member_s_pane_is_recorded_and_hidden() {
    let crew = Crew::new().await;
    crew.team.set_place(&name("worker"), "%7", "tmux").await.unwrap();
    let worker = crew.team.member("worker").await.unwrap();
    assert_eq!(
        (worker.tmux_pane_id.as_deref(), worker.backend_type.as_deref()),
        (Some("%7"), Some("tmux"))
    );
    is(
        &crew.team.set_place(&name("nobody"), "%7", "tmux").await.unwrap_err(),
        ErrorCode::AgentNotFound,
    );
    for pane in ["%7", "%8", "%7"] {
        crew.team.set_hidden(pane, true).await.unwrap();
    }
    assert_eq!(
        crew.team.config().await.unwrap().hidden_pane_ids,
        Some(vec!["%8".to_owned(), "%7".to_owned()])
    );
    for pane in ["%7", "%8", "%9"] {
        crew.team.set_hidden(pane, false).await.unwrap();
    }
    assert_eq!(crew.team.config().await.unwrap().hidden_pane_ids, None);
}

#[tokio::test]
async fn a_member_joins_by_itself_under_a_name_that_is_free() {
    let crew = Crew::new().await;
    let joined = crew.team.join(joining("guest")).await.unwrap();
    assert_eq!(crew.team.member("guest").await.unwrap(), joined);
    assert_eq!((joined.tmux_pane_id.as_deref(), joined.backend_type.as_deref()), (Some(""), None));
    assert_eq!(joined.color.as_deref(), Some("yellow"));
    assert!(SpawnRecord::of(&joined).is_some(), "it is one of ours");
    crew.team.spawn(member("gone")).await.unwrap();
    crew.team.remove_member(&Actor::Lead, &name("gone")).await.unwrap();
    for (taken, by) in [
        ("guest", "guest"),
        ("Guest", "guest"),
        ("gone", "gone"),
        ("g.uest", ""),
        ("worker", "worker"),
    ] {
        match crew.team.join(joining(taken)).await {
            Ok(_) => assert_eq!(by, "", "{taken} was free"),
            Err(error) => {
                is(&error, ErrorCode::AgentAlreadyExists);
                assert_eq!(error.details["existing_agent"], by);
            }
        }
    }
    for bad in ["user", "team-lead", "", "a\nb"] {
        is(&crew.team.join(joining(bad)).await.unwrap_err(), ErrorCode::InvalidRequest);
    }
}

#[tokio::test]
async fn of_two_that_join_under_one_name_one_is_refused() {
    let crew = Crew::new().await;
    let both = (0..2).map(|_| {
        let team = crew.team.clone();
        tokio::spawn(async move { team.join(joining("guest")).await })
    });
    let mut refused = 0;
    for one in both.collect::<Vec<_>>() {
        if let Err(error) = one.await.unwrap() {
            is(&error, ErrorCode::AgentAlreadyExists);
            refused += 1;
        }
    }
    assert_eq!(refused, 1);
}

#[tokio::test]
async fn mail_for_a_member_that_nobody_runs_waits_a_day_and_then_its_sender_is_told() {
    let crew = Crew::new().await;
    let (worker, planner) = (name("worker"), name("planner"));
    crew.team.send(&as_member("planner"), message("worker", "the old one"), None).await.unwrap();
    crew.wait_ms(MAIL_WAITS_MS);
    crew.team.send(&as_member("planner"), message("worker", "the new one"), None).await.unwrap();
    assert_eq!(crew.team.bury_overdue(&worker).await.unwrap(), []);
    crew.wait_ms(1);
    let dead = crew.team.bury_overdue(&worker).await.unwrap();
    assert_eq!(dead.len(), 1);
    assert_eq!(
        crew.teams.message(&dead[0]).await.unwrap().dead.unwrap().reason,
        "nobody ran worker for a day"
    );
    let texts = async |name| -> Vec<String> {
        crew.team.unread(name).await.unwrap().into_iter().map(|mail| mail.message.text).collect()
    };
    assert_eq!(texts(&worker).await, ["the new one"]);
    let told = format!(
        "Your message {} to worker was not delivered: nobody ran worker for a day.",
        dead[0]
    );
    assert_eq!(texts(&planner).await, [told]);
    assert_eq!(crew.team.bury_overdue(&worker).await.unwrap(), []);
}

#[tokio::test]
async fn only_a_member_of_ours_is_noted_to_take_over() {
    let crew = Crew::new().await;
    for (member, by, code) in [
        ("nobody", Actor::User, ErrorCode::AgentNotFound),
        ("team-lead", Actor::User, ErrorCode::PermissionDenied),
        ("worker", as_member("worker"), ErrorCode::PermissionDenied),
    ] {
        is(&crew.team.begin_take_over(&by, &name(member)).await.unwrap_err(), code);
    }
    assert_eq!(crew.team.take_over().await.unwrap(), None);
    let noted = crew.team.begin_take_over(&Actor::User, &name("Worker")).await.unwrap();
    assert_eq!(noted.member.as_str(), "worker");
    assert_eq!(crew.team.take_over().await.unwrap(), Some(noted));
    crew.team.end_take_over().await.unwrap();
    assert_eq!(crew.team.take_over().await.unwrap(), None);
}

#[tokio::test]
async fn where_panes_are_made_is_known_each_once_and_the_latest_last() {
    let Crew { team, .. } = &Crew::new().await;
    let (tmux, program) = (
        PaneHost::of("tmux"),
        PaneHost { command: vec!["show".into(), "--all".into()], ..PaneHost::of("pane") },
    );
    assert_eq!(team.pane_hosts().await.unwrap(), []);
    for host in [&tmux, &program, &tmux] {
        team.note_pane_host(host.clone()).await.unwrap();
    }
    assert_eq!(team.pane_hosts().await.unwrap(), [program, tmux]);
}
