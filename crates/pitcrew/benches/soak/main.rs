//! A long run of a large team. It shows whether, in the last minute, the team uses more memory or
//! is slower than in the first minute.
//!
//! The team has one lead and teammates in the lead's process. They send each other messages all the
//! time, use tools and change tasks. The benchmark starts the real pitcrew binary to run the team.
//! The model is a server on the loopback interface. The server runs in a separate process, so its
//! memory and processor time are not counted for the team.
//!
//! A long run, for example `--seconds 600`, fails if a limit is exceeded. A shorter run only
//! reports the values.
//!
//! With `--faces 20`, so many processes follow the host of the team, and the benchmark measures how
//! late they learn of its events (module `faces`). With `--pages 20`, so many processes follow the
//! event stream of `pitcrew serve` instead. With `--paint`, the benchmark measures how long a person
//! waits for the terminal interface (module `paint`).

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops where it cannot go on"
)]

mod face;
mod face_process;
mod faces;
mod lateness;
mod model;
mod options;
mod page;
mod page_server;
mod paint;
mod process;
mod report;
mod seen;
mod team;
mod terminal;

use std::time::{Duration, Instant};

use options::{Followed, Options};
use report::{Report, Sample};
use team::SoakTeam;

fn main() {
    let options = Options::from_arguments();
    if options.serves_model {
        return model::serve(&options);
    }
    match &options.follows {
        Some(Followed::Host(root)) => return face::follow_host(root, options.counts_bytes),
        Some(Followed::Server { url, token_file }) => {
            return page::follow_server(url, token_file, options.counts_bytes);
        }
        None => {}
    }
    if options.paints {
        return paint::measure(&options);
    }
    if options.faces > 0 {
        return faces::measure(&options);
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
