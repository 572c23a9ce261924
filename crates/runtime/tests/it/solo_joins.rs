//! Tests a member that joins a team whose lead is another client, works there, and leaves the team.

use std::path::Path;

use pitcrew_protocol::{AgentName, Status, TeamConfig};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::run::{Entry, RunEnd, Runtime, SoloOptions};
use pitcrew_team::store::StoreError;
use pitcrew_team::{Actor, Team};

use crate::solo_env::{
    AGREES, dismiss, idle_notices, lead_mail, start, tell, until_it_is, until_the_config_says,
};
use crate::team_env::{TestRun, finish, until};

/// The script of a guest: a member that joins a team whose lead is another client. The guest greets
/// the lead, does its task, and shuts down when the lead asks for it.
fn guest() -> String {
    format!("{GREETS}    - wait_for: {{contains: Count}}\n    - text: One.\n{AGREES}")
}

/// The first steps in the script of a guest (a member that joins an existing team). The guest
/// greets the lead and waits.
const GREETS: &str = "
agents:
  guest:
    - tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: I am here, summary: here}}]
    - text: Ready.
";

/// Copies a team that the reference client created in a recording. The test plays the lead of this
/// team.
async fn recorded_team(setting: &TestRun) -> Team {
    let recorded =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/claude-2.1.39/in-process");
    copy(&recorded, &setting.root);
    setting.team().await
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn joins(setting: &TestRun, script: &str) -> SoloOptions {
    SoloOptions {
        name: "guest".to_owned(),
        entry: Entry::Joins,
        model: Some("script:test.yaml".to_owned()),
        ..setting.alone(script)
    }
}

#[tokio::test]
async fn a_guest_tells_the_lead_that_it_is_there_works_and_leaves_when_it_is_asked_to() {
    let setting = TestRun::in_files();
    let team = recorded_team(&setting).await;
    let mut handle = start(joins(&setting, &guest())).await;
    until_it_is(&mut handle, Status::Idle).await;
    let said = |text: &'static str| {
        move |mail: &pitcrew_team::Mail| mail.message.text == text && mail.message.from == "guest"
    };
    assert!(lead_mail(&team).await.iter().any(said("I am here")));
    until_the_config_says(&team, "guest", false).await;
    tell(&team, "guest", "Count.").await;
    until_it_is(&mut handle, Status::Idle).await;
    assert!(idle_notices(&team).await.contains(&("available".to_owned(), Some("One.".to_owned()))));
    dismiss(&team, "guest").await;
    let outcome = finish(handle).await.outcome;
    assert!(matches!(outcome.end, RunEnd::Success { .. }), "{outcome:?}");
    assert_eq!(
        names(&team.config().await.unwrap()),
        ["team-lead", "worker"],
        "it did not wait for a lead that does nothing"
    );
}

fn names(config: &TeamConfig) -> Vec<&str> {
    config.members.iter().map(|member| member.name.as_str()).collect()
}

#[tokio::test]
async fn a_lead_that_takes_a_guest_out_by_itself_is_not_in_its_way() {
    let setting = TestRun::in_files();
    let team = recorded_team(&setting).await;
    let mut handle = start(joins(&setting, &format!("{GREETS}{AGREES}"))).await;
    until_it_is(&mut handle, Status::Idle).await;
    dismiss(&team, "guest").await;
    until_it_is(&mut handle, Status::Completed).await;
    // Remove the member in the way of the reference client: only write a config without the member,
    // and take no lock.
    let file = team.file();
    let mut config: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    config["members"].as_array_mut().unwrap().retain(|member| member["name"] != "guest");
    std::fs::write(&file, serde_json::to_vec_pretty(&config).unwrap()).unwrap();
    finish(handle).await;
    assert_eq!(names(&team.config().await.unwrap()), ["team-lead", "worker"]);
    let error = Runtime::join(joins(&setting, &guest())).await.unwrap_err();
    assert_eq!(error.to_string(), "Agent 'guest' is, or was, in team 'probe'");
}

#[tokio::test]
async fn a_guest_that_was_stopped_comes_back_as_the_same_member() {
    let setting = TestRun::in_files();
    let team = recorded_team(&setting).await;
    let mut handle = start(joins(&setting, &guest())).await;
    until_it_is(&mut handle, Status::Idle).await;
    handle.stopper().stop();
    assert_eq!(finish(handle).await.outcome.end, RunEnd::Interrupted);
    tell(&team, "guest", "Count.").await;
    let mut again = start(joins(&setting, &guest())).await;
    until(&mut again, |event| matches!(event, RunEvent::MailDelivered { .. })).await;
    until_it_is(&mut again, Status::Idle).await;
    assert_eq!(idle_notices(&team).await.last().unwrap().1.as_deref(), Some("One."));
    assert_eq!(names(&team.config().await.unwrap()), ["team-lead", "worker", "guest"]);
}

#[tokio::test]
async fn a_guest_cannot_take_the_place_of_another_member() {
    let setting = TestRun::in_files();
    let team = recorded_team(&setting).await;
    for name in ["worker", "Worker", "team-lead"] {
        let options = SoloOptions { name: name.to_owned(), ..joins(&setting, &guest()) };
        assert!(Runtime::join(options).await.is_err(), "{name}");
    }
    assert_eq!(names(&team.config().await.unwrap()), ["team-lead", "worker"]);
}

#[tokio::test]
async fn a_team_without_a_process_that_leads_it_parks_no_guest() {
    let setting = TestRun::in_files();
    let team = recorded_team(&setting).await;
    let mut handle = start(joins(&setting, &guest())).await;
    let seen = until_it_is(&mut handle, Status::Idle).await;
    assert!(
        !seen
            .iter()
            .any(|event| matches!(event, RunEvent::AgentChanged { status: Status::Parked, .. }))
    );
    team.remove_member(&Actor::Lead, &AgentName::new("guest").unwrap()).await.unwrap();
    finish(handle).await;
    let gone = team.backend().archive_team(team.dir()).await;
    assert!(!matches!(gone, Err(StoreError::NoTeam { .. })));
}
