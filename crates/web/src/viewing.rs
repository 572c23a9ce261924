//! What a server shows that was started for one view: the replay of a team, or the stream of a
//! client while it is read.
//!
//! One task owns the replay: it takes the pieces of the stream and answers the requests.

use pitcrew_view::replay::{Replay, StreamReplay, Timed};
use serde::{Serialize, Serializer};
use tokio::sync::{mpsc, oneshot, watch};

/// The maximum number of events in one answer about what is new.
const EVENTS_MOST: usize = 200;

/// The number of requests that wait for the task.
const ASKS_WAITING: usize = 16;

/// What a server shows.
#[derive(Debug)]
pub enum Viewed {
    /// A replay that is complete.
    Replay(Box<Replay>),
    /// A stream, and its next pieces with the time at which each came, in milliseconds since the
    /// Unix epoch.
    Stream(Box<StreamReplay>, mpsc::Receiver<(i64, Piece)>),
}

/// A piece of a stream.
#[derive(Debug)]
pub enum Piece {
    /// The next bytes.
    Bytes(Vec<u8>),
    /// There are no more bytes for now.
    EndForNow,
    /// The file was begun again. The next bytes are those of its new beginning.
    BegunAgain,
    /// Nothing more will come. The text says why, if the stream was cut.
    End(Option<String>),
}

/// What is known of the view.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// The number of the next event.
    pub(crate) next_seq: u64,
    /// The end of the stream. The inner text says why it was cut.
    pub(crate) end: Option<Option<String>>,
}

/// Asks the task of the view.
#[derive(Clone, Debug)]
pub(crate) struct View {
    asks: mpsc::Sender<Ask>,
    known: watch::Receiver<Known>,
}

#[derive(Debug)]
enum Ask {
    Whole(oneshot::Sender<Vec<u8>>),
    Since(u64, oneshot::Sender<Vec<Timed>>),
}

/// The answer with the replay. A long one is written without a copy of its events.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    replay: &'a Viewed,
    /// Whether more events come.
    is_live: bool,
}

impl Serialize for Viewed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Replay(replay) => replay.serialize(serializer),
            Self::Stream(stream, _) => stream.serialize(serializer),
        }
    }
}

impl View {
    /// Returns the replay up to now as JSON. Returns `None` when the server ends.
    pub(crate) async fn whole(&self) -> Option<Vec<u8>> {
        let (reply, answer) = oneshot::channel();
        self.asks.send(Ask::Whole(reply)).await.ok()?;
        answer.await.ok()
    }

    /// Returns some events from the number `seq` on. Returns `None` when the server ends.
    pub(crate) async fn since(&self, seq: u64) -> Option<Vec<Timed>> {
        let (reply, answer) = oneshot::channel();
        self.asks.send(Ask::Since(seq, reply)).await.ok()?;
        answer.await.ok()
    }

    pub(crate) fn known(&self) -> watch::Receiver<Known> {
        self.known.clone()
    }
}

/// Returns the handle of a view, and its task. The task ends when no handle is left.
pub(crate) fn open(viewed: Viewed) -> (View, impl Future<Output = ()>) {
    let (asks, asked) = mpsc::channel(ASKS_WAITING);
    let (told, known) = watch::channel(Known::default());
    (View { asks, known }, run(viewed, asked, told))
}

async fn run(mut viewed: Viewed, mut asked: mpsc::Receiver<Ask>, told: watch::Sender<Known>) {
    if let Viewed::Replay(replay) = &viewed {
        let next_seq = replay.left_out + replay.events.len() as u64;
        told.send_replace(Known { next_seq, end: Some(None) });
    }
    loop {
        tokio::select! {
            ask = asked.recv() => match ask {
                Some(ask) => viewed.answer(ask, told.borrow().end.is_none()),
                None => return,
            },
            piece = viewed.next(), if told.borrow().end.is_none() => viewed.take(piece, &told),
        }
    }
}

impl Viewed {
    /// Waits for the next piece of a stream. It is cancel-safe.
    async fn next(&mut self) -> Option<(i64, Piece)> {
        match self {
            Self::Replay(_) => std::future::pending().await,
            Self::Stream(_, pieces) => pieces.recv().await,
        }
    }

    fn take(&mut self, piece: Option<(i64, Piece)>, told: &watch::Sender<Known>) {
        let Self::Stream(stream, _) = self else { return };
        let end = match piece {
            Some((now_ms, Piece::Bytes(bytes))) => {
                stream.feed(&bytes, now_ms);
                None
            }
            Some((now_ms, Piece::EndForNow)) => {
                stream.pause(now_ms);
                None
            }
            Some((_, Piece::BegunAgain)) => {
                stream.begin_again();
                None
            }
            Some((now_ms, Piece::End(reason))) => {
                stream.finish(now_ms);
                Some(reason)
            }
            None => Some(None),
        };
        told.send_replace(Known { next_seq: stream.next_seq(), end });
    }

    fn answer(&self, ask: Ask, is_live: bool) {
        // A caller may have gone.
        let _gone = match ask {
            Ask::Whole(reply) => {
                let json = serde_json::to_vec(&Shown { replay: self, is_live });
                json.is_ok_and(|json| reply.send(json).is_ok())
            }
            Ask::Since(seq, reply) => reply.send(self.since(seq)).is_ok(),
        };
    }

    fn since(&self, seq: u64) -> Vec<Timed> {
        match self {
            Self::Replay(replay) => {
                let later = replay.events.iter().skip_while(|event| event.seq < seq);
                later.take(EVENTS_MOST).cloned().collect()
            }
            Self::Stream(stream, _) => stream.since(seq).take(EVENTS_MOST).cloned().collect(),
        }
    }
}
