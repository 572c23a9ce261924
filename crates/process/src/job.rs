//! Processes this crate starts, each leading a group of its own, and how all of them are stopped.
//!
//! A command may fork, put children into the background or move them to another session. What it
//! started is found again in three ways: by process group, by descent, and by a tag in the
//! environment that every child inherits. Only processes found so are ever signalled, each by its
//! [`ProcessIdentity`]. Where there is no `/proc` only the group is known.
//!
//! A second tag names the process that started the command, so that what a killed process left behind
//! is found and stopped by another one.
//!
//! What is run, and what becomes of its output, is left to the callers (the Bash tool, hooks).

mod member;
mod tags;

use std::collections::HashSet;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures_util::FutureExt as _;
use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::identity::{Entry, ProcessIdentity, Stopped};
use crate::sandbox::Aftermath;
use tags::{OWNER_VARIABLE, carries, owner_tag};

pub use member::{left_by_member, stop_member_process};
pub use tags::{TAG_VARIABLE, are_started_by_a_tool_of};
pub use tags::{
    is_tagged_by, member_variable, outlives, outlives_variable, owner_variable, runs_member,
    started_by_a_tool,
};

/// How long the pipes are still waited for after the command itself ended. What it wrote is in the pipe by
/// then; only a grandchild that kept the pipe open can make this last.
const DRAIN_GRACE: Duration = Duration::from_millis(250);

/// How much of what then stands in a pipe is read: as much as a pipe can hold, and not all that a grandchild writes meanwhile.
const PIPE_MOST: usize = 1 << 20;

/// How often stopping looks whether everything is gone.
const STOP_TICK: Duration = Duration::from_millis(10);

/// How long what is left is killed again, as it may fork while it is being killed; and a busy machine lets nobody die at
/// once.
const KILL_TIME: Duration = Duration::from_secs(5);

/// Bytes read from a pipe at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// Variables by which an outer git would redirect a git that we start, or a command of an agent.
const GIT_LEAKS: [&str; 6] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
];

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
            Self::Exited(status) => {
                status.code().or_else(|| status.signal().map(|number| 128 + number))
            }
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
    child: Reaped,
    pipes: (Option<ChildStdout>, Option<ChildStderr>),
}

/// A child that is waited for also when it is dropped while it runs, so that it leaves no zombie.
///
/// Tokio alone looks after such a child when its driver next wakes, and that of an idle process may sleep for hours.
#[derive(Debug)]
pub struct Reaped(Option<Child>);

impl Reaped {
    /// Takes over a child that was started with `kill_on_drop`.
    pub fn new(child: Child) -> Self {
        Self(Some(child))
    }

    /// Waits until it ends.
    ///
    /// # Errors
    /// What the system said.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        match &mut self.0 {
            Some(child) => child.wait().await,
            None => Err(io::Error::other("the process was let go")),
        }
    }
}

