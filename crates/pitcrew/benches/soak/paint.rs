//! How long a person waits for the terminal interface: from the start of the process to its first
//! screen, and from a key to its echo. The peer is an interactive bash in a terminal of the same
//! kind, by turns with the interface. Both are measured alone, and with a team at work.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::model::LEAD_MODEL;
use crate::options::Options;
use crate::process::wake_ups;
use crate::team::{SoakTeam, TEAM};
use crate::terminal::Terminal;

/// The number of starts of each program.
const STARTS: usize = 30;

/// The number of keys that are pressed in each program.
const KEYS: usize = 150;

/// The key. No agent writes this letter.
const KEY: &str = "ß";

/// The number of keys after which the line is deleted.
const LINE_KEYS: usize = 50;

/// The pause between two keys.
const BETWEEN_KEYS: Duration = Duration::from_millis(30);

/// The limit of the time to the first screen.
const FIRST_PAINT_MOST: Duration = Duration::from_millis(100);

/// The length of one period in which wake-ups are counted, and the maximum number of periods.
/// Counting stops after the first period without a wake-up, because the last key may still be at
/// work in the first one.
const LOOK: Duration = Duration::from_secs(3);
const LOOKS: usize = 4;

/// The times of one program in one surrounding.
struct Times {
    starts: Vec<Duration>,
    keys: Vec<Duration>,
}

/// Runs the benchmark.
pub(crate) fn measure(options: &Options) {
    let folder = tempfile::tempdir().expect("a folder");
    let git = Command::new("git").args(["init", "-q"]).current_dir(folder.path()).status();
    assert!(git.expect("git").success());
    let model = format!("anthropic/{LEAD_MODEL}");
    let start = ["start", "--model", &model];
    println!("alone, {STARTS} starts and {KEYS} keys");
    let alone = by_turns(options, folder.path(), &start, "What shall the team do?");
    tell_wake_ups(options, folder.path(), &start);
    let mut team = SoakTeam::start(options);
    team.wait_until_all_have_spoken();
    println!("with a team of {} agents at work", options.agents);
    let home = team.root().parent().expect("the root is in a folder").to_owned();
    let attached = by_turns(options, &home, &["attach", TEAM], "working");
    team.stop();
    for first_paint in [alone, attached] {
        assert!(first_paint <= FIRST_PAINT_MOST, "the first screen is late");
    }
}

/// Measures the interface and its peer by turns. Returns the median time to the first screen.
fn by_turns(options: &Options, folder: &Path, args: &[&str], first: &str) -> Duration {
    let binary = options.binary.display().to_string();
    let interface = || started(&binary, args, folder, first);
    let peer = || started("bash", &["--norc", "--noprofile", "-i"], folder, "ready>");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        ours.push(interface().1);
        theirs.push(peer().1);
    }
    let ours = Times { starts: ours, keys: echoes(&mut interface().0) };
    let theirs = Times { starts: theirs, keys: echoes(&mut peer().0) };
    let echo = ("from a key to its echo", "its echo");
    print(echo, ours.keys, theirs.keys, None);
    let first_paint = ("to the first screen", "its prompt");
    print(first_paint, ours.starts, theirs.starts, Some(FIRST_PAINT_MOST))
}

/// Starts a program in a terminal. Returns it with the time until `first` was painted.
fn started(program: &str, args: &[&str], folder: &Path, first: &str) -> (Terminal, Duration) {
    let (mut terminal, start) = Terminal::start(program, args, |command| {
        command.env("CLAUDE_CONFIG_DIR", folder.join("root")).env("HOME", folder);
        command.env("ANTHROPIC_API_KEY", "sk-bench").env("PS1", "ready> ").current_dir(folder);
        command.env_remove("TMUX").env_remove("NO_COLOR");
    });
    let took = terminal.until(first).duration_since(start);
    (terminal, took)
}

fn echoes(terminal: &mut Terminal) -> Vec<Duration> {
    let key = |nth: usize| {
        std::thread::sleep(BETWEEN_KEYS);
        if nth.is_multiple_of(LINE_KEYS) {
            // Ctrl-U deletes the line.
            terminal.press("\u{15}");
            std::thread::sleep(BETWEEN_KEYS);
        }
        terminal.echo(KEY)
    };
    (0..KEYS).map(key).collect()
}

/// Prints the times of the interface beside those of its peer. Returns the median.
fn print(
    (what, peer): (&str, &str),
    mut ours: Vec<Duration>,
    mut theirs: Vec<Duration>,
    limit: Option<Duration>,
) -> Duration {
    let at = |sorted: &[Duration], percent: usize| {
        let at = (sorted.len() * percent / 100).min(sorted.len() - 1);
        sorted.get(at).copied().expect("something was measured")
    };
    ours.sort_unstable();
    theirs.sort_unstable();
    let (p50, peer50) = (at(&ours, 50), at(&theirs, 50));
    let limit = limit.map_or_else(String::new, |limit| {
        format!("; {:.2} of the limit of {limit:.0?}", p50.as_secs_f64() / limit.as_secs_f64())
    });
    println!(
        "  {what}: p50 {p50:.2?}, p99 {:.2?}; bash to {peer}: p50 {peer50:.2?}, p99 {:.2?}; p50/bash {:.1}{limit}",
        at(&ours, 99),
        at(&theirs, 99),
        p50.as_secs_f64() / peer50.as_secs_f64(),
    );
    p50
}

/// Counts the wake-ups of an interface in which nothing happens.
fn tell_wake_ups(options: &Options, folder: &Path, args: &[&str]) {
    let binary = options.binary.display().to_string();
    let (terminal, _) = started(&binary, args, folder, "What shall the team do?");
    let looks = (0..LOOKS).map(|_| {
        let before = wake_ups(terminal.pid());
        std::thread::sleep(LOOK);
        wake_ups(terminal.pid()) - before
    });
    let least = looks.take_while(|woken| *woken > 0).count();
    println!("  idle: {} of {LOOKS} periods of {LOOK:.0?} had wake-ups before one had none", least);
    assert!(least < LOOKS, "the idle interface wakes up");
}
