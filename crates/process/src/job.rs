//! Starts processes, each as the leader of its own process group, and stops each one together with
//! all processes that it started.
//!
//! A command may fork, put children into the background, or move them to another session of the
//! operating system. This module therefore finds the processes that a command started in three
//! ways: by process group, by parent process, and by a tag in the environment that every child
//! inherits. Signals are sent only to processes found this way. A [`ProcessIdentity`] makes sure
//! that a signal does not reach a different process with the same process id. On systems without
//! `/proc`, only the process group is known.
//!
//! A second tag names the process that started the command. If the starting process is killed,
//! another process can still find and stop the processes that the command started.
//!
//! The callers (the Bash tool, hooks) decide which commands run and how their output is used.

mod member;
mod tags;

use std::collections::HashSet;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures_util::FutureExt as _;
use rustix::process::Signal;
use tags::{OWNER_VARIABLE, carries, owner_tag};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::identity::{Entry, ProcessIdentity, Stopped};
use crate::sandbox::Aftermath;

pub use member::{left_by_member, stop_member_process};
pub use tags::{TAG_VARIABLE, are_started_by_a_tool_of};
pub use tags::{
    is_tagged_by, member_variable, outlives, outlives_variable, owner_variable, runs_member,
    started_by_a_tool,
};

/// How long the pipes are read after the command has ended. At the end of the command, all its
/// output is already in the pipes. A pipe stays open longer only if a process that the command
/// started keeps it open. Reading then stops after this time.
const DRAIN_GRACE: Duration = Duration::from_millis(250);

/// Maximum number of bytes read from a pipe after `DRAIN_GRACE`. By default, a pipe on Linux cannot
/// hold more than this. Without a limit, a process that keeps writing could prolong the read
/// forever.
const PIPE_MOST: usize = 1 << 20;

/// Interval for checking whether all processes have ended.
const STOP_TICK: Duration = Duration::from_millis(10);

/// How long to repeat KILL for the remaining processes. These processes may fork while they are
/// killed, and on a busy machine a killed process needs time to end.
const KILL_TIME: Duration = Duration::from_secs(5);

/// Maximum number of bytes read from a pipe at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// The environment variables that are removed from the environment of every command that pitcrew
/// starts. Git sets these variables for its hooks, and pitcrew inherits them when it runs in a git
/// hook. With them, a git command started by pitcrew or by an agent would use the wrong repository.
const GIT_LEAKS: [&str; 6] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
];

/// The output stream that a piece of output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// The standard output.
    Stdout,
    /// The standard error.
    Stderr,
}

/// How a job ended: by itself, or because pitcrew stopped it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The command ended by itself.
    Exited(ExitStatus),
    /// The deadline passed. Pitcrew stopped the command and all processes that the command had
    /// started.
    DeadlinePassed,
    /// The job was cancelled. Pitcrew stopped the command and all processes that the command had
    /// started.
    Cancelled,
}

impl Ending {
    /// Returns the exit code as a shell reports it. For a command that a signal ended, this is 128
    /// plus the signal number. Returns `None` if pitcrew stopped the command.
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

/// The result of a finished job.
#[derive(Debug)]
#[must_use]
pub struct Ended {
    /// How the command ended.
    pub ending: Ending,
    /// The processes that the command left running, if any. Dropping this value kills these
    /// processes.
    pub left_behind: Option<ProcessGroup>,
}

/// A running command that leads its own process group, with pipes for stdout and stderr.
///
/// Dropping the job kills the command and all processes it started.
#[derive(Debug)]
pub struct Job {
    /// Must be the first field, so that it is dropped first. The processes that the command started
    /// must be found before the command itself is killed.
    group: ProcessGroup,
    child: Reaped,
    pipes: (Option<ChildStdout>, Option<ChildStderr>),
}

/// A child process that is always reaped, so that no zombie is left. If this value is dropped while
/// the child runs, a background task reaps the child.
///
/// Tokio would reap such a child only when its driver wakes up again. In an idle process that may
/// take hours.
#[derive(Debug)]
pub struct Reaped(Option<Child>);

impl Reaped {
    /// Takes over a child that was started with `kill_on_drop`.
    pub fn new(child: Child) -> Self {
        Self(Some(child))
    }

    /// Waits until the child ends.
    ///
    /// # Errors
    /// The error of the operating system.
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
        // If there is no tokio runtime, this process is about to end. The child then gets a new
        // parent process, which reaps it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let reaped = child.kill().await;
                tracing::debug!(?reaped, "a process that nobody waits for has ended");
            });
        }
    }
}

