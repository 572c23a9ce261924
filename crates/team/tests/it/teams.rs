//! Creating, finding and deleting teams.

use insta::assert_snapshot;
use pitcrew_protocol::{ErrorCode, Limits, Rate, TeamDir};
use pitcrew_store::Event;
use pitcrew_team::{Actor, OnTaken};

use crate::team_env::{Crew, as_member, create, is, limits, name};

#[tokio::test]
async fn a_new_team_is_written_as_recorded() {
    let crew = Crew::new().await;
    let mut config = crew.team.config().await.unwrap().as_ref().clone();
    config.members.truncate(1);
    assert_snapshot!(serde_json::to_string_pretty(&config).unwrap(), @r#"
    {
      "name": "probe",
      "description": "probe team",
      "createdAt": 1795175309433,
      "leadAgentId": "team-lead@probe",
      "leadSessionId": "c8f283a3-44a1-4434-bd87-5f24b94924bf",
      "members": [
        {
          "agentId": "team-lead@probe",
          "name": "team-lead",
          "agentType": "team-lead",
          "model": "claude-sonnet-4-5-20250929",
          "joinedAt": 1795175309433,
          "tmuxPaneId": "",
          "cwd": "/home/dev/project",
          "subscriptions": [],
          "pitcrew": {}
        }
      ]
    }
    "#);
    assert_eq!(crew.team.file().display().to_string(), "memory/teams/probe/config.json");
}

#[tokio::test]
async fn names_that_share_a_folder_are_refused_or_numbered() {
    let crew = Crew::new().await;
    let error = crew.teams.create(create("Probe")).await.unwrap_err();
    is(&error, ErrorCode::TeamAlreadyExists);
    assert_eq!(error.details["existing_team"], "probe");
    let mut numbered = create("Probe");
    numbered.on_taken = OnTaken::Number;
    let (team, created) = crew.teams.create(numbered).await.unwrap();
    assert_eq!(team.name().as_str(), "Probe-2");
    assert_eq!(created.lead_agent_id, "team-lead@Probe-2");
    assert_eq!(team.dir().as_str(), "probe-2");
}

#[tokio::test]
async fn bad_names_make_no_team() {
    let crew = Crew::new().await;
    for bad in ["", "..", "😀", "a\0b", &"x".repeat(300)] {
        is(&crew.teams.create(create(bad)).await.unwrap_err(), ErrorCode::InvalidRequest);
    }
    assert_eq!(crew.teams.list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_unknown_team_is_told_with_the_teams_there_are() {
    let crew = Crew::new().await;
    assert_eq!(crew.teams.open("PROBE").await.unwrap().name().as_str(), "probe");
    let error = crew.teams.open("prode").await.unwrap_err();
    assert_snapshot!(serde_json::to_string(&error).unwrap(), @r#"{"success":false,"error":"team_not_found","message":"Team 'prode' does not exist; did you mean 'probe'?","details":{"team_name":"prode","available_teams":["probe"],"did_you_mean":"probe"}}"#);
    crew.teams.create(create("My Team.x")).await.unwrap();
    assert_eq!(crew.teams.open("my-team-x").await.unwrap().name().as_str(), "My Team.x");
    let error = crew.teams.open("My/Team/x").await.unwrap_err();
    is(&error, ErrorCode::TeamNotFound);
    assert_eq!(error.details["did_you_mean"], "My Team.x");
}

#[tokio::test]
async fn teams_are_limited_in_number_and_in_rate() {
    let crew = Crew::with(Limits { teams: 2, ..limits() }).await;
    crew.teams.create(create("two")).await.unwrap();
    let error = crew.teams.create(create("three")).await.unwrap_err();
    is(&error, ErrorCode::RateLimit);
    assert_eq!((&error.details["limit"], &error.details["got"]), (&2.into(), &2.into()));

    let crew = Crew::with(Limits { team_rate: Rate { count: 2, seconds: 3600 }, ..limits() }).await;
    crew.wait_ms(1000);
    crew.teams.create(create("two")).await.unwrap();
    let error = crew.teams.create(create("three")).await.unwrap_err();
    assert_snapshot!(serde_json::to_string(&error).unwrap(), @r#"{"success":false,"error":"rate_limit","message":"at most 2 teams in 3600 s are allowed (pitcrew.limits.teamRate in the settings); try again in 3599 s","details":{"limit":2,"window_seconds":3600,"retry_after_ms":3599000}}"#);
    crew.wait_ms(3_599_000);
    crew.teams.create(create("three")).await.unwrap();
}

#[tokio::test]
async fn calls_are_counted_when_they_change_something() {
    let crew = Crew::with(Limits { call_rate: Rate { count: 4, seconds: 60 }, ..limits() }).await;
    crew.team.claim(&Actor::Lead, None).await.unwrap_err();
    let error = crew.team.claim(&Actor::Lead, None).await.unwrap_err();
    is(&error, ErrorCode::RateLimit);
    crew.team.tasks().await.unwrap();
    crew.wait_ms(60_000);
    is(&crew.team.claim(&Actor::Lead, None).await.unwrap_err(), ErrorCode::InvalidStatus);
}

#[tokio::test]
async fn a_team_with_teammates_is_not_deleted() {
    let crew = Crew::new().await;
    let refused = crew.team.delete(&Actor::Lead).await.unwrap();
    assert!(!refused.success);
    assert_snapshot!(refused.message, @"Cannot cleanup team with 2 active member(s): worker, planner. Use requestShutdown to gracefully terminate teammates first. To do so, send each of them a SendMessage with the type shutdown_request.");
    is(&crew.team.delete(&as_member("worker")).await.unwrap_err(), ErrorCode::PermissionDenied);
    is(
        &crew.team.delete(&Actor::Outside("ci".into())).await.unwrap_err(),
        ErrorCode::PermissionDenied,
    );
    for gone in ["worker", "planner"] {
        crew.team.remove_member(&Actor::Lead, &name(gone)).await.unwrap();
    }
    let journal = crew.backend.journal_since(&TeamDir::of("probe"), 0).await.unwrap().0;
    assert!(!journal.iter().any(|e| matches!(e.event, Event::TeamDeleted { .. })));
    assert!(crew.team.delete(&Actor::User).await.unwrap().success);
    let error = crew.team.tasks().await.unwrap_err();
    is(&error, ErrorCode::TeamNotFound);
    assert_eq!(error.details["available_teams"], serde_json::json!([]));
}

#[tokio::test]
async fn a_team_whose_work_is_done_goes_into_the_archive_and_comes_back_by_its_name() {
    let crew = Crew::new().await;
    assert_eq!(crew.team.archive().await.unwrap(), None, "it has teammates");
    for member in crew.team.config().await.unwrap().teammates() {
        crew.team.remove_member(&Actor::User, &member.name).await.unwrap();
    }
    let first = crew.team.archive().await.unwrap().unwrap();
    let error = crew.teams.open("probe").await.unwrap_err();
    is(&error, ErrorCode::TeamNotFound);
    assert!(error.message.contains("Team 'probe' is in the archive since"), "{error}");
    assert_eq!(error.details["archive"], first);
    let (newer, _) = crew.teams.create(create("Probe")).await.unwrap();
    let second = newer.archive().await.unwrap().unwrap();
    assert_eq!(crew.teams.find_archived("PROBE").await.unwrap().unwrap().name.to_string(), second);
    let (team, is_restored) = crew.teams.open_or_restore("probe").await.unwrap();
    assert!(is_restored);
    assert_eq!(team.name().as_str(), "Probe", "the newest of that name");
    assert!(!crew.teams.open_or_restore("probe").await.unwrap().1, "the live team comes first");
    is(&crew.teams.open_or_restore(&first).await.unwrap_err(), ErrorCode::TeamAlreadyExists);
    assert!(team.archive().await.unwrap().is_some());
    let (team, is_restored) = crew.teams.open_or_restore(&first).await.unwrap();
    assert_eq!((team.name().as_str(), is_restored), ("probe", true));
}
