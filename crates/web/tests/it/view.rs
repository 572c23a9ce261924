//! Replays: of a team of the server, and on a server that was started for one view.

use pitcrew_view::replay::{Clock, Replay, StreamReplay};
use pitcrew_web::{Piece, Viewed};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::client::{Client, Request};
use crate::server_env::ServerEnv;

const GUIDE: &str = include_str!("../../../view/tests/it/recordings/stream-guide.ndjson");

/// A stream that the test writes, and its view.
fn stream() -> (mpsc::Sender<(i64, Piece)>, Viewed) {
    let (sender, pieces) = mpsc::channel(100);
    let replay = StreamReplay::new("session.ndjson", Clock::Lines);
    (sender, Viewed::Stream(Box::new(replay), pieces))
}

async fn write(sender: &mpsc::Sender<(i64, Piece)>, lines: &[&str]) {
    let bytes = lines.iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes();
    sender.send((0, Piece::Bytes(bytes))).await.unwrap();
}

/// An open event stream.
struct Events {
    stream: TcpStream,
    read: String,
}

impl Events {
    async fn open(client: &Client, path: &str) -> Self {
        let mut stream = TcpStream::connect(client.address).await.unwrap();
        stream.write_all(&Request::new("GET", path).bytes(client)).await.unwrap();
        Self { stream, read: String::new() }
    }

