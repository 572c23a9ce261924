//! Tests the state of members that another client runs, from a recorded team of the reference client
//! as it was at several moments.

use std::fs;
use std::path::Path;

use pitcrew_team::TeamRecords;
use pitcrew_view::recorded::of_files;
use pitcrew_view::replay::Replay;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::host_env::teams_in;

const RECORDED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fixtures/claude-2.1.39/tmux-permissions/teams/probe"
);

fn json_of(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The recorded team with the mail until a time of that minute. The worker, which had left at the end
/// of the recording, is in it again.
fn at(time: &str, is_active: impl Fn(&str) -> Option<bool>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let team = folder.path().join("root/teams/probe");
    fs::create_dir_all(team.join("inboxes")).unwrap();
    let mut config = json_of(&Path::new(RECORDED).join("config.json"));
    let mut worker = config["members"][1].clone();
    worker["name"] = json!("worker");
    worker["agentId"] = json!("worker@probe");
    worker["joinedAt"] = json!(1_795_175_634_000_i64);
    worker.as_object_mut().unwrap().remove("planModeRequired");
    let members = config["members"].as_array_mut().unwrap();
    members.push(worker);
    for member in members.iter_mut().skip(1) {
        member["isActive"] = json!(is_active(member["name"].as_str().unwrap()));
    }
    fs::write(team.join("config.json"), config.to_string()).unwrap();
    let until = format!("2026-11-20T{time}");
    for inbox in ["team-lead.json", "planner.json", "worker.json"] {
        let mut mail = json_of(&Path::new(RECORDED).join("inboxes").join(inbox));
        let mail = mail.as_array_mut().unwrap();
        mail.retain(|it| it["timestamp"].as_str().unwrap() <= until.as_str());
        fs::write(team.join("inboxes").join(inbox), json!(mail).to_string()).unwrap();
    }
    folder
}

async fn records(folder: &TempDir) -> TeamRecords {
    let base = folder.path().canonicalize().unwrap();
    TeamRecords::Live(teams_in(&base).open("probe").await.unwrap())
}

/// What the agents do, and what they wait for.
async fn seen(time: &str, is_active: impl Fn(&str) -> Option<bool>) -> String {
    let folder = at(time, is_active);
    let state = of_files(&records(&folder).await).await.unwrap();
    let agents = state.team.agents.iter().map(|agent| {
        let waits_for = agent.process.as_ref().and_then(|process| process.waits_for());
        let needs = waits_for.map(|it| format!(" [{it}]")).unwrap_or_default();
        format!("{}: {}{needs}", agent.name, agent.now())
    });
    agents.collect::<Vec<_>>().join(", ")
}

#[tokio::test]
async fn a_member_of_another_client_does_what_its_mail_says() {
    let working = |_: &str| Some(true);
    for (time, wanted) in [
        ("11:53:54.000", "planner: thinks, worker: thinks"),
        ("11:53:58.300", "planner: awaiting plan approval, worker: thinks"),
        // The client reports the end of the turn after the plan.
        ("11:53:58.500", "planner: awaiting plan approval, worker: thinks"),
        ("11:53:59.000", "planner: awaiting plan approval, worker: shutting down"),
        (
            "11:54:00.000",
            "planner: awaiting plan approval, worker: asks permission for Bash [asks permission for Bash]",
        ),
        ("11:54:03.200", "planner: awaiting plan approval, worker: thinks"),
        ("11:54:03.700", "planner: awaiting plan approval, worker: idle"),
        ("11:54:04.000", "planner: awaiting plan approval, worker: ended"),
    ] {
        assert_eq!(seen(time, working).await, format!("team-lead: in another client, {wanted}"));
    }
}

/// The client can keep a member active in the config whose turn has ended, but not the reverse.
#[tokio::test]
async fn what_the_config_says_of_a_member_counts_where_its_mail_says_less() {
    let first = "11:53:55.000";
    let thinks = "team-lead: in another client, planner: thinks, worker: thinks";
    assert_eq!(seen(first, |_| None).await, thinks);
    let idle = "team-lead: in another client, planner: thinks, worker: idle";
    assert_eq!(seen(first, |name| Some(name == "planner")).await, idle);
    let none = "team-lead: in another client, planner: pending, worker: pending";
    assert_eq!(seen("11:53:50.000", |_| None).await, none);
}

#[tokio::test]
async fn a_replay_of_a_team_of_another_client_has_the_states_of_its_members() {
    let folder = at("11:54:04.000", |_| Some(false));
    let replay = Replay::of_records(&records(&folder).await).await.unwrap();
    let replay = serde_json::to_value(&replay).unwrap();
    let mut states = Vec::new();
    for event in replay["events"].as_array().unwrap() {
        for agent in event["what"]["changed"]["agents"].as_array().into_iter().flatten() {
            if agent["name"] == "worker"
                && let Some(said) =
                    agent.get("doing").filter(|it| !it.is_null()).or(agent.get("status"))
            {
                states.push(said.as_str().unwrap().to_owned());
            }
        }
    }
    let wanted = [
        "pending",
        "running",
        "shutdown_requested",
        "asks permission for Bash",
        "idle",
        "completed",
    ];
    assert_eq!(states, wanted, "{replay:#}");
}
