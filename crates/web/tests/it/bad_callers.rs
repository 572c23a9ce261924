//! Callers that send too much, too slowly, or something else than a request. The server refuses them
//! and goes on.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Request, read_answer};
use crate::server_env::ServerEnv;

/// 100 MB.
const MUCH: usize = 100_000_000;

#[tokio::test]
async fn a_body_of_100_mb_is_refused_at_its_head() {
    let env = ServerEnv::new().await;
    env.team("work", &["bob"]).await;
    let request = Request::new("POST", "/api/teams/work/messages")
        .header("Content-Type", "application/json")
        .header("Content-Length", &MUCH.to_string());
    let mut stream = TcpStream::connect(env.client.address).await.unwrap();
    stream.write_all(&request.bytes(&env.client)).await.unwrap();
    // Nothing of the body was sent.
    read_answer(&mut stream).await.error(413, "payload_too_large");
    env.client.get("/api/teams").await.of(200);
}

#[tokio::test]
async fn a_body_without_a_length_is_read_up_to_the_limit() {
    let env = ServerEnv::new().await;
    env.team("work", &["bob"]).await;
    let request = Request::new("POST", "/api/teams/work/messages")
        .header("Content-Type", "application/json")
        .header("Content-Length", "")
        .header("Transfer-Encoding", "chunked");
    let (mut reader, mut writer) =
        TcpStream::connect(env.client.address).await.unwrap().into_split();
    let head = request.bytes(&env.client);
    let writing = tokio::spawn(async move {
        writer.write_all(&head).await.unwrap();
        let chunk = [b"10000\r\n".as_slice(), &[b' '; 0x10000], b"\r\n"].concat();
        let mut sent = 0;
        while sent < MUCH && writer.write_all(&chunk).await.is_ok() {
            sent += 0x10000;
        }
        sent
    });
    let mut answer = vec![0; 12];
    reader.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 413");
    drop(reader);
    assert!(writing.await.unwrap() < MUCH, "the server read everything");
    env.client.get("/api/teams").await.of(200);
}

#[tokio::test]
async fn callers_that_send_half_a_request_are_dropped_and_delay_nobody() {
    let env = ServerEnv::new().await;
    let mut slow = Vec::new();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(env.client.address).await.unwrap();
        stream.write_all(b"GET /api/teams HTTP/1.1\r\nHost: 127").await.unwrap();
        slow.push(stream);
    }
    let began = Instant::now();
    env.client.get("/api/teams").await.of(200);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    for mut stream in slow {
        let ended = tokio::time::timeout(Duration::from_secs(60), async {
            let mut rest = Vec::new();
            let _reset = stream.read_to_end(&mut rest).await;
        });
        ended.await.expect("a slow caller keeps its connection");
    }
    env.client.get("/api/teams").await.of(200);
}

#[tokio::test]
async fn what_is_no_http_ends_its_connection() {
    let env = ServerEnv::new().await;
    let long = [b"GET / HTTP/1.1\r\nX: ".as_slice(), &vec![b'x'; 1 << 20]].concat();
    for bytes in [b"\x16\x03\x01\x02\x00\x01\x00".as_slice(), b"hello\r\n\r\n", &long] {
        let mut stream = TcpStream::connect(env.client.address).await.unwrap();
        let _cut_off = stream.write_all(bytes).await;
        let mut rest = Vec::new();
        let _reset = stream.read_to_end(&mut rest).await;
        let rest = String::from_utf8_lossy(&rest);
        assert!(rest.is_empty() || rest.starts_with("HTTP/1.1 4"), "{rest}");
    }
    env.client.get("/api/teams").await.of(200);
}

#[tokio::test]
async fn what_is_no_json_object_is_refused() {
    let env = ServerEnv::new().await;
    env.team("work", &["bob"]).await;
    let path = "/api/teams/work/messages";
    for body in ["[]", "1", "null", "{", "\u{0}", "{\"to\": \"bob\", \"content\": \"\\ud800\"}"] {
        let request = Request::new("POST", path).json(&json!(0)).raw_body(body.as_bytes());
        env.client.send(request).await.error(400, "invalid_request");
    }
    let deep = "[".repeat(100_000);
    let request = Request::new("POST", path).json(&json!(0)).raw_body(deep.as_bytes());
    env.client.send(request).await.error(400, "invalid_request");
    let latin = Request::new("POST", path).json(&json!(0)).raw_body(b"{\"to\": \"b\xfcb\"}");
    env.client.send(latin).await.error(400, "invalid_request");
    for kind in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let body = json!({"to": "bob", "content": "hello"}).to_string();
        let request =
            Request::new("POST", path).header("Content-Type", kind).raw_body(body.as_bytes());
        env.client.send(request).await.error(415, "unsupported_media_type");
    }
}

#[tokio::test]
async fn a_name_leads_out_of_no_folder() {
    let env = ServerEnv::new().await;
    env.team("work", &[]).await;
    std::fs::write(env.root().join("secret"), "not for callers").unwrap();
    for name in ["..", "%2e%2e", "..%2f..%2fsecret", "%00", "a%0ab", "%ff", &"x".repeat(5_000)] {
        for path in [
            format!("/api/teams/{name}"),
            format!("/assets/{name}"),
            format!("/api/teams/work/members/{name}/conversation"),
        ] {
            let answer = env.client.get(&path).await;
            assert!((400..500).contains(&answer.status), "{path}: {}", answer.status);
            assert_eq!(answer.json()["success"], false, "{path}: {}", answer.text());
            assert!(!answer.text().contains("not for callers"), "{path}: {}", answer.text());
        }
    }
}
