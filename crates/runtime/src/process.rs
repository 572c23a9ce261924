//! Processes this crate starts, each leading a group of its own, and how all of them are stopped.
//!
//! A command may fork, put children into the background or move them to another session. What it
//! started is found again in three ways: by process group, by descent, and by a tag in the
//! environment that every child inherits. Only processes found so are ever signalled, and each is
//! known by its number *and* its start time, so that a reused number is never hit. Where there is no
//! `/proc` only the group is known.
//!
//! What is run, and what becomes of its output, is left to the callers (the Bash tool, hooks).

use std::collections::HashSet;
use std::fs;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The variable whose value every process of one job carries.
const TAG_VARIABLE: &str = "PITCREW_JOB";

/// How long the pipes are still read after the command itself ended. What it wrote is in the pipe by
/// then; only a grandchild that kept the pipe open can make this last.
const DRAIN_GRACE: Duration = Duration::from_millis(250);

/// How often stopping looks whether everything is gone.
const STOP_TICK: Duration = Duration::from_millis(10);

/// How often what is left is killed again, as it may fork while it is being killed.
const KILL_ROUNDS: usize = 20;

/// Bytes read from a pipe at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// Variables by which an outer git would redirect a git that we start, or a command of an agent.
const GIT_LEAKS: [&str; 6] =
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"];

/// Which of the two pipes a piece of output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// The standard output.
    Stdout,
    /// The standard error.
    Stderr,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The command ended by itself.
    Exited(ExitStatus),
    /// The deadline passed and everything it had started was stopped.
    DeadlinePassed,
    /// It was cancelled and everything it had started was stopped.
    Cancelled,
}

impl Ending {
    /// The exit code a shell would show: 128 plus the number for a signal, none when we stopped it.
    pub fn exit_code(&self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        match self {
            Self::Exited(status) => status.code().or_else(|| status.signal().map(|number| 128 + number)),
            Self::DeadlinePassed | Self::Cancelled => None,
        }
    }
}

/// What a finished job leaves.
#[derive(Debug)]
#[must_use]
pub struct Ended {
    /// How the command ended.
    pub ending: Ending,
    /// Processes it left running, when there are any; dropping this kills them.
    pub left_behind: Option<ProcessGroup>,
}

/// A running command that leads its own process group, with both its pipes.
///
/// Dropping it kills the command and everything it started.
#[derive(Debug)]
pub struct Job {
    /// Stands first, so that it is dropped first: what the command started must be found before the
    /// command itself is killed.
    group: ProcessGroup,
    child: Child,
}

impl Job {
    /// Starts `command` in a process group of its own, without input, with both outputs piped.
    ///
    /// Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// What the system said when the process could not be started.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        let tag = uuid::Uuid::new_v4().to_string();
        for name in GIT_LEAKS {
            command.env_remove(name);
        }
        let child = command
            .env(TAG_VARIABLE, &tag)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let leader = child
            .id()
            .and_then(|number| i32::try_from(number).ok())
            .ok_or_else(|| io::Error::other("the process ended before it was known"))?;
        let group = ProcessGroup::led_by(leader, tag);
        Ok(Self { group, child })
    }

    /// Reads both pipes until the command ends, is cancelled or its deadline passes.
    ///
    /// `sink` is given every piece as it arrives and must not block. Stopping sends TERM, waits
    /// `grace`, then kills.
    ///
    /// # Errors
    /// What the system said when the command could not be waited for.
    pub async fn run(
        mut self,
        deadline: Option<Instant>,
        grace: Duration,
        cancel: &CancellationToken,
        mut sink: impl FnMut(Stream, &[u8]) + Send,
    ) -> io::Result<Ended> {
        let mut stdout = Pipe::new(self.child.stdout.take());
        let mut stderr = Pipe::new(self.child.stderr.take());
        let mut ending = None;
        let mut stop_reading = None;
        while ending.is_none() || stdout.is_open() || stderr.is_open() {
            tokio::select! {
                () = at(stop_reading), if ending.is_some() => break,
                piece = stdout.next() => if let Some(bytes) = piece { sink(Stream::Stdout, bytes) },
                piece = stderr.next() => if let Some(bytes) = piece { sink(Stream::Stderr, bytes) },
                status = self.child.wait(), if ending.is_none() => {
                    ending = Some(Ending::Exited(status?));
                }
                () = at(deadline), if ending.is_none() => {
                    self.group.stop(&mut self.child, grace).await;
                    ending = Some(Ending::DeadlinePassed);
                }
                () = cancel.cancelled(), if ending.is_none() => {
                    self.group.stop(&mut self.child, grace).await;
                    ending = Some(Ending::Cancelled);
                }
            }
            if ending.is_some() && stop_reading.is_none() {
                stop_reading = Some(Instant::now() + DRAIN_GRACE);
            }
        }
        let ending = ending.ok_or_else(|| io::Error::other("the command never ended"))?;
        let left_behind = self.group.after_leader().await;
        Ok(Ended { ending, left_behind })
    }
}

