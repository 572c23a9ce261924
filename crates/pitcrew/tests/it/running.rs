//! A running process of the binary, and the output of the process.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::patience::PATIENCE;
use crate::test_env::TestEnv;

/// A running process. The output of the process is read as it arrives. At the end of the test, the
/// process is killed.
pub(crate) struct Running {
    child: Child,
    log: Receiver<String>,
}

impl Running {
    pub(crate) fn start(room: &TestEnv, args: &[&str]) -> Self {
        Self::of(&mut room.command(args))
    }

    /// Starts a command. The test reads the log of the command, which is on stderr.
    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = lines_of(child.stderr.take().unwrap());
        Self { child, log }
    }

    /// Starts a command. The test reads the answer of the command, which is on stdout.
    pub(crate) fn answering(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let log = lines_of(child.stdout.take().unwrap());
        Self { child, log }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next line of output, and returns this line.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        self.log.recv_timeout(PATIENCE).expect("it says nothing more")
    }

    /// Waits until new output contains `said`. Output that an earlier call of this function has
    /// read is not searched.
    #[track_caller]
    pub(crate) fn until(&mut self, said: &str) {
        let mut before = String::new();
        while let Ok(line) = self.log.recv_timeout(PATIENCE) {
            if line.contains(said) {
                return;
            }
            before += &format!("{line}\n");
        }
        panic!("it did not say {said:?}:\n{before}");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end of the process. Returns the exit code and the rest of the output. If a
    /// signal ended the process, the exit code is `None`.
    #[track_caller]
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let mut rest = Vec::new();
        loop {
            match self.log.recv_timeout(PATIENCE) {
                Ok(line) => rest.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end:\n{}", rest.join("\n")),
            }
        }
        (self.child.wait().unwrap().code(), rest.join("\n"))
    }

    /// Kills the process, and waits until it has ended.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // In most tests the process has already ended, so the results are ignored.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn lines_of(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, log) = channel();
    let lines = BufReader::new(pipe).lines();
    thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
    log
}
