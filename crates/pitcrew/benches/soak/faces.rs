//! Many user interfaces on one working team. It shows how late each learns of an event, and how
//! much memory the host uses while one of them is stopped.
//!
//! There are three periods of the same length. In the second, one face is stopped (SIGSTOP). The
//! conversations of the agents grow in all of them, so the smaller growth of the two others is
//! subtracted.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use crate::face::Seen;
use crate::options::Options;
use crate::process::ProcessReading;
use crate::team::SoakTeam;

/// The maximum time from an event to each face, in milliseconds.
const LATE_MS_MOST: f64 = 50.0;

/// The maximum growth of the host's memory by a stopped face: the size of the event log of a host.
const GROWTH_MOST: f64 = 4.0 * 1024.0 * 1024.0;

/// The time that a stopped face may take to learn everything after it goes on.
const CATCHES_UP_WITHIN: Duration = Duration::from_secs(10);

/// A face, in a process of its own.
struct Face {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// What happened in one period.
struct Period {
    seen: Vec<Seen>,
    /// The growth of the host's memory, in bytes.
    growth: f64,
    /// The processor time of the host and of the model server, in processors.
    load: f64,
    requests_per_second: f64,
}

/// Runs the benchmark.
pub(crate) fn measure(options: &Options) {
    let mut team = SoakTeam::start(options);
    team.wait_until_all_have_spoken();
    let faces = 0..options.faces;
    let mut faces: Vec<Face> =
        faces.map(|nth| Face::start(team.root(), nth == 0)).map(Face::attached).collect();
    let first = Period::of(&mut team, &mut faces, options);
    let mut slow = faces.pop().expect("a face to stop");
    slow.signal(Signal::STOP);
    let stopped = Period::of(&mut team, &mut faces, options);
    slow.signal(Signal::CONT);
    let snapshots = slow.catch_up(faces.first_mut().expect("a face that reads"));
    faces.push(slow);
    let last = Period::of(&mut team, &mut faces, options);
    drop(faces);
    let journal = injections(team.root());
    team.stop();
    let periods = [first, stopped, last];
    println!(
        "{} faces on a team of {} agents, three periods of {} s; the model thinks {:?}",
        options.faces, options.agents, options.seconds, options.think
    );
    periods.iter().for_each(Period::print);
    let from_host = lateness(&periods, |seen| {
        seen.late_us.iter().map(|(seq, late_us)| (seq.to_string(), *late_us)).collect()
    });
    let from_journal = lateness(&periods, |seen| {
        let late = |(id, at_us): &(String, i64)| Some((id.clone(), at_us - journal.get(id)?));
        seen.deliveries.iter().filter_map(late).collect()
    });
    let late_ms = [
        print_lateness("an event, from its number in the host", &from_host),
        print_lateness("a delivery, from its journal entry", &from_journal),
    ];
    let growth = print_growth(&periods, snapshots);
    if options.seconds >= 60 {
        assert!(late_ms.iter().all(|late_ms| *late_ms <= LATE_MS_MOST), "the faces are late");
        assert!(growth <= GROWTH_MOST, "a stopped face costs the host too much memory");
    }
}

impl Period {
    fn of(team: &mut SoakTeam, faces: &mut [Face], options: &Options) -> Self {
        faces.iter_mut().for_each(|face| drop(face.seen()));
        let before = team.sample();
        let started = Instant::now();
        std::thread::sleep(Duration::from_secs(options.seconds));
        let after = team.sample();
        let seconds = started.elapsed().as_secs_f64();
        let cpu = |now: &ProcessReading, then: &ProcessReading| now.cpu_seconds - then.cpu_seconds;
        Self {
            seen: faces.iter_mut().map(Face::seen).collect(),
            growth: after.team.resident as f64 - before.team.resident as f64,
            load: (cpu(&after.team, &before.team) + cpu(&after.server, &before.server)) / seconds,
            requests_per_second: after.model.requests as f64 / seconds,
        }
    }

    /// Returns the size of the events of the period, in bytes.
    fn bytes(&self) -> u64 {
        self.seen.iter().map(|seen| seen.bytes).sum()
    }

    fn print(&self) {
        let events = self.seen.first().map_or(0, |seen| seen.late_us.len());
        println!(
            "  {:>3} faces read {events} events ({:.1} MB); {:.0} requests/s; host and model use {:.2} processors; host grew {:+.1} MB",
            self.seen.len(),
            self.bytes() as f64 / 1e6,
            self.requests_per_second,
            self.load,
            self.growth / 1e6,
        );
    }
}

impl Face {
    fn start(root: &Path, counts_bytes: bool) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.arg("--show").arg(root);
        if counts_bytes {
            command.arg("--count-bytes");
        }
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a face");
        let questions = process.stdin.take().expect("a pipe");
        let answers = BufReader::new(process.stdout.take().expect("a pipe"));
        Self { process, questions, answers }
    }

