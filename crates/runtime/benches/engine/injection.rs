//! Measures how long it takes to deliver a message to an idle teammate inside this process. The
//! time runs from the return of the send call until the message is in the teammate's conversation.
//!
//! The limit is 5 ms at the 99th percentile, with every file write forced to disk. A delivery
//! forces two writes to disk: the transcript, then the inbox. For comparison, the same run measures
//! two such writes alone.

use std::io::Write as _;
use std::time::{Duration, Instant};

use pitcrew_protocol::{SendMessageInput, Status};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::run::{RunHandle, Runtime};
use pitcrew_team::Actor;

use crate::stage;

const SENDS: usize = 400;
const LIMIT: Duration = Duration::from_millis(5);

const ONE_IDLE_TEAMMATE: &str = r"
agents:
  team-lead:
    - tools:
        - {name: Task, input: {name: bob, subagent_type: general-purpose, description: Wait, prompt: Wait.}}
    - tools:
        - {name: Bash, input: {command: sleep 600, timeout: 600000}}
  bob:
    - wait_for: {contains: never said}
";

pub(crate) fn run() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let mut waits = runtime.block_on(measure());
    let raw = raw_writes();
    waits.sort_unstable();
    let (p50, p99) = (stage::percentile(&waits, 50), stage::percentile(&waits, 99));
    println!("send to injection, idle in-process teammate, {SENDS} sends, files on disk");
    println!(
        "  p50 {p50:>10.2?}   p99 {p99:>10.2?}   limit {LIMIT:.2?}   p99/limit {:.2}",
        p99.as_secs_f64() / LIMIT.as_secs_f64()
    );
    println!(
        "  raw append + fsync in the same run: {raw:.2?}   p50/raw {:.2}",
        p50.as_secs_f64() / raw.as_secs_f64()
    );
}

async fn measure() -> Vec<Duration> {
    let stage = stage::Stage::new();
    let mut handle =
        Runtime::start(stage.options(ONE_IDLE_TEAMMATE)).await.expect("the run starts");
    idle(&mut handle).await;
    let team = stage.teams.open("bench").await.expect("the team is there");
    let mut waits = Vec::with_capacity(SENDS);
    for n in 0..SENDS {
        let input = SendMessageInput::Message {
            recipient: "bob".to_owned(),
            content: format!("message {n}"),
            summary: None,
        };
        let sent = team.send(&Actor::User, input, None).await.expect("the send");
        let returned = Instant::now();
        let id = &sent.receipts.first().expect("a receipt").id;
        until(
            &mut handle,
            |event| matches!(event, RunEvent::MailDelivered { ids, .. } if ids.contains(id)),
        )
        .await;
        waits.push(returned.elapsed());
        idle(&mut handle).await;
    }
    handle.stopper().kill();
    handle.outcome().await;
    waits
}

async fn idle(handle: &mut RunHandle) {
    until(
        handle,
        |event| matches!(event, RunEvent::AgentChanged { agent, status: Status::Idle, .. } if agent.as_str() == "bob"),
    )
    .await;
}

async fn until(handle: &mut RunHandle, wanted: impl Fn(&RunEvent) -> bool) {
    while let Some(event) = handle.events.recv().await {
        if wanted(&event) {
            return;
        }
    }
    panic!("the run ended");
}

fn raw_writes() -> Duration {
    let folder = tempfile::tempdir().expect("a folder");
    let mut file = std::fs::File::create(folder.path().join("raw")).expect("a file");
    let line = [b'x'; 400];
    let mut takes: Vec<_> = (0..100)
        .map(|_| {
            let start = Instant::now();
            file.write_all(&line).and_then(|()| file.sync_data()).expect("a write");
            start.elapsed()
        })
        .collect();
    takes.sort_unstable();
    stage::percentile(&takes, 50)
}
