//! Measures how long it takes to spawn a teammate inside this process. The time starts when the
//! lead's model calls the tool Task. It ends when the teammate's first request reaches the
//! teammate's model.
//!
//! The limit is 5 ms at the median, with every file write forced to disk. Two writes come before
//! the request: the lead's call is written to the lead's transcript, and the member is written to
//! the config. A third write (the prompt, to the teammate's transcript) runs at the same time as
//! the request. For comparison, the same run measures one durable edit: a temporary file, fsync,
//! rename, and fsync of the folder.

use pitcrew_protocol::Status;
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use pitcrew_model::{
    Block, Model, Request, Response, ResponseStream, StopReason, StreamEvent, Usage,
};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::run::{RunHandle, Runtime};
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};

use crate::stage;

/// Number of teams. The next constant is the number of teammates in each team. A team spawns its
/// teammates one after the other.
const TEAMS: usize = 10;
const TEAMMATES: usize = 10;

const LIMIT: Duration = Duration::from_millis(5);

/// Capacity of each channel that reports model calls to the benchmark. The capacity is larger than
/// the number of teammates. Each teammate makes one call, so a report never waits for space in the
/// channel.
const REQUESTS: usize = 16;

/// The lead's model. It spawns one teammate after the other. Before each spawn, it waits until the
/// benchmark permits the spawn.
struct Lead {
    turns: Arc<Semaphore>,
    calls: mpsc::Sender<Instant>,
}

/// A teammate's model. It reports the time of the teammate's request, and answers with no text.
struct Mate {
    asked: mpsc::Sender<Instant>,
}

impl Model for Lead {
    fn id(&self) -> &str {
        "lead"
    }

    fn context_window(&self) -> Option<u64> {
        None
    }

    fn respond(&self, _request: Request) -> ResponseStream {
        let (turns, calls) = (self.turns.clone(), self.calls.clone());
        let answer = async move {
            turns.acquire().await.expect("the benchmark goes on").forget();
            let id = uuid::Uuid::new_v4().to_string();
            let input = json!({"name": "mate", "subagent_type": "general-purpose", "description": "Wait", "prompt": "Wait.", "model": "mate"});
            let block =
                Block::ToolUse { id, name: "Task".to_owned(), input, extra: Default::default() };
            calls.send(Instant::now()).await.expect("the benchmark goes on");
            Ok(finished(block, StopReason::ToolUse))
        };
        stream::once(answer).boxed()
    }
}

impl Model for Mate {
    fn id(&self) -> &str {
        "mate"
    }

    fn context_window(&self) -> Option<u64> {
        None
    }

    fn respond(&self, _request: Request) -> ResponseStream {
        let at = Instant::now();
        let asked = self.asked.clone();
        let answer = async move {
            asked.send(at).await.expect("the benchmark goes on");
            Ok(finished(
                Block::Text { text: "Done.".to_owned(), extra: Default::default() },
                StopReason::EndTurn,
            ))
        };
        stream::once(answer).boxed()
    }
}

fn finished(block: Block, stop: StopReason) -> StreamEvent {
    let (id, model) = (uuid::Uuid::new_v4().to_string(), "bench".to_owned());
    StreamEvent::Finished(Response {
        id,
        model,
        blocks: vec![block],
        stop,
        usage: Usage::default(),
    })
}

pub(crate) fn run() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let (mut takes, mut edits) = (Vec::new(), Vec::new());
    for _ in 0..TEAMS {
        takes.extend(runtime.block_on(measure()));
        edits.extend((0..TEAMMATES).map(|_| durable_edit()));
    }
    takes.sort_unstable();
    edits.sort_unstable();
    let (p50, p95, edit) = (
        stage::percentile(&takes, 50),
        stage::percentile(&takes, 95),
        stage::percentile(&edits, 50),
    );
    println!(
        "spawn to first model request, in-process teammate, {} spawns in teams of {TEAMMATES}, files on disk",
        takes.len()
    );
    println!(
        "  p50 {p50:>10.2?}   p95 {p95:>10.2?}   fastest {:.2?}   limit {LIMIT:.2?}   p50/limit {:.2}",
        stage::percentile(&takes, 0),
        p50.as_secs_f64() / LIMIT.as_secs_f64()
    );
    println!(
        "  one durable edit of 2 KB in the same run: p50 {edit:.2?}   p95 {:.2?}   p50/edit {:.2}",
        stage::percentile(&edits, 95),
        p50.as_secs_f64() / edit.as_secs_f64()
    );
}

async fn measure() -> Vec<Duration> {
    let stage = stage::Stage::new();
    let turns = Arc::new(Semaphore::new(0));
    let ((calls, mut called), (asked, mut asks)) =
        (mpsc::channel(REQUESTS), mpsc::channel(REQUESTS));
    let lead: Arc<dyn Model> = Arc::new(Lead { turns: turns.clone(), calls });
    let mate: Arc<dyn Model> = Arc::new(Mate { asked });
    let open = move |name: &str| Ok(if name == "mate" { mate.clone() } else { lead.clone() });
    let mut handle =
        Runtime::start(stage.options_with(Arc::new(open))).await.expect("the run starts");
    let mut takes = Vec::with_capacity(TEAMMATES);
    for _ in 0..TEAMMATES {
        turns.add_permits(1);
        let call = called.recv().await.expect("the lead calls");
        let ask = asks.recv().await.expect("the teammate asks");
        takes.push(ask.duration_since(call));
        // Wait until the team is idle, because each spawn must be measured alone.
        until_idle(&mut handle).await;
    }
    handle.stopper().kill();
    handle.outcome().await;
    takes
}

async fn until_idle(handle: &mut RunHandle) {
    while let Some(event) = handle.events.recv().await {
        if matches!(event, RunEvent::AgentChanged { agent, status: Status::Idle, .. } if agent.as_str() != "team-lead")
        {
            return;
        }
    }
    panic!("the run ended");
}

fn durable_edit() -> Duration {
    let folder = tempfile::tempdir().expect("a folder");
    let (temporary, target) = (folder.path().join("tmp"), folder.path().join("config.json"));
    let start = Instant::now();
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&temporary)?;
        file.write_all(&[b'x'; 2048])?;
        file.sync_data()?;
        std::fs::rename(&temporary, &target)?;
        File::open(folder.path())?.sync_all()
    };
    write().expect("a durable edit");
    start.elapsed()
}