    /// Waits until the face has the state of the host.
    fn attached(mut self) -> Self {
        let _first = self.answer();
        self
    }

    /// Returns what the face has seen since the last call.
    fn seen(&mut self) -> Seen {
        writeln!(self.questions).expect("the face lives");
        self.answer()
    }

    fn answer(&mut self) -> Seen {
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the face lives");
        serde_json::from_str(&answer).expect("an answer")
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).expect("the face lives");
    }

    /// Waits until the face has the events that `other` has now. Returns the number of snapshots
    /// that it got.
    fn catch_up(&mut self, other: &mut Self) -> u64 {
        let (next_seq, started) = (other.seen().next_seq, Instant::now());
        let mut snapshots = 0;
        loop {
            let seen = self.seen();
            snapshots += seen.snapshots;
            if seen.next_seq >= next_seq {
                return snapshots;
            }
            assert!(started.elapsed() < CATCHES_UP_WITHIN, "the stopped face stays behind");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Face {
    fn drop(&mut self) {
        // The process may have ended already, so the result is ignored.
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

/// For each face and event, how late the face was, in microseconds; and for each event, how late
/// the last face was.
struct Lateness {
    each_us: Vec<i64>,
    last_us: Vec<i64>,
}

/// Collects how late each face learned of each event. `of_face` returns the events of a face, each
/// with its name.
fn lateness(periods: &[Period], of_face: impl Fn(&Seen) -> Vec<(String, i64)>) -> Lateness {
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    let mut each_us = Vec::new();
    for (event, late_us) in periods.iter().flat_map(|period| &period.seen).flat_map(of_face) {
        each_us.push(late_us);
        let last = last.entry(event).or_insert(late_us);
        *last = late_us.max(*last);
    }
    let mut last_us: Vec<i64> = last.into_values().collect();
    each_us.sort_unstable();
    last_us.sort_unstable();
    Lateness { each_us, last_us }
}

/// Prints the times of one kind. Returns the time within which 99 of 100 events have reached every
/// face, in milliseconds.
fn print_lateness(what: &str, lateness: &Lateness) -> f64 {
    let at = |sorted: &[i64], share: f64| {
        let at = (sorted.len() as f64 * share) as usize;
        *sorted.get(at.min(sorted.len().saturating_sub(1))).expect("events happened") as f64 / 1e3
    };
    let Lateness { each_us, last_us } = lateness;
    let late_ms = at(last_us, 0.99);
    println!(
        "{what}, to a face: p50 {:.1} ms, p99 {:.1} ms; to the last face: p50 {:.1} ms, p99 {late_ms:.1} ms; {:.2} of the limit of {LATE_MS_MOST} ms ({} events)",
        at(each_us, 0.5),
        at(each_us, 0.99),
        at(last_us, 0.5),
        late_ms / LATE_MS_MOST,
        last_us.len(),
    );
    late_ms
}

/// Prints how much the host grew by the stopped face, and returns it.
fn print_growth(periods: &[Period; 3], snapshots: u64) -> f64 {
    let [first, stopped, last] = periods;
    let growth = stopped.growth - first.growth.min(last.growth);
    println!(
        "a stopped face: the host grew {:+.1} MB more than in another period; {:.2} of the limit of {:.1} MB; {:.1} MB of events passed it, and it went on with {snapshots} snapshot(s)",
        growth / 1e6,
        growth / GROWTH_MOST,
        GROWTH_MOST / 1e6,
        stopped.bytes() as f64 / 1e6,
    );
    growth
}

/// Returns the times at which the journal says that messages were written into conversations, in
/// microseconds since 1970, by the ids of the messages.
fn injections(root: &Path) -> HashMap<String, i64> {
    #[derive(Deserialize)]
    struct Entry {
        at_ms: i64,
        event: String,
        id: Option<String>,
    }
    let journal = std::fs::read_to_string(root.join("teams/soak/pitcrew/journal.ndjson"));
    let journal = journal.expect("a journal");
    // The team still writes: the last line may be cut.
    let entries = journal.lines().filter_map(|line| serde_json::from_str::<Entry>(line).ok());
    let injections = entries.filter(|entry| entry.event == "message_injected");
    injections.filter_map(|entry| Some((entry.id?, entry.at_ms * 1_000))).collect()
}
