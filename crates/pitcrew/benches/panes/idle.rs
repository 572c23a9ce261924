//! Measures the cost of an idle teammate that has its own process: its memory, and its wake-ups
//! while nothing happens.
//!
//! The limits are 15 MB of resident memory for each teammate, and no wake-up in the last measured
//! period. Half of the teammates run in panes and draw their view on a terminal. The other half
//! joined the team with `pitcrew join` and write a log, because they have no terminal. Every
//! teammate has had one turn before the measurement.

use std::process::{Child, Stdio};
use std::time::Duration;

use crate::process::{Memory, threads, wake_ups};
use crate::stage::Stage;

/// The number of teammates in panes. The same number of teammates joined with `pitcrew join`.
const TEAMMATES: usize = 8;

/// The length of one period in which wake-ups are counted.
const LOOK: Duration = Duration::from_secs(5);

/// The maximum number of periods. Counting stops after the first period without a wake-up. In the
/// first periods there may be wake-ups, because the lead still reads its messages after the last
/// turn.
const LOOKS: usize = 5;

const LIMIT_MB: f64 = 15.0;

pub(crate) fn run() {
    let mut stage = Stage::new();
    for _ in 0..TEAMMATES {
        stage.spawn();
    }
    let mates = stage.mates();
    assert_eq!(mates.len(), TEAMMATES, "every teammate has a pane");
    tell("in panes, with a terminal's view", &mates);
    let mut joined: Vec<Child> =
        (0..TEAMMATES).map(|n| join(&mut stage, &format!("j{n}"))).collect();
    tell("joined, with a log", &joined.iter().map(Child::id).collect::<Vec<_>>());
    for child in &mut joined {
        child.kill().and_then(|()| child.wait().map(|_| ())).expect("it ends");
    }
}

fn join(stage: &mut Stage, name: &str) -> Child {
    let mut join = stage.pitcrew();
    join.args([
        "join",
        "bench",
        "--as",
        name,
        "--model",
        "anthropic/mate",
        "--permission-mode",
        "bypassPermissions",
    ]);
    let child = join.stderr(Stdio::null()).spawn().expect("it joins");
    stage.model.asked("mate").say(crate::model::Say::Text("Done."));
    stage.wait_for_idle(name);
    child
}

fn tell(who: &str, pids: &[u32]) {
    let woken = || -> u64 { pids.iter().map(|pid| wake_ups(*pid)).sum() };
    let mut in_look = 0;
    for _ in 0..LOOKS {
        let before = woken();
        std::thread::sleep(LOOK);
        in_look = woken() - before;
        if in_look == 0 {
            break;
        }
    }
    let memory: Vec<Memory> = pids.iter().map(|pid| Memory::of(*pid)).collect();
    let most = |part: fn(&Memory) -> f64| memory.iter().map(part).fold(0.0, f64::max);
    let resident = most(|memory| memory.resident);
    println!("{} idle teammates {who}, each a process", pids.len());
    println!(
        "  the largest: resident {resident:.1} MB, of it private {:.1} MB, proportional {:.1} MB   limit {LIMIT_MB} MB   ratio {:.2}",
        most(|memory| memory.private),
        most(|memory| memory.proportional),
        resident / LIMIT_MB
    );
    println!(
        "  threads of each: {}   wake-ups of any thread of any in {LOOK:.0?}: {in_look}   limit 0",
        pids.iter().map(|pid| threads(*pid)).max().unwrap_or_default()
    );
}