impl Job {
    /// Starts `command` in its own process group. Its standard input is empty, and stdout and
    /// stderr are pipes.
    ///
    /// Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// The error of the operating system if the process cannot be started.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        // If pitcrew runs inside a git hook, these variables point to the repository of that hook.
        for name in GIT_LEAKS {
            command.env_remove(name);
        }
        Self::spawn_git(command)
    }

    /// Starts pitcrew's own git, which gets the variables of git that are set for it. Otherwise the
    /// same as [`Self::spawn`].
    pub(crate) fn spawn_git(command: &mut Command) -> io::Result<Self> {
        let tag = uuid::Uuid::new_v4().to_string();
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

    /// Sets the cleanup that runs when the command and all processes that it left running have
    /// ended.
    pub fn with_aftermath(mut self, aftermath: Aftermath) -> Self {
        self.group.aftermath = Some(aftermath);
        self
    }

    /// Returns the process of the command. It leads the process group of the job.
    pub(crate) fn leader(&self) -> ProcessIdentity {
        self.group.claim.leader
    }

    /// Reads both pipes until the command ends, is cancelled or reaches its deadline.
    ///
    /// `sink` receives every piece of output as it arrives and must not block. At the deadline or
    /// on cancellation, this function stops the command and all processes that the command started:
    /// it sends TERM, waits `grace`, then sends KILL.
    ///
    /// # Errors
    /// The error of the operating system if waiting for the command fails.
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

/// Waits until the given moment, or forever if `moment` is `None`.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// The reading end of a pipe and its buffer.
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

    /// Reads the data that is in the pipe now, without waiting. This is needed if this task is
    /// scheduled so late that the time for reading has already passed.
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

    /// Returns the next piece of data, or `None` when the pipe closes. Calls after that never
    /// complete.
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

/// All processes that one job started and that still run.
///
/// Dropping this value kills these processes.
#[derive(Debug)]
pub struct ProcessGroup {
    claim: Claim,
    is_gone: bool,
    /// The cleanup that runs when this value is dropped.
    aftermath: Option<Aftermath>,
}

/// The attributes by which the processes of a job are recognized.
#[derive(Debug, Clone)]
struct Claim {
    leader: ProcessIdentity,
    hold: Hold,
    /// The environment entry that all processes of the job inherit.
    mark: String,
    /// The environment entry with the tag of a team member. It is set only if the leader of the
    /// process group runs a member with another client than pitcrew. The processes that this client
    /// started inherit the entry.
    member: Option<String>,
    /// The processes that were still running at the last check.
    survivors: Vec<ProcessIdentity>,
}

/// States whether the leader's process id still identifies the leader's process group, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// The leader is an unreaped child of this process, so its process id cannot be reused.
    Child,
    /// The leader is a child of another process. Its process id is valid only while the leader is
    /// alive.
    Stranger,
    /// The leader has ended, and its process id may have been reused.
    None,
}

impl ProcessGroup {
    fn led_by(leader: ProcessIdentity, tag: &str) -> Self {
        let mark = format!("{TAG_VARIABLE}={tag}");
        let claim = Claim { leader, hold: Hold::Child, mark, member: None, survivors: Vec::new() };
        Self { claim, is_gone: false, aftermath: None }
    }

    /// Creates the group of a process that is not a child of this process. The group contains all
    /// processes that `process` started, even if `process` itself has ended. Dropping the group
    /// kills all of its processes.
    pub fn of_stranger(process: ProcessIdentity) -> Self {
        Self { claim: Claim::on_stranger(process), is_gone: false, aftermath: None }
    }

    /// Returns true if a process of the group still runs.
    pub async fn is_running(&mut self) -> bool {
        if !self.is_gone {
            self.claim.survivors = self.owned().await;
            self.is_gone = self.claim.survivors.is_empty();
        }
        !self.is_gone
    }

    /// Returns the processes that were running at the last check.
    pub fn members(&self) -> &[ProcessIdentity] {
        &self.claim.survivors
    }

    /// Stops the processes that a command left running. The function sends TERM, waits `grace`,
    /// then sends KILL.
    pub async fn stop_left_behind(mut self, grace: Duration) {
        self.end_all(grace, None).await;
    }

    /// Stops all processes of the group, and returns whether they have ended.
    pub async fn stop_all(mut self, grace: Duration) -> Stopped {
        if !self.is_running().await {
            return Stopped::WasGone;
        }
        self.end_all(grace, None).await;
        let stopped = if self.is_gone { Stopped::Ended } else { Stopped::StillRunning };
        // Set this so that drop does not try again. Processes that could not be killed now cannot
        // be killed on drop either.
        self.is_gone = true;
        stopped
    }

    async fn stop(&mut self, child: &mut Reaped, grace: Duration) {
        self.end_all(grace, Some(child)).await;
    }

