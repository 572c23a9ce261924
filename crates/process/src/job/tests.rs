//! Tests of jobs and of the processes that jobs leave running.

use std::fs;

use super::*;

/// Tests that a job delivers the complete output of a command to a slow receiver. The receiver
/// blocks for longer than the time that the job has for reading the pipes after the command has
/// ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_a_command_wrote_is_read_however_late_it_is_read() {
    const WRITTEN: usize = 60_000;
    let mut command = Command::new("sh");
    command.args(["-c", &format!("head -c {WRITTEN} /dev/zero; head -c {WRITTEN} /dev/zero >&2")]);
    let job = Job::spawn(&mut command).unwrap();
    let mut read = 0;
    let late = |_: Stream, bytes: &[u8]| {
        read += bytes.len();
        std::thread::sleep(DRAIN_GRACE + STOP_TICK);
    };
    let ended = job.run(None, Duration::ZERO, &CancellationToken::new(), late).await.unwrap();
    assert_eq!(ended.ending.exit_code(), Some(0));
    assert_eq!(read, 2 * WRITTEN);
}
/// Tests that a dropped job leaves no zombie. The test does nothing else meanwhile: a timer or a
/// read would wake tokio, and tokio could then reap the child by chance.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_command_that_is_let_go_leaves_no_zombie_in_an_idle_process() {
    for _ in 0..20 {
        let mut command = Command::new("sleep");
        let job = Job::spawn(command.arg("1000")).unwrap();
        let pid = job.group.claim.leader.pid;
        drop(job);
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) {
            assert!(std::time::Instant::now() < deadline, "{status}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
