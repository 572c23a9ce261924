//! Identifies a process by its number *and* its start time, so that a later process with the same
//! number is never confused with it.
//!
//! This module also waits for the end of a process and sends signals to the process. The process
//! need not be a child of the current process. On systems without `/proc`, the start time is
//! unknown and only the number is compared. The module `job` finds the processes that a process has
//! started.

use std::fs;
use std::io;
use std::time::Duration;

use pitcrew_protocol::ProcessRef;
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::job::ProcessGroup;

/// Interval for checking whether a process has ended, on systems that cannot report the end of a
/// process.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Identifies one process. A later process with the same number has another identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// The process id.
    pub pid: u32,
    /// The start time of the process in clock ticks since boot. 0 on systems without `/proc`.
    pub start_ticks: u64,
}

/// The result of sending a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Signalled {
    /// The signal was sent.
    Sent,
    /// The process has ended. No signal was sent.
    Gone,
}

/// The result of stopping a process and all processes that it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Stopped {
    /// None of the processes was still running.
    WasGone,
    /// All of the processes have ended.
    Ended,
    /// Some of the processes still run, because they belong to another user or hang in a system
    /// call.
    StillRunning,
}

impl From<ProcessRef> for ProcessIdentity {
    fn from(process: ProcessRef) -> Self {
        Self { pid: process.pid, start_ticks: process.start_ticks }
    }
}

impl From<ProcessIdentity> for ProcessRef {
    fn from(process: ProcessIdentity) -> Self {
        Self { pid: process.pid, start_ticks: process.start_ticks }
    }
}

impl ProcessIdentity {
    /// Returns the identity of this process.
    #[must_use]
    pub fn own() -> Self {
        let pid = std::process::id();
        Self::of(pid).unwrap_or(Self { pid, start_ticks: 0 })
    }

    /// Returns the current time on the clock that also measures start times of processes, in clock
    /// ticks since boot.
    #[cfg(target_os = "linux")]
    pub fn ticks_now() -> u64 {
        let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let (seconds, nanoseconds) = (up.tv_sec.unsigned_abs(), up.tv_nsec.unsigned_abs());
        let a_second = rustix::param::clock_ticks_per_second();
        seconds
            .saturating_mul(a_second)
            .saturating_add(nanoseconds.saturating_mul(a_second) / 1_000_000_000)
    }

    /// Returns the highest possible time, because start times of processes are not known on this
    /// system.
    #[cfg(not(target_os = "linux"))]
    pub fn ticks_now() -> u64 {
        u64::MAX
    }

    /// Returns the running process with this number. Returns `None` if there is no such process, or
    /// if the process has ended and is not yet reaped.
    #[must_use]
    #[cfg(target_os = "linux")]
    pub fn of(pid: u32) -> Option<Self> {
        Entry::read(pid).map(|entry| entry.identity)
    }

    /// Returns the process with this number. Returns `None` if there is no such process.
    #[must_use]
    #[cfg(not(target_os = "linux"))]
    pub fn of(pid: u32) -> Option<Self> {
        let process = Self { pid, start_ticks: 0 };
        let there = rustix::process::test_kill_process(process.number()?);
        // The error `EPERM` means that the process exists but belongs to another user.
        matches!(there, Ok(()) | Err(Errno::PERM)).then_some(process)
    }

    /// Returns true if the process still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }

