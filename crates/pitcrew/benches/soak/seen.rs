//! The record that a face, in a process of its own, keeps of the events that it got: how late each
//! of them came.

use std::io::{BufRead as _, Write as _};
use std::pin::pin;
use std::time::{SystemTime, UNIX_EPOCH};

use pitcrew_runtime::events::RunEvent;
use pitcrew_view::host::{HostEvent, What};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

/// Capacity of the queue of questions. The benchmark asks one at a time.
const QUESTIONS_WAITING: usize = 1;

/// Something that a face gets.
#[derive(Debug)]
pub(crate) enum News {
    /// The whole state of the host. The event with this number comes next.
    Snapshot {
        next_seq: u64,
    },
    Event(Box<HostEvent>),
    /// The connection broke, and there is another one.
    Reconnected,
}

/// What a face has seen since it was last asked.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// The number of the first event that the face does not have.
    pub(crate) next_seq: u64,
    pub(crate) snapshots: u64,
    /// The number of connections after the first one.
    pub(crate) reconnects: u64,
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

/// Records what `next` returns, until the benchmark closes the standard input of this process.
/// Prints what was seen after the first snapshot, and then for each line of input.
pub(crate) async fn record(counts_bytes: bool, mut next: impl AsyncFnMut() -> News) {
    let mut questions = questions();
    let mut seen = match next().await {
        News::Snapshot { next_seq } => Seen { next_seq, ..Seen::default() },
        other @ (News::Event(_) | News::Reconnected) => panic!("no snapshot came, but {other:?}"),
    };
    seen.print();
    loop {
        let mut coming = pin!(next());
        // A question does not cancel the wait, because a face may be connecting again.
        let news = loop {
            tokio::select! {
                news = &mut coming => break news,
                question = questions.recv() => {
                    if question.is_none() {
                        return;
                    }
                    seen.print();
                    seen = Seen { next_seq: seen.next_seq, ..Seen::default() };
                }
            }
        };
        seen.add(&news, counts_bytes);
    }
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
    fn add(&mut self, news: &News, counts_bytes: bool) {
        match news {
            News::Snapshot { next_seq } => {
                self.snapshots += 1;
                self.next_seq = *next_seq;
            }
            News::Event(event) => self.add_event(event, counts_bytes),
            News::Reconnected => self.reconnects += 1,
        }
    }

    fn add_event(&mut self, event: &HostEvent, counts_bytes: bool) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
        let now_us = i64::try_from(now.as_micros()).expect("a clock of this age");
        assert_eq!(event.seq, self.next_seq, "an event was lost or came twice");
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
