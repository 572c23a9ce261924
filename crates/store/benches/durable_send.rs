//! Measures how long a durable send into an inbox of 1,000 messages takes. Compares that time with
//! a plain durable write of the same bytes: write a temporary file, fsync, rename, fsync of the
//! folder. The promise: a send takes at most twice the time of the plain write.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and ends when it cannot work"
)]

use pitcrew_store::NewTeam;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use pitcrew_protocol::{AgentName, Message, MessageId, TeamConfig, TeamDir};
use pitcrew_store::{Appended, FileBackend, FileOptions, MailStore, TeamStore, UnreadLimit};

const MESSAGES: usize = 1000;
const ROUNDS: usize = 300;

fn message(nth: usize) -> Message {
    let text =
        format!("message {nth}: {}", "the quick brown fox jumps over the lazy dog. ".repeat(4));
    let mut message = Message::new("worker", text, "2026-11-20T11:48:29.735Z".into());
    message.summary = Some("a fox and a dog".into());
    message.color = Some("blue".into());
    message.with_id(&MessageId(format!("01936e4c-0000-7000-8000-{nth:012}")))
}

fn raw(path: &Path, bytes: &[u8]) {
    let temp = path.with_extension("tmp");
    let mut file = File::create_new(&temp).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_data().unwrap();
    fs::rename(&temp, path).unwrap();
    File::open(path.parent().unwrap()).unwrap().sync_all().unwrap();
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    *times.get(times.len() / 2).unwrap()
}

#[tokio::main]
async fn main() {
    let root = tempfile::tempdir_in(".").unwrap();
    let config: TeamConfig = serde_json::from_str(
        r#"{"name": "bench", "members": [{"name": "team-lead", "tmuxPaneId": "", "pitcrew": {}}]}"#,
    )
    .unwrap();
    let (team, inbox) = (TeamDir::of("bench"), AgentName::lead().inbox_file());
    let quick = FileBackend::open(
        root.path(),
        FileOptions { durability: pitcrew_store::Durability::Process, ..FileOptions::default() },
    );
    quick.create_team(&config, &NewTeam::default()).await.unwrap();
    for nth in 0..MESSAGES {
        assert_eq!(
            quick.append(&team, &inbox, message(nth), UnreadLimit::None).await.unwrap(),
            Appended::New
        );
    }
    let path = root.path().join("teams/bench/inboxes/team-lead.json");
    let full = fs::read(&path).unwrap();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for nth in 0..ROUNDS {
        // The inbox keeps the messages of earlier rounds, so it grows a little. Restoring the old
        // inbox file would look like a stale write of another program, and the store would add the
        // messages again. Each round opens a new store with empty caches, like a process that sends
        // one message.
        let backend = FileBackend::open(root.path(), FileOptions::default());
        let sent = message(MESSAGES + nth);
        let started = Instant::now();
        assert_eq!(
            backend.append(&team, &inbox, sent, UnreadLimit::None).await.unwrap(),
            Appended::New
        );
        ours.push(started.elapsed());
        let bytes = fs::read(&path).unwrap();
        let raw_path = path.with_file_name("raw.json");
        let started = Instant::now();
        raw(&raw_path, &bytes);
        theirs.push(started.elapsed());
    }
    let (ours, theirs) = (median(&mut ours), median(&mut theirs));
    println!("inbox of {MESSAGES} messages, {} bytes; medians of {ROUNDS} rounds", full.len());
    println!("durable send          {ours:>10.1?}");
    println!("same bytes, by hand   {theirs:>10.1?}");
    println!(
        "ratio                 {:>10.2}   (promised: at most 2)",
        ours.as_secs_f64() / theirs.as_secs_f64()
    );
}
