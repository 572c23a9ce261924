//! Measures the time that the whole process `pitcrew send` takes, and the time until its message is
//! in a conversation of a running team.
//!
//! There are two limits:
//!
//! - The median time of `pitcrew send` is at most the sum of two values: three times the median
//!   time of `git --version`, and the median time of one durable write.
//! - In 99 of 100 cases, a message is in the conversation at most 20 ms after `pitcrew send` has
//!   stored it.
//!
//! The benchmark measures all of these times in turn in the same run, because other programs that
//! use the machine then affect all of the times alike.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops where it cannot go on"
)]

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const SENDS: usize = 200;
const LIMIT: Duration = Duration::from_millis(20);

const TEAM: &str = "
agents:
  team-lead:
    - tools:
        - {name: Task, input: {name: bob, subagent_type: general-purpose, description: Wait, prompt: Wait.}}
    - tools:
        - {name: Bash, input: {command: sleep 600, timeout: 600000}}
  bob:
    - wait_for: {contains: never said}
";

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    std::fs::write(root.join("script.yaml"), TEAM).expect("a script");
    let settings = r#"{"pitcrew": {"limits": {"callRate": {"count": 1000000, "seconds": 1}}}}"#;
    std::fs::write(root.join("settings.json"), settings).expect("settings");
    let mut team = start(root);
    let journal = root.join("teams/bench/pitcrew/journal.ndjson");
    wait_for(&journal, |entry| entry["member"] == "bob" && entry["state"] == "idle", 1);
    let (mut sends, mut gits, mut writes) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..SENDS {
        gits.push(timed(Command::new("git").arg("--version")));
        sends.push(timed(pitcrew(root).args([
            "send",
            "--team",
            "bench",
            "bob",
            &format!("message {n}"),
        ])));
        writes.push(durable_write(root, &root.join("teams/bench/inboxes/bob.json")));
        wait_for(
            &journal,
            |entry| entry["event"] == "message_acknowledged" && entry["to"] == "bob",
            n + 1,
        );
    }
    team.kill().and_then(|()| team.wait()).expect("the run ends");
    let (send, git, write) = (median(&mut sends), median(&mut gits), median(&mut writes));
    let allowed = 3 * git + write;
    println!("pitcrew send as a whole process, {SENDS} times, medians");
    println!(
        "  send {send:.2?}   git --version {git:.2?}   durable write {write:.2?}   3 x git + write {allowed:.2?}   ratio {:.2}",
        send.as_secs_f64() / allowed.as_secs_f64()
    );
    let mut waits = delays(&journal);
    waits.sort_unstable();
    let at = |percent: usize| {
        waits.get((waits.len() * percent / 100).min(waits.len() - 1)).copied().unwrap_or_default()
    };
    println!(
        "pitcrew send to a running team, persisted to injected, from its journal (to the millisecond)"
    );
    println!(
        "  p50 {:.2?}   p99 {:.2?}   limit {LIMIT:.2?}   p99/limit {:.2}",
        at(50),
        at(99),
        at(99).as_secs_f64() / LIMIT.as_secs_f64()
    );
}

fn pitcrew(root: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pitcrew"));
    command.arg("--root").arg(root).current_dir(root).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn start(root: &Path) -> Child {
    let model = format!("script:{}", root.join("script.yaml").display());
    let mut run = pitcrew(root);
    run.args([
        "run",
        "wait",
        "--team",
        "bench",
        "--model",
        &model,
        "--permission-mode",
        "bypassPermissions",
    ]);
    run.stderr(Stdio::null()).spawn().expect("a run")
}

fn timed(command: &mut Command) -> Duration {
    let start = Instant::now();
    let status = command.stdout(Stdio::null()).status().expect("a process");
    assert!(status.success(), "{command:?}");
    start.elapsed()
}

/// Durably writes a file of the same size as the file `like`: syncs the file, renames it and syncs
/// the folder. Returns the time that the write took.
fn durable_write(folder: &Path, like: &Path) -> Duration {
    let bytes = std::fs::read(like).expect("an inbox");
    let (temporary, target) = (folder.join("raw.tmp"), folder.join("raw"));
    let start = Instant::now();
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&temporary)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        std::fs::rename(&temporary, &target)?;
        File::open(folder)?.sync_all()
    };
    write().expect("a durable write");
    start.elapsed()
}

fn entries(journal: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(journal).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn wait_for(journal: &Path, wanted: impl Fn(&Value) -> bool, times: usize) {
    let start = Instant::now();
    while entries(journal).iter().filter(|entry| wanted(entry)).count() < times {
        assert!(start.elapsed() < Duration::from_secs(30), "what was waited for did not happen");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns a time for each message to bob. It is the time between two journal entries: the message
/// is stored in the inbox, and the message is added to the conversation.
fn delays(journal: &Path) -> Vec<Duration> {
    let entries = entries(journal);
    let at = |entry: &Value| entry["at_ms"].as_i64().unwrap_or_default();
    let of = |event: &'static str| {
        entries.iter().filter(move |entry| entry["event"] == event && entry["to"] == "bob")
    };
    let injected: std::collections::HashMap<String, i64> =
        of("message_injected").map(|entry| (entry["id"].to_string(), at(entry))).collect();
    let delay = |entry: &Value| injected.get(&entry["id"].to_string()).map(|then| then - at(entry));
    of("message_persisted")
        .filter_map(delay)
        .map(|ms| Duration::from_millis(ms.max(0).unsigned_abs()))
        .collect()
}

fn median(values: &mut [Duration]) -> Duration {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}
