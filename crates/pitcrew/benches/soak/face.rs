//! A user interface in a process of its own, which follows the host of the team. It measures how
//! late it learns of each event.

use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pitcrew_protocol::Limits;
use pitcrew_runtime::events::RunEvent;
use pitcrew_store::{FileBackend, FileOptions};
use pitcrew_team::{SystemClock, Teams};
use pitcrew_view::client::{FromHost, follow};
use pitcrew_view::host::{HostEvent, What};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::team::TEAM;

/// Capacity of the queue of questions. The benchmark asks one at a time.
const QUESTIONS_WAITING: usize = 1;

/// What a face has seen since it was last asked.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// The number of the first event that the face does not have.
    pub(crate) next_seq: u64,
    pub(crate) snapshots: u64,
    /// The size of all events, in bytes. Only a face that counts bytes has it.
    pub(crate) bytes: u64,
    /// The number of each event, and the time from its number in the host to this face, in
    /// microseconds. The host's time is in whole milliseconds and never too late. So the time is up
    /// to a millisecond too long and never too short.
    pub(crate) late_us: Vec<(u64, i64)>,
    /// The id of each delivered message, and the time at which this face learned of the delivery,
    /// in microseconds since 1970.
    pub(crate) deliveries: Vec<(String, i64)>,
}

/// Follows the host until the benchmark closes the standard input of this process. Prints what it
/// has seen after the first snapshot, and then for each line of input.
pub(crate) fn show(root: &Path, counts_bytes: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let backend = Arc::new(FileBackend::open(root, FileOptions::default()));
        let teams = Teams::new(backend, Limits::default(), Arc::new(SystemClock));
        let team = teams.open(TEAM).await.expect("the team is there");
        let following = follow(&team, None).await.expect("the host answers");
        let mut following = following.expect("the team runs");
        let mut questions = questions();
        let first = following.next().await;
        assert!(matches!(first, FromHost::Snapshot(_)), "the host sent something else: {first:?}");
        let mut seen = Seen { next_seq: following.next_seq(), ..Seen::default() };
        seen.print();
        loop {
            tokio::select! {
                sent = following.next() => match sent {
                    FromHost::Snapshot(_) => {
                        seen.snapshots += 1;
                        seen.next_seq = following.next_seq();
                    }
                    FromHost::Event(event) => seen.add(&event, counts_bytes),
                    FromHost::Gone(error) => panic!("the host is gone: {error:?}"),
                },
                question = questions.recv() => {
                    if question.is_none() {
                        return;
                    }
                    seen.print();
                    seen = Seen { next_seq: seen.next_seq, ..Seen::default() };
                }
            }
        }
    });
}

/// Returns a receiver that gets a value for each line of the standard input.
fn questions() -> mpsc::Receiver<()> {
    let (sender, questions) = mpsc::channel(QUESTIONS_WAITING);
    std::thread::spawn(move || {
        let mut lines = std::io::stdin().lock().lines();
        while lines.next().is_some_and(|line| line.is_ok()) && sender.blocking_send(()).is_ok() {}
    });
    questions
}

impl Seen {
    fn add(&mut self, event: &HostEvent, counts_bytes: bool) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
        let now_us = i64::try_from(now.as_micros()).expect("a clock of this age");
        self.next_seq = event.seq + 1;
        self.late_us.push((event.seq, now_us - event.at_ms * 1_000));
        if let What::Run(RunEvent::MailDelivered { ids, .. }) = &event.what {
            self.deliveries.extend(ids.iter().map(|id| (id.to_string(), now_us)));
        }
        if counts_bytes {
            self.bytes += serde_json::to_string(event).expect("an event").len() as u64 + 1;
        }
    }

    fn print(&self) {
        let line = serde_json::to_string(self).expect("plain numbers");
        println!("{line}");
        std::io::stdout().flush().expect("the benchmark listens");
    }
}