impl Drop for Reaped {
    fn drop(&mut self) {
        let Some(mut child) = self.0.take() else { return };
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        // Without a runtime this process is about to end, and its children are waited for by another.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let reaped = child.kill().await;
                tracing::debug!(?reaped, "a process that nobody waits for has ended");
            });
        }
    }
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
        let mut child = command
            .env(TAG_VARIABLE, &tag)
            .envs([owner_variable()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let leader =
            child.id().ok_or_else(|| io::Error::other("the process ended before it was known"))?;
        let leader =
            ProcessIdentity::of(leader).unwrap_or(ProcessIdentity { pid: leader, start_ticks: 0 });
        let group = ProcessGroup::led_by(leader, &tag);
        let pipes = (child.stdout.take(), child.stderr.take());
        Ok(Self { group, child: Reaped::new(child), pipes })
    }

    /// Leaves to be done what has to be when the command and all it left running have ended.
    pub fn with_aftermath(mut self, aftermath: Aftermath) -> Self {
        self.group.aftermath = Some(aftermath);
        self
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
        let mut stdout = Pipe::new(self.pipes.0.take());
        let mut stderr = Pipe::new(self.pipes.1.take());
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
        stdout.rest(|bytes| sink(Stream::Stdout, bytes));
        stderr.rest(|bytes| sink(Stream::Stderr, bytes));
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

    /// Reads what stands in the pipe now. Where we come to read it late, the time to wait for it is over, and it is there.
    fn rest(&mut self, mut sink: impl FnMut(&[u8])) {
        let mut room = PIPE_MOST;
        while room > 0 {
            let Some(Some(bytes)) = tokio::task::coop::unconstrained(self.next()).now_or_never()
            else {
                return;
            };
            room = room.saturating_sub(bytes.len());
            sink(bytes);
        }
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
    /// Done with it.
    aftermath: Option<Aftermath>,
}

/// By what the processes of a job are known.
#[derive(Debug, Clone)]
struct Claim {
    leader: ProcessIdentity,
    hold: Hold,
    /// What stands in the environment of all of them.
    mark: String,
    /// The tag of the member that the leader ran: what it started carries it too.
    member: Option<String>,
    /// What was seen running when the leader had ended.
    survivors: Vec<ProcessIdentity>,
}

/// Why the number of the leader means the leader's group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// The leader is our child and not reaped, so that its number cannot be given again.
    Child,
    /// The leader is somebody else's child: for as long as it is seen alive.
    Stranger,
    /// It does not any more.
    None,
}

impl ProcessGroup {
    fn led_by(leader: ProcessIdentity, tag: &str) -> Self {
        let mark = format!("{TAG_VARIABLE}={tag}");
        let claim = Claim { leader, hold: Hold::Child, mark, member: None, survivors: Vec::new() };
        Self { claim, is_gone: false, aftermath: None }
    }

    /// A process that is not our child with all that it started, also when it is gone itself. Dropping it kills them.
    pub fn of_stranger(process: ProcessIdentity) -> Self {
        Self { claim: Claim::on_stranger(process), is_gone: false, aftermath: None }
    }

    /// Whether anything of it still runs.
    pub async fn is_running(&mut self) -> bool {
        if !self.is_gone {
            self.claim.survivors = self.owned().await;
            self.is_gone = self.claim.survivors.is_empty();
        }
        !self.is_gone
    }

    /// What of it was seen running when it was looked at last.
    pub fn members(&self) -> &[ProcessIdentity] {
        &self.claim.survivors
    }

    /// Stops what a command left behind: TERM, `grace`, KILL.
    pub async fn stop_left_behind(mut self, grace: Duration) {
        self.end_all(grace, None).await;
    }

    /// Stops all of it and tells what came of it.
    pub async fn stop_all(mut self, grace: Duration) -> Stopped {
        if !self.is_running().await {
            return Stopped::WasGone;
        }
        self.end_all(grace, None).await;
        let stopped = if self.is_gone { Stopped::Ended } else { Stopped::StillRunning };
        // What could not be killed now is not killed by trying once more.
        self.is_gone = true;
        stopped
    }

    async fn stop(&mut self, child: &mut Reaped, grace: Duration) {
        self.end_all(grace, Some(child)).await;
    }

    /// Takes note that the leader ended, and keeps what it left running.
    async fn after_leader(mut self) -> Option<Self> {
        let mut still_running = self.is_running().await;
        if self.aftermath.as_ref().is_some_and(Aftermath::ends_all) {
            // The kernel is about to end them.
            let end_of_waiting = Instant::now() + KILL_TIME;
            while still_running && Instant::now() < end_of_waiting {
                tokio::time::sleep(STOP_TICK).await;
                still_running = self.is_running().await;
            }
        }
        // A look for nothing when it fails, and the next one does it.
        let _reaped = tokio::task::spawn_blocking(reap_adopted).await;
        self.claim.hold = Hold::None;
        still_running.then_some(self)
    }

    async fn end_all(&mut self, grace: Duration, mut child: Option<&mut Reaped>) {
        let mut left = self.owned().await;
        // Once its parent is gone, one that changed its session and environment is found by this only.
        self.claim.survivors.clone_from(&left);
        self.claim.signal_group(Signal::TERM);
        signal_all(&left, Signal::TERM);
        let end_of_grace = Instant::now() + grace;
        while !left.is_empty() && Instant::now() < end_of_grace {
            tokio::time::sleep(STOP_TICK).await;
            left.retain(ProcessIdentity::is_alive);
        }
        let end_of_killing = Instant::now() + KILL_TIME;
        loop {
            self.claim.signal_group(Signal::KILL);
            left = self.owned().await;
            if left.is_empty() || Instant::now() > end_of_killing {
                break;
            }
            signal_all(&left, Signal::KILL);
            tokio::time::sleep(STOP_TICK).await;
        }
        if let Some(child) = child.as_mut() {
            // A process inside an uninterruptible system call cannot be waited for; tokio reaps it later.
            let reaped = tokio::time::timeout(grace, child.wait()).await;
            tracing::debug!(leader = %self.claim.leader, ?reaped, "stopped");
        }
        let _reaped = tokio::task::spawn_blocking(reap_adopted).await;
        self.claim.hold = Hold::None;
        self.claim.survivors = left;
        self.is_gone = self.claim.survivors.is_empty();
    }

    /// What runs now; read away from the async threads as it walks the whole process table.
    async fn owned(&self) -> Vec<ProcessIdentity> {
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
        signal_all(&owned, Signal::KILL);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(reap_killed(owned));
        }
    }
}