    /// Records that the command itself has ended. Returns the group if processes of the group are
    /// still running.
    async fn after_leader(mut self) -> Option<Self> {
        if self.aftermath.as_ref().is_some_and(Aftermath::is_due_with_leader) {
            self.aftermath = None;
        }
        let mut still_running = self.is_running().await;
        if self.aftermath.as_ref().is_some_and(Aftermath::ends_all) {
            // When this command ends, the kernel ends all processes that the command started. Wait
            // until they have ended.
            let end_of_waiting = Instant::now() + KILL_TIME;
            while still_running && Instant::now() < end_of_waiting {
                tokio::time::sleep(STOP_TICK).await;
                still_running = self.is_running().await;
            }
        }
        // If this call fails, a later call of `reap_adopted` reaps the ended processes.
        let _reaped = tokio::task::spawn_blocking(reap_adopted).await;
        self.claim.hold = Hold::None;
        still_running.then_some(self)
    }

    async fn end_all(&mut self, grace: Duration, mut child: Option<&mut Reaped>) {
        let mut left = self.owned().await;
        // Remember these processes. After the parent of a process has ended, the process can be
        // found only by its session or environment, and it can change both.
        self.claim.survivors.clone_from(&left);
        self.claim.signal_group(Signal::TERM);
        signal_all(&left, Signal::TERM);
        // Wait only for the processes in `left`, which got TERM. The KILL loop below also finds
        // processes that were forked in the meantime.
        let end_of_grace = Instant::now() + grace;
        while !left.is_empty() && Instant::now() < end_of_grace {
            tokio::time::sleep(STOP_TICK).await;
            left.retain(ProcessIdentity::is_alive);
        }
        let end_of_killing = Instant::now() + KILL_TIME;
        loop {
            self.claim.signal_group(Signal::KILL);
            // Look for processes again in every round, because a process may have forked in the
            // meantime.
            left = self.owned().await;
            if left.is_empty() || Instant::now() > end_of_killing {
                break;
            }
            signal_all(&left, Signal::KILL);
            tokio::time::sleep(STOP_TICK).await;
        }
        if let Some(child) = child.as_mut() {
            // The child cannot be killed while it is in an uninterruptible system call, so the wait
            // has a time limit. If the limit passes, tokio reaps the child later.
            let reaped = tokio::time::timeout(grace, child.wait()).await;
            tracing::debug!(leader = %self.claim.leader, ?reaped, "stopped");
        }
        let _reaped = tokio::task::spawn_blocking(reap_adopted).await;
        self.claim.hold = Hold::None;
        self.claim.survivors = left;
        self.is_gone = self.claim.survivors.is_empty();
    }

    /// Returns the processes of the group that run now. The work is done on a blocking thread,
    /// because it reads the whole process table.
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
            // This call fails only if the group is already empty or belongs to another user. In
            // neither case is there anything left to do, so the error is ignored.
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
                // Only the first pass compares tags and process groups. Each later pass finds the
                // children of the processes that the earlier passes found.
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

/// Returns the processes that `process` left running, and `process` itself if it still runs.
/// `process` need not be a child of the current process.
pub async fn left_by(process: ProcessIdentity) -> Vec<ProcessIdentity> {
    // Use a blocking thread, because this call reads the whole process table.
    let owned = tokio::task::spawn_blocking(move || Claim::on_stranger(process).owned());
    owned.await.unwrap_or_default()
}

/// Reaps the ended children that this process adopted. This process adopts a process when the
/// parent of that process ends. Tokio reaps the children that this process started itself.
fn reap_adopted() {
    let Some(this) = Entry::read(std::process::id()) else { return };
    for number in this.ended_and_adopted().iter().filter_map(ProcessIdentity::number) {
        let reaped = rustix::process::waitpid(Some(number), rustix::process::WaitOptions::NOHANG);
        tracing::debug!(?number, ?reaped, "an adopted process has ended");
    }
}

/// Waits until all killed processes have ended. Then reaps the processes that this process adopted
/// when their parents were killed.
async fn reap_killed(killed: Vec<ProcessIdentity>) {
    let ends = killed.iter().map(ProcessIdentity::ended);
    if tokio::time::timeout(KILL_TIME, futures_util::future::join_all(ends)).await.is_err() {
        tracing::debug!(?killed, "not all have ended");
    }
    // If this call fails, a later call of `reap_adopted` reaps the ended processes.
    let _reaped = tokio::task::spawn_blocking(reap_adopted).await;
}

/// Sends the signal to all of the processes, and skips processes that have already ended. A process
/// of another user cannot be signalled. The caller sees that such a process still runs.
fn signal_all(processes: &[ProcessIdentity], signal: Signal) {
    for process in processes {
        if let Err(error) = process.signal(signal) {
            tracing::debug!(%process, %error, "cannot be signalled");
        }
    }
}

#[cfg(test)]
mod tests;