    /// Waits until the process ends. Returns at once if the process has already ended. On Linux,
    /// the kernel reports the end. If the kernel cannot report it, this function checks every
    /// second whether the process has ended.
    pub async fn ended(&self) {
        #[cfg(target_os = "linux")]
        match self.open().and_then(|process| process.map(watched).transpose()) {
            Ok(None) => return,
            Ok(Some(process)) => {
                if process.readable().await.is_ok() {
                    return;
                }
            }
            Err(error) => {
                tracing::debug!(pid = self.pid, %error, "looking for its end every second")
            }
        }
        while self.is_alive() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Sends a signal to exactly this process.
    ///
    /// # Errors
    /// The error of the operating system, such as `EPERM` for another user's process.
    pub fn signal(&self, signal: Signal) -> io::Result<Signalled> {
        #[cfg(target_os = "linux")]
        let sent = match self.open()? {
            Some(process) => rustix::process::pidfd_send_signal(process, signal),
            None => return Ok(Signalled::Gone),
        };
        #[cfg(not(target_os = "linux"))]
        let sent = match self.number().filter(|_| self.is_alive()) {
            Some(number) => rustix::process::kill_process(number, signal),
            None => return Ok(Signalled::Gone),
        };
        told(sent)
    }

    /// Sends a signal to the process group that this process leads. If this process leads no group,
    /// sends the signal to this process alone.
    ///
    /// # Errors
    /// The error of the operating system, such as `EPERM` for another user's process.
    pub fn signal_group(&self, signal: Signal) -> io::Result<Signalled> {
        let entry = Entry::read(self.pid).filter(|entry| entry.identity == *self);
        match (entry, self.number()) {
            // Signal the group only if this process leads the group. Otherwise the process number
            // may be the number of an unrelated group.
            (Some(entry), Some(number)) if entry.group == self.pid => {
                told(rustix::process::kill_process_group(number, signal))
            }
            (Some(_) | None, _) => self.signal(signal),
        }
    }

    /// Stops the process and all processes that it started. The function sends TERM to all of them,
    /// waits at most for the time `grace`, and then sends KILL to the processes that still run. If
    /// the process itself has already ended, the function stops the processes that it left running.
    /// Called with the identity of the current process, the function stops nothing and returns
    /// [`Stopped::StillRunning`].
    pub async fn stop(&self, grace: Duration) -> Stopped {
        if *self == Self::own() {
            return Stopped::StillRunning;
        }
        ProcessGroup::of_stranger(*self).stop_all(grace).await
    }

    /// Opens a handle on exactly this process. Returns `None` if the process has ended.
    #[cfg(target_os = "linux")]
    fn open(&self) -> io::Result<Option<std::os::fd::OwnedFd>> {
        use rustix::process::{PidfdFlags, pidfd_open};
        let Some(number) = self.number() else { return Ok(None) };
        let process = match pidfd_open(number, PidfdFlags::NONBLOCK) {
            Ok(process) => process,
            Err(Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // Check after opening: a later process with the same number may have been opened instead.
        Ok(self.is_alive().then_some(process))
    }

    /// Returns the process id as the type that system calls need.
    pub fn number(&self) -> Option<Pid> {
        i32::try_from(self.pid).ok().and_then(Pid::from_raw)
    }
}

/// Registers the handle of a process with tokio, so that a task can wait for it. The handle becomes
/// readable when the process ends.
#[cfg(target_os = "linux")]
fn watched(
    process: std::os::fd::OwnedFd,
) -> io::Result<tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>> {
    #[expect(
        deprecated,
        reason = "unsound for what may close its descriptor meanwhile; an owned one does not"
    )]
    tokio::io::unix::AsyncFd::new(process)
}

fn told(sent: rustix::io::Result<()>) -> io::Result<Signalled> {
    match sent {
        Ok(()) => Ok(Signalled::Sent),
        Err(Errno::SRCH) => Ok(Signalled::Gone),
        Err(error) => Err(error.into()),
    }
}

/// The error for a text that is not a process identity of the form `<pid>.<start_ticks>`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a process: expected <pid>.<start in clock ticks since boot>")]
pub struct ProcessWordsError {
    given: String,
}

impl ProcessIdentity {
    /// Returns the process identity in the form that command lines use: `<pid>.<start_ticks>`.
    #[must_use]
    pub fn to_words(self) -> String {
        format!("{}.{}", self.pid, self.start_ticks)
    }
}

impl std::str::FromStr for ProcessIdentity {
    type Err = ProcessWordsError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (pid, start_ticks) = given.split_once('.')?;
            Some(Self { pid: pid.parse().ok()?, start_ticks: start_ticks.parse().ok()? })
        };
        read().ok_or_else(|| ProcessWordsError { given: given.chars().take(120).collect() })
    }
}

impl std::fmt::Display for ProcessIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {}", self.pid)
    }
}

/// Returns the machine and the process namespace in which the process ids of this process are
/// valid. The result has the form that the session format on disk uses: `HOST#pid:[NUMBER]`.
/// Returns `None` on systems without `/proc`.
#[must_use]
pub fn own_pid_space() -> Option<String> {
    let machine = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{}#{}", machine.trim_end(), namespace.to_str()?))
}

/// Finds the process that was started with this agent id among its arguments. An agent id contains
/// a part of the session's id, so no agent of another session has the same id.
#[must_use]
pub fn process_of_agent(agent_id: &str) -> Option<ProcessIdentity> {
    let is_it = |entry: &Entry| {
        entry
            .words()
            .windows(2)
            .any(|pair| matches!(pair, [flag, id] if flag == "--agent-id" && id == agent_id))
    };
    // Child processes may have the same arguments. Take the process that started first.
    Entry::all()
        .into_iter()
        .filter(is_it)
        .map(|entry| entry.identity)
        .min_by_key(|process| process.start_ticks)
}

/// One line of the process table. Processes that have ended but are not reaped have no `Entry`.
pub struct Entry {
    /// The process.
    pub identity: ProcessIdentity,
    /// The id of the parent process.
    pub parent: u32,
    /// The id of the process group.
    pub group: u32,
    /// The id of the operating system's session.
    pub session: u32,
    /// Whether the process was stopped, by a person or by a debugger, and does not go on by itself.
    pub is_suspended: bool,
}

