//! Tests with real processes: how the end of a process is detected, and how all processes that it
//! started are stopped.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pitcrew_process::identity::{ProcessIdentity, Signalled, Stopped};
use rustix::process::Signal;

use crate::patience::{PATIENCE, in_time};

/// Starts a shell in its own process group. The script creates the file `$1` (the path `ready`)
/// when it is ready.
fn shell(script: &str, ready: &Path) -> (Child, ProcessIdentity) {
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).arg("sh").arg(ready).process_group(0);
    let child = command.stdin(Stdio::null()).spawn().unwrap();
    let identity = ProcessIdentity::of(child.id()).unwrap();
    let end = Instant::now() + PATIENCE;
    while !ready.exists() {
        assert!(Instant::now() < end, "it never got ready");
        std::thread::yield_now();
    }
    (child, identity)
}

/// Returns the process whose id is in `file`.
fn named_in(file: &Path) -> ProcessIdentity {
    ProcessIdentity::of(std::fs::read_to_string(file).unwrap().trim().parse().unwrap()).unwrap()
}

/// Starts a thread that waits for a child process, so that the process is reaped as soon as it
/// ends. A terminal does the same for the program in a pane.
fn reaped(mut child: Child) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        child.wait().unwrap();
    })
}

#[tokio::test]
async fn the_end_of_a_killed_process_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let (child, process) = shell("touch $1; exec sleep 1000", &dir.path().join("ready"));
    let watching = tokio::spawn(async move { process.ended().await });
    assert_eq!(process.signal(Signal::KILL).unwrap(), Signalled::Sent);
    in_time("its end is noticed", watching).await.unwrap();
    reaped(child).join().unwrap();
    assert!(!process.is_alive());
    process.ended().await;
    assert_eq!(process.stop(PATIENCE).await, Stopped::WasGone);
}

#[tokio::test]
async fn a_process_that_heeds_term_is_given_the_time_to() {
    let dir = tempfile::tempdir().unwrap();
    let said = dir.path().join("said");
    let script = format!(
        "trap 'echo bye > {}; exit 0' TERM; touch $1; while :; do sleep 0.01; done",
        said.display()
    );
    let (child, process) = shell(&script, &dir.path().join("ready"));
    let reaping = reaped(child);
    assert_eq!(process.stop(PATIENCE).await, Stopped::Ended);
    reaping.join().unwrap();
    assert_eq!(std::fs::read_to_string(said).unwrap(), "bye\n");
}

#[tokio::test]
async fn all_that_a_process_started_is_killed_when_it_does_not_heed_term() {
    let dir = tempfile::tempdir().unwrap();
    let far = dir.path().join("far");
    let script = format!(
        "trap '' TERM; (setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000') & sleep 1000 & \
         while [ ! -e {0} ]; do sleep 0.01; done; touch $1; while :; do sleep 0.01; done",
        far.display()
    );
    let (child, process) = shell(&script, &dir.path().join("ready"));
    let (reaping, far) = (reaped(child), named_in(&far));
    assert_eq!(process.stop(Duration::from_millis(50)).await, Stopped::Ended);
    reaping.join().unwrap();
    assert!(!process.is_alive() && !far.is_alive());
}

#[tokio::test]
async fn nothing_is_done_to_a_process_that_only_has_the_number() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, process) = shell("touch $1; exec sleep 1000", &dir.path().join("ready"));
    let earlier = ProcessIdentity { start_ticks: process.start_ticks - 1, ..process };
    assert_eq!(earlier.stop(Duration::ZERO).await, Stopped::WasGone);
    assert_eq!(earlier.signal(Signal::KILL).unwrap(), Signalled::Gone);
    assert!(process.is_alive() && child.try_wait().unwrap().is_none());
    let reaping = reaped(child);
    assert_eq!(process.stop(PATIENCE).await, Stopped::Ended);
    reaping.join().unwrap();
}
