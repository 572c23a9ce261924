//! Several programs write to one inbox at the same time: four loops of `pitcrew send`, in which
//! some senders are killed, and two programs that use npm's proper-lockfile. Every message must
//! arrive exactly once. The messages of each sender must stay in order.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::test_env::TestEnv;

/// The number of messages that each of the two foreign writers sends. Each of the four loops of
/// `pitcrew send` sends [`OURS`] messages.
const FOREIGN: usize = 500;
const OURS: usize = 250;
const LOOPS: usize = 4;

/// Each time after this number of sends, a loop starts and kills one extra sender.
const KILLED_EVERY: usize = 100;

/// Installs proper-lockfile and returns its folder. If node or npm is missing, or npm cannot
/// install proper-lockfile, prints a message and returns `None`.
fn modules() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("proper-lockfile-4.1.2");
    let modules = folder.join("node_modules");
    let quiet = |command: &mut Command| {
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
    };
    // npm writes this file after all packages, so its presence shows that the installation is
    // complete.
    let is_there = || modules.join(".package-lock.json").is_file();
    let install = || {
        fs::create_dir_all(&folder).unwrap();
        let mut npm = Command::new("npm");
        npm.args([
            "install",
            "--no-audit",
            "--no-fund",
            "--no-save",
            "proper-lockfile@4.1.2",
            "--prefix",
        ])
        .arg(&folder);
        quiet(&mut npm) && is_there()
    };
    if quiet(Command::new("node").arg("--version")) && (is_there() || install()) {
        return Some(modules);
    }
    eprintln!(
        "SKIPPED: without node, npm and their registry the lock is not tested against proper-lockfile"
    );
    None
}

fn foreign_writer(modules: &Path, inbox: &Path, name: &str, style: &str) -> Child {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign_writer.js");
    let mut node = Command::new("node");
    node.arg(script).arg(inbox).args([name, &FOREIGN.to_string(), style]).env("NODE_PATH", modules);
    node.spawn().unwrap()
}

/// Sends messages one after the other. From time to time, this loop starts an extra sender and
/// kills it. The delay before the kill grows each time.
fn send_loop(room: &TestEnv, name: &str, nth: usize) {
    for n in 0..OURS {
        room.ok(&["send", "bob", &format!("{name} {n}"), "--from", name]);
        if (n + 1) % KILLED_EVERY == 0 {
            let victim = format!("{name}-killed");
            let mut victim = room
                .command(&["send", "bob", &format!("{name} {n} killed"), "--from", &victim])
                .spawn()
                .unwrap();
            let (born, age) = (
                Instant::now(),
                Duration::from_millis((n / KILLED_EVERY * LOOPS + nth) as u64 * 3),
            );
            while born.elapsed() < age {
                std::thread::yield_now();
            }
            victim.kill().unwrap();
            victim.wait().unwrap();
        }
    }
}

fn texts_of<'a>(inbox: &'a [Value], from: &str) -> Vec<&'a str> {
    inbox
        .iter()
        .filter(|message| message["from"] == from)
        .map(|message| message["text"].as_str().unwrap())
        .collect()
}

#[test]
fn nothing_is_lost_or_doubled_among_writers_of_both_kinds_and_killed_ones() {
    let Some(modules) = modules() else { return };
    let room = TestEnv::with_crew();
    let limits = r#"{"pitcrew": {"limits": {"callRate": {"count": 100000, "seconds": 60}}}}"#;
    fs::write(room.root().join("settings.json"), limits).unwrap();
    let inbox = room.root().join("teams/crew/inboxes/bob.json");
    fs::write(&inbox, "[]").unwrap();
    let loops: Vec<String> = (0..LOOPS).map(|n| format!("loop-{n}")).collect();
    let mut foreign = [("in-place", "inplace"), ("renaming", "rename")]
        .map(|(name, style)| (name, foreign_writer(&modules, &inbox, name, style)));
    std::thread::scope(|scope| {
        for (nth, name) in loops.iter().enumerate() {
            let room = &room;
            scope.spawn(move || send_loop(room, name, nth));
        }
    });
    for (name, writer) in &mut foreign {
        assert!(writer.wait().unwrap().success(), "{name} failed");
    }
    let all: Vec<Value> = serde_json::from_slice(&fs::read(&inbox).unwrap()).unwrap();
    let expected =
        |name: &str, count: usize| (0..count).map(|n| format!("{name} {n}")).collect::<Vec<_>>();
    for name in &loops {
        assert_eq!(texts_of(&all, name), expected(name, OURS));
        let killed = texts_of(&all, &format!("{name}-killed"));
        let mut once = killed.clone();
        once.dedup();
        assert_eq!(killed, once, "a killed send is there twice");
    }
    for (name, _) in &foreign {
        assert_eq!(texts_of(&all, name), expected(name, FOREIGN));
    }
}