impl Entry {
    /// Returns all running processes.
    pub fn all() -> Vec<Self> {
        let Ok(folder) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        folder
            .filter_map(|item| item.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(Self::read)
            .collect()
    }

    /// Returns the running process with this id. Returns `None` if there is no such process.
    pub fn read(pid: u32) -> Option<Self> {
        let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(pid, &String::from_utf8_lossy(&bytes))
    }

    /// Returns the children that this process adopted and that have ended, but are not reaped yet.
    /// A child counts as adopted if it is in another POSIX session (`setsid`). A child also counts
    /// as adopted if it does not lead its process group, and the group is not the group of this
    /// process.
    pub fn ended_and_adopted(&self) -> Vec<ProcessIdentity> {
        let Ok(folder) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        let pids = folder.filter_map(|item| item.ok()?.file_name().to_str()?.parse::<u32>().ok());
        let ended = pids.filter_map(|pid| {
            let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
            let (entry, has_ended) = Self::parse_any(pid, &String::from_utf8_lossy(&bytes))?;
            let is_led_by_another = entry.group != self.group && entry.group != pid;
            let is_adopted = entry.session != self.session || is_led_by_another;
            (has_ended && entry.parent == self.identity.pid && is_adopted).then_some(entry.identity)
        });
        ended.collect()
    }

    /// Returns the arguments of the process. Returns an empty list if the arguments cannot be read.
    pub fn words(&self) -> Vec<String> {
        let line = fs::read(format!("/proc/{}/cmdline", self.identity.pid)).unwrap_or_default();
        String::from_utf8_lossy(&line).split_terminator('\0').map(str::to_owned).collect()
    }

    /// Returns true if the process still has a program file. The program file of a process that is
    /// ending disappears shortly before the process table shows the end.
    pub fn has_program(&self) -> bool {
        let gone = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
        !fs::read_link(format!("/proc/{}/exe", self.identity.pid)).is_err_and(gone)
    }

    /// Returns the program's name from the process table. Returns an empty text if the name cannot
    /// be read.
    pub fn name(&self) -> String {
        let name = fs::read(format!("/proc/{}/comm", self.identity.pid)).unwrap_or_default();
        String::from_utf8_lossy(&name).trim_end().to_owned()
    }

    /// Parses `/proc/PID/stat` of a running process.
    fn parse(pid: u32, line: &str) -> Option<Self> {
        Self::parse_any(pid, line).filter(|(_, has_ended)| !has_ended).map(|(entry, _)| entry)
    }

    /// Parses `/proc/PID/stat`. Also returns whether the process has ended. The program name in
    /// this file may contain spaces and parentheses.
    fn parse_any(pid: u32, line: &str) -> Option<(Self, bool)> {
        // The program name may itself contain `)`, so split at the last `)` of the line.
        let (_, after_name) = line.rsplit_once(')')?;
        let mut fields = after_name.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let session = fields.next()?.parse().ok()?;
        let start_ticks = fields.nth(15)?.parse().ok()?;
        let identity = ProcessIdentity { pid, start_ticks };
        let is_suspended = matches!(state, "T" | "t");
        let entry = Self { identity, parent, group, session, is_suspended };
        Some((entry, matches!(state, "Z" | "X")))
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
        assert_eq!((entry.group, entry.session), (5, 5));
        assert_eq!(entry.identity.start_ticks, 98765);
        assert!(!entry.is_suspended);
        assert!(Entry::parse(7, &line.replacen('S', "T", 1)).unwrap().is_suspended);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_that_has_ended_has_no_program_though_its_number_is_taken() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let ended = Entry {
            identity: ProcessIdentity { pid: child.id(), start_ticks: 0 },
            parent: 0,
            group: 0,
            session: 0,
            is_suspended: false,
        };
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while ended.has_program() {
            assert!(std::time::Instant::now() < deadline);
            std::thread::yield_now();
        }
        assert_eq!(ended.words(), Vec::<String>::new());
        assert!(Entry::read(std::process::id()).unwrap().has_program());
        assert!(!Entry::read(std::process::id()).unwrap().name().is_empty());
        child.wait().unwrap();
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
        let real = ProcessIdentity::own();
        assert!(real.is_alive());
        let earlier = ProcessIdentity { start_ticks: real.start_ticks - 1, ..real };
        assert!(!earlier.is_alive());
        assert_eq!(earlier.signal(Signal::KILL).unwrap(), Signalled::Gone);
        assert_eq!(earlier.signal_group(Signal::KILL).unwrap(), Signalled::Gone);
    }
}
