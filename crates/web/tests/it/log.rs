//! The log of a team and its messages, which the server puts into words once.

use std::fs;

use serde_json::{Value, json};

use crate::server_env::ServerEnv;

async fn log(env: &ServerEnv, team: &str) -> Value {
    env.client.get(&format!("/api/teams/{team}/log")).await.of(200)
}

/// Returns the texts of a log, which must be the same for a new server.
async fn texts(env: &mut ServerEnv, team: &str) -> Vec<String> {
    let known = log(env, team).await;
    env.restart().await;
    assert_eq!(known, log(env, team).await);
    let text = |entry: &Value| entry["text"].as_str().unwrap().to_owned();
    known["entries"].as_array().unwrap().iter().map(text).collect()
}

#[tokio::test]
async fn a_log_that_was_read_before_is_that_of_a_new_server() {
    let mut env = ServerEnv::new().await;
    env.team("work", &["bob", "eve"]).await;
    let task = json!({"subject": "parse", "description": "do it"});
    env.client.post("/api/teams/work/tasks", &task).await.of(201);
    let first = texts(&mut env, "work").await;
    assert!(first.iter().any(|text| text.contains("parse")), "{first:?}");
    let messages = "/api/teams/work/messages";
    env.client.post(messages, &json!({"to": "*", "content": "stop"})).await.of(201);
    let told = texts(&mut env, "work").await;
    assert_eq!(told.last().unwrap(), "writes to team-lead, bob, eve: stop");
    assert_eq!(told[..first.len()], first);
    // An entry from before tells the subject of today.
    let changed = json!({"subject": "print"});
    env.client.patch("/api/teams/work/tasks/1", &changed).await.of(200);
    let renamed = texts(&mut env, "work").await;
    assert!(!renamed.iter().any(|text| text.contains("parse")), "{renamed:?}");
    // Another program writes into an inbox, and no journal has its message.
    let inbox = env.root().join("teams/work/inboxes/bob.json");
    let mut mail: Value = serde_json::from_slice(&fs::read(&inbox).unwrap()).unwrap();
    let foreign = json!({"from": "eve", "text": "by hand", "read": false, "timestamp": "2026-01-01T00:00:00.000Z"});
    mail.as_array_mut().unwrap().push(foreign);
    fs::write(&inbox, mail.to_string()).unwrap();
    let with_foreign = texts(&mut env, "work").await;
    assert!(with_foreign.contains(&"writes to bob: by hand".to_owned()), "{with_foreign:?}");
    // A team of the same name has a log of its own.
    let team = env.team("other", &[]).await;
    let path = "/api/teams/other/tasks";
    env.client.post(path, &task).await.of(201);
    assert_eq!(texts(&mut env, "other").await.len(), 2);
    team.archive().await.unwrap().unwrap();
    env.team("other", &[]).await;
    assert_eq!(texts(&mut env, "other").await.len(), 1);
}

#[tokio::test]
async fn the_messages_of_the_others_are_told_if_an_inbox_is_damaged() {
    let env = ServerEnv::new().await;
    env.team("work", &["bob", "eve"]).await;
    let path = "/api/teams/work/messages";
    for to in ["bob", "eve"] {
        let message = json!({"to": to, "content": format!("hello {to}")});
        env.client.post(path, &message).await.of(201);
    }
    let texts = async || {
        let told = env.client.get(path).await.of(200);
        let text = |entry: &Value| entry["text"].as_str().unwrap().to_owned();
        told["entries"].as_array().unwrap().iter().map(text).collect::<Vec<_>>()
    };
    let whole = ["writes to bob: hello bob", "writes to eve: hello eve"];
    assert_eq!(texts().await, whole);
    let inbox = env.root().join("teams/work/inboxes/bob.json");
    let written = fs::read(&inbox).unwrap();
    for damage in ["[{\"from\": \"te", "no json", "", "a folder"] {
        fs::remove_file(&inbox).unwrap();
        match damage {
            "a folder" => fs::create_dir(&inbox).unwrap(),
            text => fs::write(&inbox, text).unwrap(),
        }
        let told = texts().await;
        assert!(told[0].starts_with("the mail of bob cannot be read: "), "{damage}: {told:?}");
        assert_eq!(told.last().unwrap(), whole[1], "{damage}: {told:?}");
        if damage == "a folder" {
            fs::remove_dir(&inbox).unwrap();
        }
        fs::write(&inbox, &written).unwrap();
        assert_eq!(texts().await, whole, "{damage}");
    }
}
