//! Tests the state of a team that is computed from its records: of a team in its place, in the
//! archive, and with files that are damaged.

use std::fs;

use pitcrew_agent::transcript::{Entry, Step};
use pitcrew_protocol::{Color, SendMessageInput, Status, TaskCreateInput};
use pitcrew_team::store::LogName;
use pitcrew_team::{Actor, Team, TeamRecords};
use pitcrew_view::recorded::{Recorded, conversation};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::host_env::teams_in;
use crate::script::name;

/// The team `probe` of another client: a lead, and bob, who has a message and a transcript.
async fn probe() -> (TempDir, Team) {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let files = base.join("root/teams/probe");
    fs::create_dir_all(&files).unwrap();
    let member = |name: &str, color: Option<&str>| {
        json!({
            "agentId": format!("{name}@probe"), "name": name, "joinedAt": 1, "cwd": base,
            "color": color, "subscriptions": [],
        })
    };
    let members = [member("team-lead", None), member("bob", Some("blue"))];
    let config = json!({
        "name": "probe", "createdAt": 1, "leadAgentId": "team-lead@probe", "members": members,
    });
    fs::write(files.join("config.json"), config.to_string()).unwrap();
    let team = teams_in(&base).open("probe").await.unwrap();
    let message = SendMessageInput::Message {
        recipient: "bob".to_owned(),
        content: "Look at it.".to_owned(),
        summary: None,
    };
    team.send(&Actor::User, message, None).await.unwrap();
    let task = TaskCreateInput {
        subject: "Do it".to_owned(),
        description: String::new(),
        active_form: None,
        metadata: None,
    };
    team.create_task(&Actor::Lead, task, None).await.unwrap();
    let told = Entry { seq: 1, step: Step::Told { text: "Begin.".to_owned() } };
    let line = serde_json::to_string(&told).unwrap();
    team.append_log(&LogName::Transcript(name("bob")), &[line]).await.unwrap();
    (folder, team)
}

fn timeline(recorded: &Recorded) -> Vec<String> {
    recorded.state.timeline.entries().map(|entry| entry.text()).collect()
}

#[tokio::test]
async fn the_records_of_a_team_are_its_state_with_tasks_mail_and_conversations() {
    let (folder, team) = probe().await;
    let records = TeamRecords::Live(team.clone());
    let recorded = Recorded::read(&records).await.unwrap();
    let state = &recorded.state;
    assert_eq!((state.team.as_str(), state.lead.as_ref()), ("probe", Some(&name("team-lead"))));
    let bob = state.agent(&name("bob")).unwrap();
    assert_eq!((bob.color, bob.status), (Some(Color::Blue), Status::Pending));
    assert_eq!(state.tasks[0].subject, "Do it");
    assert_eq!(recorded.unread, Vec::<String>::new());
    let happened = timeline(&recorded);
    assert!(happened.iter().any(|it| it.ends_with("writes to bob: Look at it.")), "{happened:?}");
    assert!(happened.iter().any(|it| it.ends_with("creates task #1 Do it")), "{happened:?}");
    assert_eq!(conversation(&records, &name("bob")).await.unwrap().parts.len(), 1);
    assert!(conversation(&records, &name("cat")).await.is_none());

    // Only a team without teammates is archived.
    let path = folder.path().join("root/teams/probe/config.json");
    let mut config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    config["members"].as_array_mut().unwrap().truncate(1);
    fs::write(path, config.to_string()).unwrap();
    let archive = team.archive().await.unwrap().unwrap();
    let teams = team.teams().clone();
    let archived = teams.find_archived(&archive).await.unwrap().unwrap();
    let records = TeamRecords::Archived(teams, Box::new(archived));
    let archived = Recorded::read(&records).await.unwrap();
    let mut expected = happened;
    expected.push("team probe moves to the archive".to_owned());
    assert_eq!(timeline(&archived), expected);
    let [lead] = &archived.state.agents[..] else { panic!("{:?}", archived.state.agents) };
    assert_eq!(
        (lead.name.as_str(), lead.status, lead.now().as_str()),
        ("team-lead", Status::Completed, "ended")
    );
    assert_eq!(conversation(&records, &name("bob")).await.unwrap().parts.len(), 1);
}

#[tokio::test]
async fn what_cannot_be_read_is_named_and_the_rest_is_shown() {
    let (folder, team) = probe().await;
    let files = folder.path().join("root/teams/probe");
    fs::write(files.join("inboxes/bob.json"), "no json").unwrap();
    let journal = files.join("pitcrew/journal.ndjson");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, format!("half a li\n{text}")).unwrap();
    let recorded = Recorded::read(&TeamRecords::Live(team)).await.unwrap();
    let unread = recorded.unread.join("\n");
    assert!(unread.contains("journal.ndjson: 1 of its lines cannot be read"), "{unread}");
    assert!(unread.contains("the mail of bob cannot be read"), "{unread}");
    assert_eq!(recorded.state.agents.len(), 2);
    assert!(timeline(&recorded).iter().any(|it| it.contains("creates task #1")));
}
