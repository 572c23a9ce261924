//! Callers that read too often.

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::client::{Request, read_answer};
use crate::server_env::ServerEnv;

#[tokio::test]
async fn who_reads_too_often_learns_when_to_read_again() {
    const READS: usize = 4_000;
    let env = ServerEnv::new().await;
    let one = Request::new("GET", "/api/no/such/path").header("Connection", "keep-alive");
    let last = Request::new("GET", "/api/teams");
    let mut all = one.bytes(&env.client).repeat(READS);
    all.extend(last.bytes(&env.client));
    let (mut reader, mut writer) =
        TcpStream::connect(env.client.address).await.unwrap().into_split();
    let writing = tokio::spawn(async move { writer.write_all(&all).await.unwrap() });
    // The answers come one after the other on this connection, and the body of the first answer is
    // all that follows its head.
    let answers = read_answer(&mut reader).await.text();
    writing.await.unwrap();
    let refused = answers.matches("HTTP/1.1 429 ").count();
    let answered = answers.matches("HTTP/1.1 404 ").count();
    assert!(refused > 0 && answered >= 900, "{refused} refused, {answered} answered");
    let text = answers.to_lowercase();
    assert!(text.contains("retry-after: 1"), "{}", &text[text.len() - 500..]);
    assert!(text.contains("you read too often"));
    // Another caller can read.
    let device = env.devices().invite(None, pitcrew_web::Scope::Watch).await.unwrap();
    let paired = Request::new("POST", "/pair").json(&serde_json::json!({"code": device.code}));
    let paired = env.client.send(paired.bare()).await.of(201);
    let token = format!("Bearer {}", paired["token"].as_str().unwrap());
    let read = Request::new("GET", "/api/teams").header("Authorization", &token);
    env.client.send(read).await.of(200);
}
