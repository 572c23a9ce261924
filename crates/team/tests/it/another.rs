//! Tests the creation of a new team by a lead that has deleted its old team. Every [`Team`]
//! that was opened for the old team must then work on the new team.

use pitcrew_protocol::{AgentName, ErrorCode, Rate, TeamCreateInput};
use pitcrew_store::{Event, LogName, Turn};
use pitcrew_team::{Actor, AnotherTeam, KnownMode, LeadSigner, Team, asked_name};

use crate::team_env::{Crew, create, is, limits, member, name};

fn another(asked: &str) -> AnotherTeam {
    let input = TeamCreateInput {
        team_name: asked.into(),
        description: None,
        agent_type: Some("captain".into()),
    };
    let (cwd, model) = ("/home/dev/project".to_owned(), "claude-sonnet-4-5-20250929".to_owned());
    AnotherTeam {
        input,
        cwd,
        model,
        session_id: "c8f283a3-44a1-4434-bd87-5f24b94924bf".into(),
        mode: None,
    }
}

/// Creates a team whose lead signs. All teammates have left the team.
async fn led(crew: &Crew) -> Team {
    let seal = LeadSigner::make(&crew.teams).unwrap();
    let lead = crew.team.clone().take_lead(seal).await.unwrap();
    let config = lead.config().await.unwrap();
    for member in config.teammates() {
        lead.remove_member(&Actor::Lead, &member.name).await.unwrap();
    }
    lead
}

#[tokio::test]
async fn handles_of_a_deleted_team_are_the_next_ones_and_meet_no_strangers_in_between() {
    let crew = Crew::new().await;
    let lead = led(&crew).await;
    let earlier = lead.clone();
    let transcript = LogName::Transcript(AgentName::lead());
    crew.backend.append_log(lead.dir(), &transcript, &["{}".to_owned()]).await.unwrap();
    is(&lead.make_another(another("second")).await.unwrap_err(), ErrorCode::InvalidRequest);
    lead.delete(&Actor::Lead).await.unwrap();
    assert!(earlier.is_deleted());

    let (stranger, _) = crew.teams.create(create("probe")).await.unwrap();
    for error in [
        lead.config().await.unwrap_err(),
        earlier.tasks().await.unwrap_err(),
        earlier.spawn(member("w")).await.unwrap_err(),
        lead.delete(&Actor::Lead).await.unwrap_err(),
    ] {
        is(&error, ErrorCode::TeamNotFound);
    }
    lead.note([Event::RunEnded { end: None, reason: None }]).await;
    let journal = crew.backend.journal_since(stranger.dir(), 0).await.unwrap().0;
    assert_eq!(journal.len(), 1, "a stranger's journal: {journal:?}");
    let error = lead.make_another(another("second")).await.unwrap_err();
    is(&error, ErrorCode::TeamAlreadyExists);
    assert!(error.message.starts_with("Team 'probe' already exists"), "{error:?}");
    assert!(earlier.is_deleted());

    stranger.delete(&Actor::User).await.unwrap();
    let created = lead.make_another(another("second")).await.unwrap();
    assert_eq!(
        (created.team_name.as_str(), created.lead_agent_id.as_str()),
        ("probe", "team-lead@probe")
    );
    assert!(!earlier.is_deleted() && earlier.is_called("Second").await);
    let config = earlier.config().await.unwrap();
    assert_eq!(asked_name(&config).map(|name| name.to_string()).as_deref(), Some("second"));
    assert_eq!((config.members.len(), config.description.clone()), (1, None));
    assert_eq!(config.members[0].agent_type.as_deref(), Some("captain"));
    assert_eq!(crew.backend.log(lead.dir(), &transcript).await.unwrap(), ["{}"]);
    assert!(earlier.tasks().await.unwrap().is_empty());
}

#[tokio::test]
async fn what_was_signed_in_a_deleted_team_counts_in_no_other() {
    let crew = Crew::new().await;
    let lead = led(&crew).await;
    let mut free = member("w");
    free.mode = Some("bypassPermissions".into());
    lead.spawn(free).await.unwrap();
    let signed = lead.member("w").await.unwrap();
    assert_eq!(KnownMode::of(&lead, &signed).0.mode(), "bypassPermissions");
    lead.remove_member(&Actor::Lead, &name("w")).await.unwrap();
    lead.delete(&Actor::Lead).await.unwrap();
    let mut next = another("probe");
    next.mode = Some("acceptEdits".into());
    lead.make_another(next).await.unwrap();
    lead.keep_lead_key().await.unwrap();
    let (mode, refused) = KnownMode::of(&lead, &signed);
    assert_eq!((mode.mode(), refused.is_some()), ("default", true));
    let (mode, refused) =
        KnownMode::of_lead(&lead, &lead.member("team-lead").await.unwrap(), "default");
    assert_eq!((mode.mode(), refused), ("acceptEdits", None));
    assert_eq!(
        lead.keys_of_leads().await.unwrap().iter().collect::<Vec<_>>(),
        [lead.verify_key().unwrap()]
    );
}

#[tokio::test]
async fn what_earlier_teams_took_is_in_the_journal_of_the_next() {
    let crew = Crew::new().await;
    let lead = led(&crew).await;
    let turn =
        || Event::TurnEnded(Turn { cost_usd: Some(0.25), ..Turn::new(AgentName::lead(), "m") });
    for deleted in 1..=3 {
        lead.note([turn()]).await;
        lead.delete(&Actor::Lead).await.unwrap();
        // The lead's turn continues after the team is deleted.
        lead.note([turn(), Event::RunEnded { end: None, reason: None }]).await;
        lead.make_another(another("probe")).await.unwrap();
        let (summary, _) = crew.backend.journal_summary(lead.dir()).await.unwrap();
        let spent = summary.members[&AgentName::lead()].spent["m"];
        assert_eq!(spent.turns, 2 * deleted);
        assert_eq!(spent.cost_nano_usd, 500_000_000 * u64::from(deleted));
    }
}

#[tokio::test]
async fn another_team_counts_as_one_that_an_agent_makes_and_needs_the_archive() {
    let rate = Rate { count: 2, seconds: 3600 };
    let crew = Crew::with(pitcrew_protocol::Limits { team_rate: rate, ..limits() }).await;
    let lead = led(&crew).await;
    lead.delete(&Actor::Lead).await.unwrap();
    lead.make_another(another("second")).await.unwrap();
    lead.delete(&Actor::Lead).await.unwrap();
    is(&lead.make_another(another("third")).await.unwrap_err(), ErrorCode::RateLimit);

    let crew = Crew::new().await;
    let lead = led(&crew).await;
    lead.delete(&Actor::Lead).await.unwrap();
    for archive in crew.backend.archives().await.unwrap() {
        crew.backend.remove_archive(&archive).await.unwrap();
    }
    let error = lead.make_another(another("second")).await.unwrap_err();
    assert!(error.message.contains("the lead's conversation is gone"), "{error:?}");
    assert!(lead.is_deleted() && crew.backend.teams().await.unwrap().is_empty());
}
