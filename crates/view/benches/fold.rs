//! Measures how fast the stream of another client is folded into the state of a team, beside
//! serde_json skipping the same bytes (`IgnoredAny`).
//!
//! Exits with 1 if the fold has less than 0.4 of the speed of skipping. The aim is 200 MB a second.
//! The times are processor times, so that other programs on the machine change them little.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and ends when it cannot work"
)]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

use pitcrew_view::TeamState;
use pitcrew_view::client_stream::ClientStream;
use rustix::time::{ClockId, clock_gettime};
use serde::de::IgnoredAny;
use serde_json::Deserializer;

/// The size of the stream, in bytes.
const BYTES: usize = 64 << 20;
/// The size of one read of a program that follows a stream.
const PIECE: usize = 64 << 10;
const ROUNDS: usize = 9;
const RATIO_LEAST: f64 = 0.4;

/// Repeats the recorded sessions. Each repetition has its own calls and messages, as a long session
/// has.
fn stream() -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/claude-2.1.39/stream-json");
    let files = ["team-lifecycle.ndjson", "errors-and-duplicates.ndjson"];
    let recorded = files.map(|file| std::fs::read_to_string(format!("{folder}/{file}")).unwrap());
    let recorded = recorded.concat();
    let mut stream = String::with_capacity(BYTES + recorded.len() * 2);
    for n in 0.. {
        if stream.len() >= BYTES {
            break;
        }
        let (call, message) = (format!("toolu_{n:06}"), format!("msg_{n:06}"));
        stream.push_str(&recorded.replace("toolu_", &call).replace("msg_", &message));
    }
    stream.into_bytes()
}

fn fold(stream: &[u8]) -> TeamState {
    let (mut reader, mut state) = (ClientStream::new(), TeamState::default());
    for piece in stream.chunks(PIECE) {
        reader.feed(&mut state, piece);
    }
    reader.finish(&mut state);
    let read = reader.lines_read();
    assert_eq!((read.unknown, read.unreadable, read.too_long, read.cut), (0, 0, 0, 0));
    state
}

fn skip(stream: &[u8]) -> usize {
    let lines = Deserializer::from_slice(stream).into_iter::<IgnoredAny>();
    lines.map(Result::unwrap).count()
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let started = processor_time();
    black_box(work());
    processor_time() - started
}

/// Returns the time for which this thread has run on a processor.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    *times.get(times.len() / 2).unwrap()
}

fn main() -> ExitCode {
    let stream = stream();
    let (mut folded, mut skipped) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        folded.push(timed(|| fold(black_box(&stream))));
        skipped.push(timed(|| skip(black_box(&stream))));
    }
    let speed = |time: Duration| stream.len() as f64 / 1e6 / time.as_secs_f64();
    let (folded, skipped) = (speed(median(folded)), speed(median(skipped)));
    let ratio = folded / skipped;
    let lines = skip(&stream);
    println!("{lines} lines, {} MB; medians of {ROUNDS} rounds", stream.len() / 1_000_000);
    println!("fold        {folded:>7.0} MB/s   (aim: 200 MB/s)");
    println!("IgnoredAny  {skipped:>7.0} MB/s");
    println!("ratio       {ratio:>7.2}        (limit: at least {RATIO_LEAST})");
    if ratio < RATIO_LEAST { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
