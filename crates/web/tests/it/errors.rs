//! Each error code with its status.

use pitcrew_protocol::{Limits, Rate};
use serde_json::json;

use crate::client::Request;
use crate::server_env::ServerEnv;

#[tokio::test]
async fn what_does_not_exist_is_404_with_the_valid_names() {
    let env = ServerEnv::new().await;
    env.team("work", &["bob"]).await;
    let client = &env.client;
    let team = client.get("/api/teams/wrok").await.error(404, "team_not_found");
    assert_eq!(team["details"]["available_teams"], json!(["work"]), "{team}");
    let agent = client.get("/api/teams/work/members/bbo").await.error(404, "agent_not_found");
    assert_eq!(agent["details"]["valid_agents"], json!(["team-lead", "bob"]), "{agent}");
    client.get("/api/teams/work/tasks/9").await.error(404, "task_not_found");
    let message = json!({"to": "zoe", "content": "hello"});
    client.post("/api/teams/work/messages", &message).await.error(404, "agent_not_found");
    let owner = json!({"owner": "zoe"});
    client.post("/api/teams/work/tasks/1/claim", &owner).await.error(404, "agent_not_found");
    client.get("/api/nothing").await.error(404, "not_found");
    client.get("/nothing").await.error(404, "not_found");
    client.get("/assets/nothing.js").await.error(404, "not_found");
}

#[tokio::test]
async fn a_method_that_a_path_does_not_have_is_405() {
    let env = ServerEnv::new().await;
    for (method, path) in [
        ("PUT", "/api/teams"),
        ("DELETE", "/api/teams/x/tasks"),
        ("POST", "/api/teams/x/log"),
        ("POST", "/api/openapi.json"),
    ] {
        let answer = env.client.send(Request::new(method, path)).await;
        answer.error(405, "method_not_allowed");
        assert!(answer.header("Allow").is_some(), "{method} {path}");
    }
}

#[tokio::test]
async fn a_malformed_request_names_each_fault() {
    let env = ServerEnv::new().await;
    env.team("work", &["bob"]).await;
    let client = &env.client;
    let faults = client.post("/api/teams/work/tasks", &json!({"subject": 1, "no": 2})).await;
    let faults = faults.error(400, "invalid_request")["details"]["faults"].clone();
    assert_eq!(faults.as_array().unwrap().len(), 3, "{faults}");
    let long = json!({"to": "bob", "content": "x".repeat(10_001)});
    client.post("/api/teams/work/messages", &long).await.error(400, "invalid_request");
    let extra = json!({"to": "bob", "content": "x", "from": "team-lead"});
    let refused =
        client.post("/api/teams/work/messages", &extra).await.error(400, "invalid_request");
    assert!(refused["message"].as_str().unwrap().contains("`from`"), "{refused}");
    client.post("/api/teams", &json!({"team_name": "\u{0}"})).await.error(400, "invalid_request");
    let merge = client.post("/api/teams/work/members/bob/merge", &json!({"commit": "x"})).await;
    merge.error(409, "changed");
}

#[tokio::test]
async fn too_many_calls_are_429_and_say_when_to_come_back() {
    let rate = Rate { count: 2, seconds: 600 };
    let env = ServerEnv::with(Limits { broadcast_rate: rate, ..Limits::default() }).await;
    env.team("work", &["bob"]).await;
    let all = json!({"to": "*", "content": "hello"});
    let path = "/api/teams/work/messages";
    let sent = env.client.post(path, &all).await.of(201);
    assert_eq!(sent["recipients"], json!(["team-lead", "bob"]));
    env.client.post(path, &all).await.of(201);
    let answer = env.client.post(path, &all).await;
    answer.error(429, "rate_limit");
    let seconds: u64 = answer.header("Retry-After").unwrap().parse().unwrap();
    assert!((1..=600).contains(&seconds), "{seconds}");
    let calls = Limits { call_rate: Rate { count: 1, seconds: 600 }, ..Limits::default() };
    let env = ServerEnv::with(calls).await;
    env.client.post("/api/teams", &json!({"team_name": "one"})).await.of(201);
    env.client.post("/api/teams", &json!({"team_name": "two"})).await.error(429, "rate_limit");
}

#[tokio::test]
async fn a_damaged_team_is_500_and_the_others_are_listed() {
    let env = ServerEnv::new().await;
    env.team("work", &[]).await;
    env.team("other", &[]).await;
    let config = env.root().join("teams/work/config.json");
    let teams = async || env.client.get("/api/teams").await.of(200)["teams"].clone();
    std::fs::remove_file(&config).unwrap();
    std::fs::create_dir(&config).unwrap();
    assert!(teams().await[1]["problem"].is_string(), "it is no file");
    std::fs::remove_dir(&config).unwrap();
    std::fs::write(&config, "{").unwrap();
    env.client.get("/api/teams/work").await.error(500, "internal_error");
    let teams = teams().await;
    let names: Vec<&str> =
        teams.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["other", "work"]);
    assert!(teams[1]["problem"].is_string(), "{teams}");
}
