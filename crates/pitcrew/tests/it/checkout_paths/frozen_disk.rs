//! A disk that does not answer: a file on it is opened, and the read never ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::scene::ENDS;
use crate::patience::until;
use crate::running::Running;
use crate::test_env::TestEnv;

/// A folder that a program serves through FUSE. While the program is stopped, every call waits.
struct Slow {
    at: PathBuf,
    server: Child,
}

impl Slow {
    /// Mounts a folder at a path. Returns `None` if that is not possible on this machine.
    fn new(room: &TestEnv) -> Option<Self> {
        let at = room.work().join("slow");
        let below = room.temporary().join("below");
        fs::create_dir(&at).unwrap();
        fs::create_dir(&below).unwrap();
        fs::write(below.join("file"), "text\n").unwrap();
        let mut mount = Command::new("bindfs");
        mount.args(["-f", "--no-allow-other", "-o", "attr_timeout=0,entry_timeout=0"]);
        let mount = mount.arg(&below).arg(&at).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut slow = Self { server: mount.ok()?, at };
        let mut is_mounted = None;
        until(
            "the folder is mounted, or bindfs has ended",
            || {
                is_mounted = slow.at.join("file").exists().then_some(());
                let has_ended = slow.server.try_wait().unwrap().is_some();
                (is_mounted.is_some() || has_ended).then_some(())
            },
            slow_said,
        );
        is_mounted.map(|()| slow)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.server), signal).unwrap();
    }
}

/// Whether a thread waits for the answer of a file system.
fn is_waiting(thread: &Path) -> bool {
    let place = fs::read_to_string(thread.join("wchan")).unwrap_or_default();
    place.contains("wait_answer") || place.contains("fuse")
}

fn slow_said() -> String {
    "bindfs neither mounts nor ends".to_owned()
}

impl Drop for Slow {
    fn drop(&mut self) {
        let _gone = self.server.kill();
        let _reaped = self.server.wait();
        let _unmounted = Command::new("umount").arg("--lazy").arg(&self.at).status();
    }
}

#[test]
fn term_ends_a_run_that_reads_from_a_disk_that_does_not_answer() {
    let room = TestEnv::new();
    let Some(slow) = Slow::new(&room) else {
        eprintln!("\n!!! SKIPPED: a disk that does not answer: bindfs cannot mount here !!!\n");
        return;
    };
    let model = room.script(
        "agents: {team-lead: [{tools: [{name: TaskList}]}, {delay_ms: 2000, tools: [{name: Read, input: {file_path: slow/file}}]}]}",
    );
    let args = ["run", "go", "--team", "work", "--model", &model, "--yes"];
    let mut run = Running::start(&room, &args);
    run.until("team-lead TaskList");
    slow.signal(Signal::STOP);
    let threads = PathBuf::from(format!("/proc/{}/task", run.id()));
    until(
        "a thread waits for the disk",
        || fs::read_dir(&threads).unwrap().flatten().any(|it| is_waiting(&it.path())).then_some(()),
        || threads.display().to_string(),
    );
    let asked = Instant::now();
    run.signal(Signal::TERM);
    let (code, rest) = run.ended();
    assert_eq!(code, Some(143), "{rest}");
    assert!(asked.elapsed() < ENDS, "{:?}: {rest}", asked.elapsed());
}