impl Claim {
    fn on_stranger(process: ProcessIdentity) -> Self {
        let mark = format!("{OWNER_VARIABLE}={}", owner_tag(process));
        Self { leader: process, hold: Hold::Stranger, mark, member: None, survivors: vec![process] }
    }

    fn signal_group(&self, signal: Signal) {
        if !self.owns_group() {
            return;
        }
        if let Some(group) = self.leader.number() {
            // Refused only when the group is empty already, or is another user's.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    fn owns_group(&self) -> bool {
        match self.hold {
            Hold::Child => true,
            Hold::Stranger => Entry::read(self.leader.pid).is_some_and(|entry| {
                entry.identity == self.leader && entry.group == self.leader.pid
            }),
            Hold::None => false,
        }
    }

    fn owned(&self) -> Vec<ProcessIdentity> {
        let (ourselves, owns_group) = (std::process::id(), self.owns_group());
        let is_left = |entry: &Entry| {
            entry.parent == self.leader.pid && outlives(entry.identity.pid, self.leader)
        };
        let mut others: Vec<Entry> = Entry::all();
        others.retain(|entry| entry.identity.pid != ourselves);
        let mut owned = Vec::new();
        let mut pids = HashSet::new();
        let mut is_first_pass = true;
        loop {
            let (found, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(|entry| {
                let descends = pids.contains(&entry.parent) && !is_left(entry);
                descends || (is_first_pass && self.names(entry, owns_group))
            });
            if found.is_empty() {
                return owned;
            }
            pids.extend(found.iter().map(|entry| entry.identity.pid));
            owned.extend(found.iter().map(|entry| entry.identity));
            others = rest;
            is_first_pass = false;
        }
    }

    fn names(&self, entry: &Entry, owns_group: bool) -> bool {
        (owns_group && entry.group == self.leader.pid)
            || self.survivors.contains(&entry.identity)
            || carries(entry.identity.pid, &self.mark)
            || self.member.as_ref().is_some_and(|member| carries(entry.identity.pid, member))
    }
}

/// What a process that is not our child started and left running, and it itself while it runs.
pub async fn left_by(process: ProcessIdentity) -> Vec<ProcessIdentity> {
    // Read away from the async threads as it walks the whole process table.
    let owned = tokio::task::spawn_blocking(move || Claim::on_stranger(process).owned());
    owned.await.unwrap_or_default()
}

/// Lets go of the numbers of children that have ended and were not started by us but adopted: where this process adopts
/// what commands move out of sight. For those we start ourselves tokio waits.
fn reap_adopted() {
    let Some(this) = Entry::read(std::process::id()) else { return };
    for number in this.ended_and_adopted().iter().filter_map(ProcessIdentity::number) {
        let reaped = rustix::process::waitpid(Some(number), rustix::process::WaitOptions::NOHANG);
        tracing::debug!(?number, ?reaped, "an adopted process has ended");
    }
}

/// Waits until all of them have ended, and lets go of the numbers of those that were adopted when their parents were killed.
async fn reap_killed(killed: Vec<ProcessIdentity>) {
    let ends = killed.iter().map(ProcessIdentity::ended);
    if tokio::time::timeout(KILL_TIME, futures_util::future::join_all(ends)).await.is_err() {
        tracing::debug!(?killed, "not all have ended");
    }
    // A look for nothing when it fails, and the next one does it.
    let _reaped = tokio::task::spawn_blocking(reap_adopted).await;
}

/// They may end between the look and the signal; then there is nothing left to do. One that is another user's is told by
/// still being there after.
fn signal_all(processes: &[ProcessIdentity], signal: Signal) {
    for process in processes {
        if let Err(error) = process.signal(signal) {
            tracing::debug!(%process, %error, "cannot be signalled");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A command that is answered late: whoever takes its output is held up, each time for longer than the pipes are waited
    /// for.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_a_command_wrote_is_read_however_late_it_is_read() {
        const WRITTEN: usize = 60_000;
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("head -c {WRITTEN} /dev/zero; head -c {WRITTEN} /dev/zero >&2")]);
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
    /// Nothing else happens in the process meanwhile: a timer or a read would have tokio look after it by chance.
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
}
