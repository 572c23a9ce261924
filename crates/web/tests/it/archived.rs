//! Teams in the archive, and teams that nobody runs.

use std::fs;

use pitcrew_protocol::AgentName;
use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::server_env::ServerEnv;

/// Reads the events of a stream that has ended.
fn events(answer: &Answer) -> Vec<(String, Value)> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("Content-Type"), Some("text/event-stream"));
    let text = answer.text();
    let field = |block: &str, name: &str| {
        block
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
            .map(str::to_owned)
    };
    let event = |block: &str| {
        let data = serde_json::from_str(&field(block, "data")?).unwrap();
        Some((field(block, "event")?, data))
    };
    text.split("\n\n").filter_map(event).collect()
}

#[tokio::test]
async fn an_archived_team_is_read_by_its_name_and_by_its_id() {
    let env = ServerEnv::new().await;
    let team = env.team("work", &[]).await;
    let client = &env.client;
    let body = json!({"subject": "parse", "description": "do it"});
    client.post("/api/teams/work/tasks", &body).await.of(201);
    let archive = team.archive().await.unwrap().unwrap();
    for name in ["work", &archive] {
        let shown = client.get(&format!("/api/teams/{name}")).await.of(200);
        assert_eq!((&shown["state"], &shown["archive"]), (&json!("archived"), &json!(archive)));
        assert_eq!(shown["tasks"][0]["subject"], "parse");
        assert_eq!(shown["team"]["team"], "work");
        let log = client.get(&format!("/api/teams/{name}/log")).await.of(200);
        let last = log["entries"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(last["event"], "team_archived", "{last}");
        let stream = events(&client.get(&format!("/api/teams/{name}/events")).await);
        let names: Vec<&str> = stream.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["snapshot", "end"]);
        assert_eq!(stream[0].1["tasks"][0]["subject"], "parse");
        // A browser that comes back after the end has nothing to wait for.
        let path = format!("/api/teams/{name}/events");
        let again = Request::new("GET", &path).header("Last-Event-ID", "end");
        assert_eq!(client.send(again).await.status, 204);
        client.get(&format!("/api/teams/{name}/tasks/1")).await.of(200);
        client
            .get(&format!("/api/teams/{name}/members/team-lead/conversation"))
            .await
            .error(404, "not_found");
        client.post(&format!("/api/teams/{name}/tasks"), &body).await.error(404, "team_not_found");
    }
    let row = client.get("/api/teams").await.of(200)["teams"][0].clone();
    assert_eq!((&row["name"], &row["archive"]), (&json!("work"), &json!(archive)));
}

#[tokio::test]
async fn what_cannot_be_read_of_a_team_is_named() {
    let env = ServerEnv::new().await;
    let team = env.team("work", &[]).await;
    let client = &env.client;
    let body = json!({"subject": "parse", "description": "do it"});
    client.post("/api/teams/work/tasks", &body).await.of(201);
    let unread = async |name: &str| {
        let shown = client.get(&format!("/api/teams/{name}")).await.of(200);
        let texts = shown["unread"].as_array().unwrap().iter();
        texts.map(|text| text.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(unread("work").await, [""; 0]);
    let (journal, task) = ("teams/work/pitcrew/journal.ndjson", "tasks/work/2.json");
    let mut lines = fs::read_to_string(env.root().join(journal)).unwrap();
    lines.insert_str(0, "half a li\n");
    fs::write(env.root().join(journal), lines).unwrap();
    fs::write(env.root().join(task), "{\"id\": \"2\", \"sub").unwrap();
    let named = unread("work").await;
    assert!(named[0].ends_with("journal.ndjson: 1 of its lines cannot be read"), "{named:?}");
    assert!(named[1].ends_with("tasks/work/2.json cannot be read"), "{named:?}");
    assert_eq!(named.len(), 2, "{named:?}");
    team.archive().await.unwrap().unwrap();
    let named = unread("work").await;
    assert!(named[0].ends_with("journal.ndjson: 1 of its lines cannot be read"), "{named:?}");
    assert!(named[1].ends_with("tasks/2.json cannot be read"), "{named:?}");
}

#[tokio::test]
async fn a_log_names_an_inbox_that_cannot_be_read() {
    let env = ServerEnv::new().await;
    env.team("work", &["bob"]).await;
    fs::write(env.root().join("teams/work/inboxes/bob.json"), "[{").unwrap();
    let log = env.client.get("/api/teams/work/log").await.of(200);
    let text = log["entries"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("the mail of bob cannot be read: "), "{log}");
    assert_eq!(log["entries"][1]["event"], "team_created", "{log}");
}

#[tokio::test]
async fn a_member_that_has_left_keeps_its_color_and_type() {
    let env = ServerEnv::new().await;
    let team = env.team("work", &["bob"]).await;
    let client = &env.client;
    let bob = async || {
        let shown = client.get("/api/teams/work").await.of(200);
        let agents = shown["team"]["agents"].as_array().unwrap();
        agents.iter().find(|agent| agent["name"] == "bob").unwrap().clone()
    };
    let before = bob().await;
    assert!(before["color"].is_string() && before["agent_type"].is_string(), "{before}");
    let badges = |agent: &Value| [agent["color"].clone(), agent["agent_type"].clone()];
    team.leave(&AgentName::new("bob").unwrap()).await.unwrap();
    let left = bob().await;
    assert_eq!((badges(&left), &left["status"]), (badges(&before), &json!("completed")));
    team.archive().await.unwrap().unwrap();
    assert_eq!(badges(&bob().await), badges(&before));
    let replay = client.get("/api/teams/work/replay").await.of(200);
    let text = replay.to_string();
    assert!(text.contains(&format!("\"color\":{}", before["color"])), "{text}");
}

#[tokio::test]
async fn what_needs_a_running_team_says_so() {
    let env = ServerEnv::new().await;
    env.team("work", &["bob"]).await;
    let client = &env.client;
    let of_bob = "/api/teams/work/members/bob";
    let spawn = json!({"name": "eve", "description": "wait", "prompt": "Wait."});
    for (path, body) in [
        ("/api/teams/work/end", json!({})),
        ("/api/teams/work/stop", json!({})),
        ("/api/teams/work/members", spawn),
        (&format!("{of_bob}/stop"), json!({})),
        (&format!("{of_bob}/compact"), json!({})),
        (&format!("{of_bob}/interrupt"), json!({})),
        (&format!("{of_bob}/hide_pane"), json!({})),
        (&format!("{of_bob}/show_pane"), json!({})),
        (&format!("{of_bob}/model"), json!({"model": "x"})),
        (
            "/api/teams/work/questions/q1/answer",
            json!({"digest": "0".repeat(64), "choice": "once"}),
        ),
        ("/api/teams/work/plans/plan-0", json!({"member": "bob", "approve": true})),
        ("/api/teams/work/permissions/perm-0", json!({"allow": false})),
    ] {
        let refused = client.post(path, &body).await.error(503, "not_running");
        assert_eq!(refused["details"]["team_name"], "work", "{path}");
    }
    assert_eq!(client.get("/api/teams/work/questions").await.of(200), json!({"questions": []}));
    assert_eq!(client.get("/api/teams/work/plans").await.of(200), json!({"plans": []}));
}