    /// Returns the data of the next event, and its name.
    async fn next(&mut self) -> (String, Value) {
        loop {
            if let Some(event) = self.take() {
                return event;
            }
            let mut bytes = [0; 65_536];
            let count = self.stream.read(&mut bytes).await.unwrap();
            assert!(count > 0, "the stream has ended: {}", self.read);
            self.read.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    fn take(&mut self) -> Option<(String, Value)> {
        let begin = self.read.find("event: ")?;
        let end = begin + self.read[begin..].find("\n\n")?;
        let block = self.read[begin..end].to_owned();
        self.read.drain(..end);
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
        let data = serde_json::from_str(field("data: ").unwrap()).unwrap();
        Some((field("event: ").unwrap().to_owned(), data))
    }
}

fn numbers(events: &Value) -> Vec<u64> {
    events.as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_team_is_replayed_also_from_the_archive() {
    let env = ServerEnv::new().await;
    let team = env.team("work", &[]).await;
    let body = json!({"subject": "parse", "description": "do it"});
    env.client.post("/api/teams/work/tasks", &body).await.of(201);
    let before = env.client.get("/api/teams/work/replay").await;
    assert_eq!(before.of(200)["clock"], "recorded");
    let tag = before.header("ETag").unwrap().to_owned();
    let again = Request::new("GET", "/api/teams/work/replay").header("If-None-Match", &tag);
    assert_eq!(env.client.send(again).await.status, 304);
    team.archive().await.unwrap().unwrap();
    let replay = env.client.get("/api/teams/work/replay").await.of(200);
    let events = replay["events"].as_array().unwrap();
    let last = events.iter().rev().find(|event| event["what"]["happened"].is_object()).unwrap();
    assert_eq!(last["what"]["happened"]["what"]["event"], "team_archived", "{last}");
    let has_task = |event: &&Value| event["what"]["changed"]["tasks"][0]["subject"] == "parse";
    assert_eq!(events.iter().filter(has_task).count(), 1);
    env.client.get("/api/teams/nobody/replay").await.error(404, "team_not_found");
}

#[tokio::test]
async fn a_stream_is_followed_while_it_is_written_and_replayed_when_it_has_ended() {
    let env = ServerEnv::new().await;
    let (sender, viewed) = stream();
    let (client, _stop) = env.view(viewed).await;
    let lines: Vec<&str> = GUIDE.lines().collect();
    let mut following = Events::open(&client, "/api/view/events?from=0").await;
    write(&sender, &lines[..3]).await;
    let (kind, first) = following.next().await;
    assert_eq!((kind.as_str(), numbers(&first)[0]), ("events", 0));
    let replay = client.get("/api/view/replay").await.of(200);
    assert_eq!((&replay["is_live"], &replay["name"]), (&json!(true), &json!("session.ndjson")));
    let begun = replay["events"].as_array().unwrap().len();

    write(&sender, &lines[3..]).await;
    sender.send((0, Piece::End(Some("cut".to_owned())))).await.unwrap();
    let mut seen = numbers(&first);
    let end = loop {
        let (kind, data) = following.next().await;
        if kind == "end" {
            break data;
        }
        seen.extend(numbers(&data));
    };
    assert_eq!(end, json!("cut"));
    let whole = client.get("/api/view/replay").await.of(200);
    assert_eq!(whole["is_live"], false);
    assert_eq!(numbers(&whole["events"]), seen);
    assert_eq!(seen, (0..seen.len() as u64).collect::<Vec<_>>());

    // A browser whose connection was lost goes on where it was.
    let path = format!("/api/view/events?from={begun}");
    let (_, rest) = Events::open(&client, &path).await.next().await;
    assert_eq!(numbers(&rest)[0], begun as u64);
}

#[tokio::test]
async fn the_server_of_a_view_serves_nothing_else_and_only_to_its_callers() {
    let env = ServerEnv::new().await;
    env.team("work", &[]).await;
    let (_sender, viewed) = stream();
    let (client, stop) = env.view(viewed).await;
    for path in
        ["/api/teams", "/api/teams/work", "/metrics", "/pair", "/api/view", "/api/openapi.json"]
    {
        client.get(path).await.error(404, "not_found");
    }
    for path in ["/api/view/replay", "/api/view/events"] {
        client.send(Request::new("GET", path).bare()).await.error(401, "unauthorized");
        let foreign = Request::new("GET", path).header("Host", "evil.example");
        client.send(foreign).await.error(403, "forbidden");
        client.post(path, &json!({})).await.error(405, "method_not_allowed");
    }
    client.get("/api/view/events?from=x").await.error(400, "invalid_request");
    let page = client.get("/").await;
    assert!(page.text().contains("/assets/view.js"), "{}", page.text());
    assert!(page.header("Content-Security-Policy").unwrap().contains("default-src 'none'"));
    drop(stop);
    while TcpStream::connect(client.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_caller_that_is_too_slow_is_told_to_read_the_replay_again() {
    let env = ServerEnv::new().await;
    let mut short = StreamReplay::new("s", Clock::Lines);
    GUIDE.lines().for_each(|line| short.feed(format!("{line}\n").as_bytes(), 0));
    let mut replay = short.replay();
    let left = replay.events.drain(..5).count() as u64;
    let (client, _stop) =
        env.view(Viewed::Replay(Box::new(Replay { left_out: left, ..replay }))).await;
    let (kind, first) = Events::open(&client, "/api/view/events?from=0").await.next().await;
    assert_eq!((kind.as_str(), first), ("again", json!(left)));
}

#[tokio::test]
async fn a_caller_learns_that_the_file_was_begun_again_and_reads_the_new_replay() {
    let env = ServerEnv::new().await;
    let (sender, viewed) = stream();
    let (client, _stop) = env.view(viewed).await;
    let lines: Vec<&str> = GUIDE.lines().collect();
    let mut following = Events::open(&client, "/api/view/events?from=0").await;
    write(&sender, &lines).await;
    let mut next = 0;
    while next < lines.len() as u64 {
        let (kind, events) = following.next().await;
        assert_eq!(kind, "events");
        next = numbers(&events).last().unwrap() + 1;
    }
    sender.send((0, Piece::BegunAgain)).await.unwrap();
    let told = loop {
        let (kind, data) = following.next().await;
        if kind == "again" {
            break data;
        }
    };
    let empty = client.get("/api/view/replay").await.of(200);
    assert_eq!((&empty["events"], &empty["left_out"]), (&json!([]), &json!(0)), "{empty}");
    assert_eq!(empty["first"]["next_seq"], told);
    assert_eq!(empty["unread"], json!(["the file was begun again, and this is its new content"]));
    // A caller that has read the empty replay gets what comes after it.
    let mut following = Events::open(&client, &format!("/api/view/events?from={told}")).await;
    write(&sender, &lines[..3]).await;
    let (kind, events) = following.next().await;
    assert_eq!((kind.as_str(), json!(numbers(&events)[0])), ("events", told));
}