/// Waits for a moment, or for ever when there is none.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// One end of a pipe with the buffer it is read into.
struct Pipe<R> {
    reader: Option<R>,
    buffer: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Pipe<R> {
    fn new(reader: Option<R>) -> Self {
        Self { reader, buffer: vec![0; CHUNK_BYTES] }
    }

    fn is_open(&self) -> bool {
        self.reader.is_some()
    }

    /// The next piece, none when the pipe has just closed; never ready once it is closed.
    async fn next(&mut self) -> Option<&[u8]> {
        let Some(reader) = self.reader.as_mut() else {
            return std::future::pending().await;
        };
        match reader.read(&mut self.buffer).await {
            Ok(count) if count > 0 => self.buffer.get(..count),
            Ok(_) | Err(_) => {
                self.reader = None;
                None
            }
        }
    }
}

/// Every process that one job started and that still runs.
///
/// Dropping it kills them.
#[derive(Debug)]
pub struct ProcessGroup {
    claim: Claim,
    is_gone: bool,
}

/// By what the processes of a job are known.
#[derive(Debug, Clone)]
struct Claim {
    leader: i32,
    tag: String,
    /// While the leader is not reaped its number cannot be reused, so the group is ours.
    owns_group: bool,
    /// What was seen running when the leader had ended.
    survivors: Vec<Identity>,
}

/// A process, told apart from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Identity {
    pid: i32,
    started: u64,
}

impl ProcessGroup {
    fn led_by(leader: i32, tag: String) -> Self {
        let claim = Claim { leader, tag, owns_group: true, survivors: Vec::new() };
        Self { claim, is_gone: false }
    }

    /// Whether anything of it still runs.
    pub async fn is_running(&mut self) -> bool {
        if !self.is_gone {
            self.claim.survivors = self.owned().await;
            self.is_gone = self.claim.survivors.is_empty();
        }
        !self.is_gone
    }

    /// Stops what a command left behind: TERM, `grace`, KILL.
    pub async fn stop_left_behind(mut self, grace: Duration) {
        self.end_all(grace, None).await;
    }

    async fn stop(&mut self, child: &mut Child, grace: Duration) {
        self.end_all(grace, Some(child)).await;
    }

    /// Takes note that the leader ended, and keeps what it left running.
    async fn after_leader(mut self) -> Option<Self> {
        let still_running = self.is_running().await;
        self.claim.owns_group = false;
        still_running.then_some(self)
    }

    async fn end_all(&mut self, grace: Duration, mut child: Option<&mut Child>) {
        let mut left = self.owned().await;
        // Once its parent is gone, one that changed its session and environment is found by this only.
        self.claim.survivors.clone_from(&left);
        self.claim.signal_group(Signal::TERM);
        for process in &left {
            process.signal(Signal::TERM);
        }
        let end_of_grace = Instant::now() + grace;
        while !left.is_empty() && Instant::now() < end_of_grace {
            tokio::time::sleep(STOP_TICK).await;
            left.retain(Identity::is_alive);
        }
        for _ in 0..KILL_ROUNDS {
            self.claim.signal_group(Signal::KILL);
            left = self.owned().await;
            if left.is_empty() {
                break;
            }
            for process in &left {
                process.signal(Signal::KILL);
            }
            tokio::time::sleep(STOP_TICK).await;
        }
        if let Some(child) = child.as_mut() {
            // A process inside an uninterruptible system call cannot be waited for; tokio reaps it later.
            let reaped = tokio::time::timeout(grace, child.wait()).await;
            tracing::debug!(leader = self.claim.leader, ?reaped, "stopped");
        }
        self.claim.owns_group = false;
        self.claim.survivors = left;
        self.is_gone = self.claim.survivors.is_empty();
    }

