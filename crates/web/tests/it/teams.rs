//! Teams, members and tasks over the API.

use serde_json::{Value, json};

use crate::client::Request;
use crate::server_env::ServerEnv;

#[tokio::test]
async fn a_team_is_made_listed_shown_and_deleted() {
    let env = ServerEnv::new().await;
    let client = &env.client;
    let made =
        client.post("/api/teams", &json!({"team_name": "work", "description": "a test"})).await;
    let made = made.of(201);
    assert_eq!(made["lead_agent_id"], "team-lead@work");
    let listed = client.get("/api/teams").await.of(200);
    let row = &listed["teams"][0];
    assert_eq!(row["name"], "work");
    assert_eq!((row["state"].as_str(), row["lead"].as_str()), (Some("stopped"), Some("team-lead")));
    assert_eq!(row["tasks"], json!({"open": 0, "done": 0}));
    let shown = client.get("/api/teams/work").await.of(200);
    assert_eq!(shown["description"], "a test");
    assert_eq!(shown["team"]["agents"][0]["name"], "team-lead");
    assert_eq!((shown["tasks"].clone(), shown["questions"].clone()), (json!([]), json!([])));
    client
        .post("/api/teams", &json!({"team_name": "work"}))
        .await
        .error(409, "team_already_exists");
    client.delete("/api/teams/work").await.of(200);
    client
        .post("/api/teams/work/tasks", &json!({"subject": "x", "description": "y"}))
        .await
        .error(404, "team_not_found");
    let archived = client.get("/api/teams").await.of(200);
    assert_eq!(archived["teams"][0]["state"], "archived");
}

