//! Measures 32 concurrent senders in one process that send to one inbox. Compares their throughput
//! with one sender that sends one message at a time. The promise: at least 10 times the throughput.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and ends when it cannot work"
)]

use pitcrew_store::NewTeam;
use std::time::{Duration, Instant};

use pitcrew_protocol::{AgentName, InboxFile, Message, MessageId, TeamConfig, TeamDir};
use pitcrew_store::{Appended, FileBackend, FileOptions, MailStore, TeamStore, UnreadLimit};

const SENDERS: usize = 32;
const MESSAGES: usize = 1280;

async fn send(backend: &FileBackend, team: &TeamDir, inbox: &InboxFile, from: usize, count: usize) {
    for nth in 0..count {
        let message = Message::new(
            "worker",
            format!("message {nth} of {from}"),
            "2026-11-20T11:48:29.735Z".into(),
        )
        .with_id(&MessageId(format!("{from}-{nth}")));
        assert_eq!(
            backend.append(team, inbox, message, UnreadLimit::None).await.unwrap(),
            Appended::New
        );
    }
}

async fn measure(backend: &FileBackend, team: &TeamDir, senders: usize) -> Duration {
    let inbox = AgentName::foreign(&format!("of-{senders}")).inbox_file();
    let started = Instant::now();
    let senders: Vec<_> = (0..senders)
        .map(|from| {
            let (backend, team, inbox) = (backend.clone(), team.clone(), inbox.clone());
            tokio::spawn(
                async move { send(&backend, &team, &inbox, from, MESSAGES / senders).await },
            )
        })
        .collect();
    for sender in senders {
        sender.await.unwrap();
    }
    assert_eq!(backend.inbox(team, &inbox).await.unwrap().len(), MESSAGES);
    started.elapsed()
}

#[tokio::main]
async fn main() {
    let root = tempfile::tempdir_in(".").unwrap();
    let config: TeamConfig = serde_json::from_str(
        r#"{"name": "bench", "members": [{"name": "team-lead", "tmuxPaneId": ""}]}"#,
    )
    .unwrap();
    let backend = FileBackend::open(root.path(), FileOptions::default());
    backend.create_team(&config, &NewTeam::default()).await.unwrap();
    let team = TeamDir::of("bench");
    let one = measure(&backend, &team, 1).await;
    let before = backend.forced_writes();
    let many = measure(&backend, &team, SENDERS).await;
    let forced = backend.forced_writes() - before;
    let rate = |took: Duration| MESSAGES as f64 / took.as_secs_f64();
    println!("{MESSAGES} messages into an empty inbox");
    println!("one at a time     {:>8.0} messages/s", rate(one));
    println!("{SENDERS} at once        {:>8.0} messages/s, {forced} forced writes", rate(many));
    println!(
        "ratio             {:>8.1}   (promised: at least 10)",
        one.as_secs_f64() / many.as_secs_f64()
    );
}
