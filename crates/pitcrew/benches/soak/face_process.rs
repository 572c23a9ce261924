//! The processes of the faces, as the benchmark sees them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::page_server::PageServer;
use crate::seen::Seen;

/// The time that a stopped face may take to learn everything after it goes on.
const CATCHES_UP_WITHIN: Duration = Duration::from_secs(10);

/// A face, in a process of its own.
pub(crate) struct FaceProcess {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl FaceProcess {
    /// Starts so many faces, and waits until each has the state of the host. With a server they are
    /// pages. The first one counts bytes.
    pub(crate) fn start_all(count: usize, root: &Path, server: Option<&PageServer>) -> Vec<Self> {
        let faces: Vec<Self> = (0..count)
            .map(|nth| {
                let mut command = Command::new(std::env::current_exe().expect("this program"));
                match server {
                    Some(server) => server.add_follower_arguments(&mut command),
                    None => _ = command.arg("--follow-host").arg(root),
                }
                if nth == 0 {
                    command.arg("--count-bytes");
                }
                Self::start(&mut command)
            })
            .collect();
        faces.into_iter().map(Self::attached).collect()
    }

    fn start(command: &mut Command) -> Self {
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a face");
        let questions = process.stdin.take().expect("a pipe");
        let answers = BufReader::new(process.stdout.take().expect("a pipe"));
        Self { process, questions, answers }
    }

    /// Waits until the face has the state of the host.
    fn attached(mut self) -> Self {
        let _first = self.answer();
        self
    }

    /// Returns what the face has seen since the last call.
    pub(crate) fn seen(&mut self) -> Seen {
        writeln!(self.questions).expect("the face lives");
        self.answer()
    }

    fn answer(&mut self) -> Seen {
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the face lives");
        serde_json::from_str(&answer).expect("an answer")
    }

    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets the stopped face go on, and waits until it has the events that `other` has now. Returns
    /// what it saw on the way.
    pub(crate) fn go_on(&mut self, other: &mut Self) -> Seen {
        self.signal(Signal::CONT);
        let (next_seq, started) = (other.seen().next_seq, Instant::now());
        let mut all = Seen::default();
        loop {
            let seen = self.seen();
            all.snapshots += seen.snapshots;
            all.reconnects += seen.reconnects;
            if seen.next_seq >= next_seq {
                return all;
            }
            assert!(started.elapsed() < CATCHES_UP_WITHIN, "the stopped face stays behind");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).expect("the face lives");
    }
}

impl Drop for FaceProcess {
    fn drop(&mut self) {
        // The process may have ended already, so the result is ignored.
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}