#[tokio::test]
async fn a_team_with_teammates_is_not_deleted() {
    let env = ServerEnv::new().await;
    env.team("work", &["bob"]).await;
    let refused = env.client.delete("/api/teams/work").await.error(400, "invalid_status");
    assert!(refused["message"].as_str().unwrap().contains("bob"), "{refused}");
    let members = env.client.get("/api/teams/work/members").await.of(200);
    let names: Vec<&str> = members["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["team-lead", "bob"]);
    let bob = env.client.get("/api/teams/work/members/BOB").await.of(200);
    assert_eq!(bob["member"]["agentType"], "general-purpose");
}

#[tokio::test]
async fn tasks_are_made_changed_claimed_and_deleted() {
    let env = ServerEnv::new().await;
    env.team("work", &["bob"]).await;
    let client = &env.client;
    let tasks = "/api/teams/work/tasks";
    for subject in ["parse", "test"] {
        let made = client.post(tasks, &json!({"subject": subject, "description": "do it"})).await;
        assert_eq!(made.of(201)["subject"], subject);
    }
    let blocked =
        client.patch(&format!("{tasks}/2"), &json!({"addBlockedBy": ["1"]})).await.of(200);
    assert_eq!(blocked["blockedBy"], json!(["1"]));
    client
        .patch(&format!("{tasks}/1"), &json!({"addBlockedBy": ["2"]}))
        .await
        .error(400, "circular_dependency");
    let bob = json!({"owner": "bob"});
    client.post(&format!("{tasks}/2/claim"), &bob).await.error(400, "invalid_status");
    let claimed = client.post(&format!("{tasks}/1/claim"), &bob).await.of(200);
    assert_eq!((&claimed["owner"], &claimed["status"]), (&json!("bob"), &json!("in_progress")));
    let done = client.patch(&format!("{tasks}/1"), &json!({"status": "completed"})).await.of(200);
    assert_eq!(done["status"], "completed");
    let listed = client.get(tasks).await.of(200);
    assert_eq!(listed["total"], 2);
    let gone = client.patch(&format!("{tasks}/2"), &json!({"status": "deleted"})).await.of(200);
    assert_eq!(gone, json!({"taskId": "2", "status": "deleted"}));
    let unknown = client.get(&format!("{tasks}/2")).await.error(404, "task_not_found");
    assert_eq!(unknown["details"]["valid_tasks"], json!(["1"]));
    let other = json!({"taskId": "7", "status": "pending"});
    client.patch(&format!("{tasks}/1"), &other).await.error(400, "invalid_request");
    assert_eq!(
        client.get("/api/teams").await.of(200)["teams"][0]["tasks"],
        json!({"open": 0, "done": 1})
    );
}

#[tokio::test]
async fn a_task_with_a_key_is_made_once() {
    let env = ServerEnv::new().await;
    env.team("work", &[]).await;
    let make = |key: &str| {
        let body = json!({"subject": "parse", "description": "do it"});
        let request = Request::new("POST", "/api/teams/work/tasks").header("Idempotency-Key", key);
        env.client.send(request.json(&body))
    };
    let first = make("one").await.of(201);
    assert_eq!(make("one").await.of(201), first);
    assert_ne!(make("two").await.of(201)["taskId"], first["taskId"]);
    // The key belongs to the request, also after the task was changed.
    let path = "/api/teams/work/tasks/1";
    env.client.patch(path, &json!({"subject": "parse it"})).await.of(200);
    make("one").await.of(201);
    let other = json!({"subject": "another", "description": "do it"});
    let reused = Request::new("POST", "/api/teams/work/tasks").header("Idempotency-Key", "one");
    env.client.send(reused.json(&other)).await.error(409, "idempotency_key_reused");
    let message = json!({"to": "team-lead", "content": "hello"});
    let reused = Request::new("POST", "/api/teams/work/messages").header("Idempotency-Key", "one");
    env.client.send(reused.json(&message)).await.error(409, "idempotency_key_reused");
    make("a b").await.error(400, "invalid_request");
    make(&"x".repeat(129)).await.error(400, "invalid_request");
}

#[tokio::test]
async fn a_read_that_the_caller_has_comes_without_a_body() {
    let env = ServerEnv::new().await;
    env.team("work", &["bob"]).await;
    let client = &env.client;
    for path in [
        "/api/teams",
        "/api/teams/work",
        "/api/teams/work/members",
        "/api/teams/work/tasks",
        "/api/teams/work/log",
        "/api/teams/work/messages",
        "/api/teams/work/plans",
        "/api/openapi.json",
    ] {
        let first = client.get(path).await;
        first.of(200);
        let tag = first.header("ETag").unwrap().to_owned();
        let known = Request::new("GET", path).header("If-None-Match", &tag);
        let again = client.send(known.clone()).await;
        assert_eq!(
            (again.status, again.header("ETag"), again.body.len()),
            (304, Some(tag.as_str()), 0),
            "{path}"
        );
    }
    let tag = client.get("/api/teams/work").await.header("ETag").unwrap().to_owned();
    client
        .post("/api/teams/work/tasks", &json!({"subject": "x", "description": "y"}))
        .await
        .of(201);
    let known = Request::new("GET", "/api/teams/work").header("If-None-Match", &tag);
    assert_eq!(client.send(known).await.of(200)["tasks"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_log_is_read_in_parts() {
    let env = ServerEnv::new().await;
    env.team("work", &["bob"]).await;
    for number in 0..5 {
        let body = json!({"to": "bob", "content": format!("message {number}")});
        env.client.post("/api/teams/work/messages", &body).await.of(201);
    }
    let whole = env.client.get("/api/teams/work/log").await.of(200);
    let entries = whole["entries"].as_array().unwrap();
    assert_eq!(entries.len(), usize::try_from(whole["total"].as_u64().unwrap()).unwrap());
    let (mut parts, mut from) = (Vec::new(), 0);
    loop {
        let path = format!("/api/teams/work/log?from={from}&limit=3");
        let part = env.client.get(&path).await.of(200);
        let some: &Vec<Value> = part["entries"].as_array().unwrap();
        if some.is_empty() {
            break;
        }
        parts.extend(some.clone());
        from = part["next"].as_u64().unwrap();
    }
    assert_eq!(&parts, entries);
    let mail = env.client.get("/api/teams/work/messages").await.of(200);
    let texts: Vec<&str> = mail["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["content"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["message 0", "message 1", "message 2", "message 3", "message 4"]);
    env.client.get("/api/teams/work/log?form=1").await.error(400, "invalid_request");
}

#[tokio::test]
async fn a_read_leaves_an_emptied_config_as_it_is() {
    let env = ServerEnv::new().await;
    let team = env.team("work", &["bob"]).await;
    env.client.get("/api/teams/work").await.of(200);
    let config = env.root().join("teams").join(team.dir().as_str()).join("config.json");
    std::fs::write(&config, "").unwrap();
    for path in ["/api/teams", "/api/teams/work", "/api/teams/work/log", "/metrics"] {
        env.client.get(path).await;
        assert_eq!(std::fs::read_to_string(&config).unwrap(), "", "{path} wrote the config");
    }
}