    /// What runs now; read away from the async threads as it walks the whole process table.
    async fn owned(&self) -> Vec<Identity> {
        let claim = self.claim.clone();
        tokio::task::spawn_blocking(move || claim.owned()).await.unwrap_or_default()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if self.is_gone {
            return;
        }
        let owned = self.claim.owned();
        self.claim.signal_group(Signal::KILL);
        for process in owned {
            process.signal(Signal::KILL);
        }
    }
}

impl Claim {
    fn signal_group(&self, signal: Signal) {
        if !self.owns_group {
            return;
        }
        if let Some(group) = Pid::from_raw(self.leader) {
            // Refused only when the group is empty already.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    fn owned(&self) -> Vec<Identity> {
        let ourselves = rustix::process::getpid().as_raw_nonzero().get();
        let mut others: Vec<Entry> = Entry::all();
        others.retain(|entry| entry.identity.pid != ourselves);
        let mut owned = Vec::new();
        let mut pids = HashSet::new();
        let mut is_first_pass = true;
        loop {
            let (found, rest): (Vec<_>, Vec<_>) = others
                .into_iter()
                .partition(|entry| pids.contains(&entry.parent) || (is_first_pass && self.names(entry)));
            if found.is_empty() {
                return owned;
            }
            pids.extend(found.iter().map(|entry| entry.identity.pid));
            owned.extend(found.iter().map(|entry| entry.identity));
            others = rest;
            is_first_pass = false;
        }
    }

    fn names(&self, entry: &Entry) -> bool {
        (self.owns_group && entry.group == self.leader)
            || self.survivors.contains(&entry.identity)
            || entry.identity.carries(&self.tag)
    }
}

impl Identity {
    fn is_alive(&self) -> bool {
        Entry::read(self.pid).is_some_and(|entry| entry.identity == *self)
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid)
            && self.is_alive()
        {
            // It may end between the look and the signal; then there is nothing left to do.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    fn carries(&self, tag: &str) -> bool {
        let entry = format!("{TAG_VARIABLE}={tag}");
        fs::read(format!("/proc/{}/environ", self.pid))
            .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|variable| variable == entry.as_bytes()))
    }
}

/// When this process started, in clock ticks since boot; 0 where there is no `/proc`.
#[must_use]
pub fn own_start_ticks() -> u64 {
    let own = i32::try_from(std::process::id()).ok().and_then(Entry::read);
    own.map_or(0, |entry| entry.identity.started)
}

/// One line of the process table. A zombie is not in it: it runs no more.
struct Entry {
    identity: Identity,
    parent: i32,
    group: i32,
}

impl Entry {
    fn all() -> Vec<Self> {
        let Ok(folder) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        folder.filter_map(|item| item.ok()?.file_name().to_str()?.parse().ok()).filter_map(Self::read).collect()
    }

    fn read(pid: i32) -> Option<Self> {
        let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(pid, &String::from_utf8_lossy(&bytes))
    }

    /// Reads a line of `/proc/PID/stat`. The name in it may hold spaces and brackets.
    fn parse(pid: i32, line: &str) -> Option<Self> {
        let (_, after_name) = line.rsplit_once(')')?;
        let mut fields = after_name.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let started = fields.nth(16)?.parse().ok()?;
        (!matches!(state, "Z" | "X")).then_some(Self { identity: Identity { pid, started }, parent, group })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_whose_name_holds_brackets_and_spaces_is_read() {
        let line = "7 (a) b (c) S 3 5 5 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2 3";
        let entry = Entry::parse(7, line).unwrap();
        assert_eq!(entry.parent, 3);
        assert_eq!(entry.group, 5);
        assert_eq!(entry.identity.started, 98765);
    }

    #[test]
    fn a_zombie_and_a_torn_line_are_not_running() {
        let zombie = "7 (a) Z 3 5 5 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2 3";
        assert!(Entry::parse(7, zombie).is_none());
        assert!(Entry::parse(7, "7 (a) S 3").is_none());
        assert!(Entry::parse(7, "").is_none());
    }

    #[test]
    fn a_reused_number_is_not_the_same_process() {
        let ourselves = rustix::process::getpid().as_raw_nonzero().get();
        let real = Entry::read(ourselves).unwrap().identity;
        assert!(real.is_alive());
        let earlier = Identity { started: real.started - 1, ..real };
        assert!(!earlier.is_alive());
    }
}
