//! Messages of callers who repeat their requests.

use std::collections::BTreeSet;

use futures_util::stream::{self, StreamExt as _};
use pitcrew_protocol::{AgentName, MessageId};
use pitcrew_team::Team;
use serde_json::{Value, json};

use crate::client::{Answer, Client, Request};
use crate::server_env::ServerEnv;

async fn send(client: &Client, key: &str, body: &Value) -> Answer {
    let request = Request::new("POST", "/api/teams/work/messages");
    client.send(request.header("Idempotency-Key", key).json(body)).await
}

async fn texts(team: &Team, name: &str) -> Vec<String> {
    let mail = team.mail(&AgentName::new(name).unwrap()).await.unwrap();
    mail.into_iter().map(|mail| mail.message.text).collect()
}

#[tokio::test]
async fn a_thousand_sends_with_repeated_keys_make_each_message_once() {
    let env = ServerEnv::new().await;
    let team = env.team("work", &["bob"]).await;
    // 100 keys, each ten times, and up to eight requests at a time.
    let one = |number: usize| {
        let client = env.client.clone();
        async move {
            let key = number % 100;
            let body = json!({"to": "bob", "content": format!("message {key}")});
            let sent = send(&client, &format!("key-{key}"), &body).await.of(201);
            (key, sent["receipts"][0]["id"].as_str().unwrap().to_owned())
        }
    };
    let answers: BTreeSet<(usize, String)> =
        stream::iter(0..1_000).map(one).buffer_unordered(8).collect().await;
    assert_eq!(answers.len(), 100, "each key has one receipt");
    let mut got = texts(&team, "bob").await;
    got.sort();
    let mut expected: Vec<String> = (0..100).map(|key| format!("message {key}")).collect();
    expected.sort();
    assert_eq!(got, expected);
}

#[tokio::test]
async fn a_key_is_known_after_a_restart() {
    let mut env = ServerEnv::new().await;
    let team = env.team("work", &["bob"]).await;
    let body = json!({"to": "bob", "content": "hello", "summary": "a greeting"});
    let first = send(&env.client, "k", &body).await.of(201);
    env.restart().await;
    assert_eq!(send(&env.client, "k", &body).await.of(201), first);
    assert_eq!(texts(&team, "bob").await, ["hello"]);
}

#[tokio::test]
async fn a_key_belongs_to_one_request() {
    let env = ServerEnv::new().await;
    let team = env.team("work", &["bob", "eve"]).await;
    send(&env.client, "k", &json!({"to": "bob", "content": "hello"})).await.of(201);
    for other in [
        json!({"to": "eve", "content": "hello"}),
        json!({"to": "bob", "content": "hello!"}),
        json!({"to": "bob", "content": "hello", "summary": "more"}),
        json!({"to": "*", "content": "hello"}),
    ] {
        send(&env.client, "k", &other).await.error(409, "idempotency_key_reused");
    }
    assert_eq!(texts(&team, "bob").await, ["hello"]);
    assert!(texts(&team, "eve").await.is_empty());
    // A refused request has not used its key up.
    send(&env.client, "free", &json!({"to": "zoe", "content": "hello"}))
        .await
        .error(404, "agent_not_found");
    send(&env.client, "free", &json!({"to": "eve", "content": "hello"})).await.of(201);
}

#[tokio::test]
async fn a_broadcast_with_a_key_reaches_everyone_once() {
    let env = ServerEnv::new().await;
    let team = env.team("work", &["bob", "eve"]).await;
    let body = json!({"to": "*", "content": "stop"});
    let first = send(&env.client, "k", &body).await.of(201);
    assert_eq!(first["recipients"], json!(["team-lead", "bob", "eve"]));
    assert_eq!(send(&env.client, "k", &body).await.of(201), first);
    for name in ["team-lead", "bob", "eve"] {
        assert_eq!(texts(&team, name).await, ["stop"], "{name}");
    }
}

#[tokio::test]
async fn a_message_that_left_the_inbox_is_not_sent_again() {
    let env = ServerEnv::new().await;
    let team = env.team("work", &["bob"]).await;
    let bob = AgentName::new("bob").unwrap();
    let body = json!({"to": "bob", "content": "hello"});
    let first = send(&env.client, "k", &body).await.of(201);
    // Read messages leave an inbox that has many of them.
    for number in 0..120 {
        let other = json!({"to": "bob", "content": format!("message {number}")});
        env.client.post("/api/teams/work/messages", &other).await.of(201);
    }
    let unread = team.unread(&bob).await.unwrap();
    let ids: Vec<MessageId> = unread.into_iter().map(|mail| mail.id).collect();
    team.acknowledge(&bob, &ids).await.unwrap();
    let left = texts(&team, "bob").await;
    assert!(!left.contains(&"hello".to_owned()), "{left:?}");
    assert_eq!(send(&env.client, "k", &body).await.of(201), first);
    assert_eq!(texts(&team, "bob").await, left);
}
