//! Measures the time that a spawn of a teammate in a pane takes. The time begins when the lead's
//! model calls the spawn tool, and ends when the teammate's first model request arrives.
//!
//! In 95 of 100 spawns, the time must be at most 150 ms. The benchmark also measures two steps that
//! are part of every spawn: tmux makes a pane, and a pitcrew process starts and ends. The benchmark
//! measures these two steps after each spawn.

use std::time::Duration;

use crate::stage::{Stage, percentile, succeeds, tmux};

/// The number of teams, and the number of teammates in each team. The teammates are spawned one
/// after the other. The teammates that were spawned before wait meanwhile.
const TEAMS: usize = 5;
const TEAMMATES: usize = 8;

const LIMIT: Duration = Duration::from_millis(150);

pub(crate) fn run() {
    let (mut spawns, mut panes, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TEAMS {
        let mut stage = Stage::new();
        for _ in 0..TEAMMATES {
            spawns.push(stage.spawn());
            panes.push(succeeds(tmux(stage.path()).args([
                "split-window",
                "-d",
                "-t",
                "user:",
                "true",
            ])));
            starts.push(succeeds(stage.pitcrew().arg("--version")));
        }
    }
    for times in [&mut spawns, &mut panes, &mut starts] {
        times.sort_unstable();
    }
    let (p50, p95) = (percentile(&spawns, 50), percentile(&spawns, 95));
    let (pane, start) = (percentile(&panes, 50), percentile(&starts, 50));
    println!(
        "spawn to first model request, teammate in a tmux pane, {} spawns in teams of {TEAMMATES}",
        spawns.len()
    );
    println!(
        "  p50 {p50:.1?}   p95 {p95:.1?}   fastest {:.1?}   limit {LIMIT:.0?}   p95/limit {:.2}",
        percentile(&spawns, 0),
        p95.as_secs_f64() / LIMIT.as_secs_f64()
    );
    println!(
        "  tmux split-window {pane:.1?}   pitcrew --version {start:.1?}   p50/both {:.1}",
        p50.as_secs_f64() / (pane + start).as_secs_f64()
    );
}
