//! Many user interfaces on one working team. It shows how late each gets an event, and how much
//! memory the processes that serve them use while one of them is stopped.
//!
//! There are three periods of the same length. In the second, one face is stopped (SIGSTOP). The
//! conversations of the agents grow in all of them, at first more than later, so the mean growth of
//! the period before and the period after is subtracted.

use std::time::{Duration, Instant};

use crate::face_process::FaceProcess;
use crate::lateness::{LATE_MS_MOST, Lateness};
use crate::options::{FaceKind, Options};
use crate::page_server::PageServer;
use crate::process::{ProcessReading, resident};
use crate::seen::Seen;
use crate::team::SoakTeam;

/// The maximum growth of a process's memory by a stopped face: the size of the event log of a host.
const GROWTH_MOST: f64 = 4.0 * 1024.0 * 1024.0;

/// The pause between two readings of the memory.
const LOOK: Duration = Duration::from_secs(1);

/// The length of a period from which the limits apply, in seconds.
const JUDGED_FROM_SECONDS: u64 = 60;

/// A process that must not grow by a stopped face.
struct Watched {
    name: &'static str,
    pid: u32,
}

/// What happened in one period.
struct Period {
    seen: Vec<Seen>,
    /// The growth of each watched process, in bytes: from the start to the highest reading.
    growths: Vec<f64>,
    /// The processor time of the watched processes and of the model server, in processors.
    load: f64,
    requests_per_second: f64,
}

/// Runs the benchmark.
pub(crate) fn measure(options: &Options) {
    let mut team = SoakTeam::start(options);
    team.wait_until_all_have_spoken();
    let (server, watched) = watched(&team, options);
    let mut faces = FaceProcess::start_all(options.faces, team.root(), server.as_ref());
    let first = Period::of(&mut team, &watched, &mut faces, options);
    let mut slow = faces.pop().expect("a face to stop");
    slow.stop();
    let stopped = Period::of(&mut team, &watched, &mut faces, options);
    let went_on = slow.go_on(faces.first_mut().expect("a face that reads"));
    faces.push(slow);
    let last = Period::of(&mut team, &watched, &mut faces, options);
    drop(faces);
    let periods = [first, stopped, last];
    let face = options.face_kind.word();
    println!(
        "{} {face}s on a team of {} agents, three periods of {} s; the model thinks {:?}",
        options.faces, options.agents, options.seconds, options.think
    );
    periods.iter().for_each(|period| period.print(&watched, face));
    let seen = || periods.iter().flat_map(|period| &period.seen);
    let from_host = Lateness::from_host(seen());
    let from_journal = Lateness::from_journal(seen(), team.root());
    team.stop();
    let late_ms = [
        from_host.print("an event, from its number in the host", face),
        from_journal.print("a delivery, from its journal entry", face),
    ];
    let growths = print_growths(&watched, &periods, face);
    println!(
        "the stopped {face} went on with {} snapshot(s), over {} new connection(s)",
        went_on.snapshots, went_on.reconnects
    );
    if options.seconds >= JUDGED_FROM_SECONDS {
        assert!(late_ms.iter().all(|late_ms| *late_ms <= LATE_MS_MOST), "the {face}s are late");
        assert!(
            growths.iter().all(|growth| *growth <= GROWTH_MOST),
            "a stopped {face} costs too much memory"
        );
    }
}

/// Starts the server of the faces if they are pages. Returns it, and the processes that the faces
/// could make grow.
fn watched(team: &SoakTeam, options: &Options) -> (Option<PageServer>, Vec<Watched>) {
    let host = Watched { name: "the host", pid: team.pid() };
    match options.face_kind {
        FaceKind::Attached => (None, vec![host]),
        FaceKind::Page => {
            let server = PageServer::start(options, team.root());
            let served = Watched { name: "the server", pid: server.pid() };
            (Some(server), vec![host, served])
        }
    }
}

impl Period {
    fn of(
        team: &mut SoakTeam,
        watched: &[Watched],
        faces: &mut [FaceProcess],
        options: &Options,
    ) -> Self {
        faces.iter_mut().for_each(|face| drop(face.seen()));
        let memory = || watched.iter().map(|it| resident(it.pid)).collect::<Vec<_>>();
        let used =
            || -> f64 { watched.iter().map(|it| ProcessReading::of(it.pid).cpu_seconds).sum() };
        let (before, used_before, memory_before) = (team.sample(), used(), memory());
        let (started, length) = (Instant::now(), Duration::from_secs(options.seconds));
        let mut most = memory_before.clone();
        while let Some(left) = length.checked_sub(started.elapsed()) {
            std::thread::sleep(left.min(LOOK));
            most = most.into_iter().zip(memory()).map(|(most, now)| most.max(now)).collect();
        }
        let (after, used_after) = (team.sample(), used());
        let seconds = started.elapsed().as_secs_f64();
        let model = after.server.cpu_seconds - before.server.cpu_seconds;
        let growth = |(most, before): (&u64, &u64)| (most - before) as f64;
        Self {
            seen: faces.iter_mut().map(FaceProcess::seen).collect(),
            growths: most.iter().zip(&memory_before).map(growth).collect(),
            load: (used_after - used_before + model) / seconds,
            requests_per_second: after.model.requests as f64 / seconds,
        }
    }

    /// Returns the size of the events of the period, in bytes.
    fn bytes(&self) -> u64 {
        self.seen.iter().map(|seen| seen.bytes).sum()
    }

    fn print(&self, watched: &[Watched], face: &str) {
        let events = self.seen.first().map_or(0, |seen| seen.late_us.len());
        let grew =
            |(it, growth): (&Watched, &f64)| format!("; {} grew {:+.1} MB", it.name, growth / 1e6);
        let grew: String = watched.iter().zip(&self.growths).map(grew).collect();
        println!(
            "  {:>3} {face}s read {events} events ({:.1} MB); {:.0} requests/s; model and measured processes use {:.2} processors{grew}",
            self.seen.len(),
            self.bytes() as f64 / 1e6,
            self.requests_per_second,
            self.load,
        );
    }
}

/// Prints how much each watched process grew by the stopped face, and returns it.
fn print_growths(watched: &[Watched], periods: &[Period; 3], face: &str) -> Vec<f64> {
    let [first, stopped, last] = periods;
    let others =
        first.growths.iter().zip(&last.growths).map(|(first, last)| f64::midpoint(*first, *last));
    let growths: Vec<f64> =
        stopped.growths.iter().zip(others).map(|(stopped, other)| stopped - other).collect();
    for (Watched { name, .. }, growth) in watched.iter().zip(&growths) {
        println!(
            "a stopped {face}: {name} grew {:+.1} MB more than in the other periods; {:.2} of the limit of {:.1} MB; {:.1} MB of events passed it",
            growth / 1e6,
            growth / GROWTH_MOST,
            GROWTH_MOST / 1e6,
            stopped.bytes() as f64 / 1e6,
        );
    }
    growths
}
