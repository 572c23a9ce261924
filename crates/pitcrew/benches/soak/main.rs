//! A long run of a large team: whether it is as small and as fast in its last minute as in its
//! first.
//!
//! One lead and its in-process teammates send each other messages all the time, use tools and
//! change tasks. The team is the real binary. Its model is a server on the loopback in a process of
//! its own, so that the server's memory and processor time are not counted as the team's.
//!
//! `--seconds 600` is the long form; it fails when a limit is exceeded. Shorter runs only report.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops where it cannot go on"
)]

mod model;
mod options;
mod process;
mod report;
mod team;

use std::time::{Duration, Instant};

use options::Options;
use report::{Report, Sample};
use team::SoakTeam;

fn main() {
    let options = Options::from_arguments();
    if options.serves_model {
        return model::serve(&options);
    }
    let mut team = SoakTeam::start(&options);
    team.wait_until_all_have_spoken();
    let mut report = Report::new(&options);
    report.add(team.sample());
    let start = Instant::now();
    for window in 1..=options.windows() {
        let end = start + options.window() * window;
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        let sample: Sample = team.sample();
        report.add(sample);
    }
    let took = start.elapsed();
    assert!(took >= Duration::from_secs(options.seconds), "the run was as long as asked for");
    team.stop();
    report.finish();
}
