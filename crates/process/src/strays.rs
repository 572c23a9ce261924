//! Finds and stops stray processes. A stray is a process whose parent has ended, that has no tags
//! of pitcrew, and that a command moved to another session of the operating system.
//!
//! When the parent ends, the system gives such a process a new parent: the nearest ancestor that
//! has registered as a subreaper, otherwise init. Therefore pitcrew's process registers as a
//! subreaper. The children that pitcrew's process still has when it is about to end were started by
//! commands. Pitcrew stops them, except pane servers and processes left running by the user's
//! hooks. Each stray is reaped by its process id, because tokio reaps the other children.

use std::io;
use std::time::Duration;

use crate::identity::{Entry, ProcessIdentity, Stopped};
use crate::job::{is_tagged_by, outlives};

/// Maximum number of rounds of searching and stopping. When a stray is stopped, its children may
/// become new strays, which must be stopped too.
const ROUNDS: usize = 10;

/// A process that a command left running, without pitcrew's tags and with an ended parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    /// The process.
    pub process: ProcessIdentity,
    /// The program and arguments of the process.
    pub words: Vec<String>,
    /// The result of stopping the process and all processes that it started.
    pub stopped: Stopped,
}

/// Registers this process as the new parent of stray processes. Returns true if the process was
/// registered. If this process already has children, it is not registered, because somebody else
/// started those children.
///
/// # Errors
/// The error of the operating system.
#[cfg(target_os = "linux")]
pub fn adopt_strays() -> io::Result<bool> {
    if !adopted().is_empty() {
        return Ok(false);
    }
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(true)
}

/// Returns false and does nothing else, because this system has no subreapers.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn adopt_strays() -> io::Result<bool> {
    Ok(false)
}

/// Stops all stray processes. The function sends TERM, waits `grace`, then sends KILL. Call this
/// function only when no other work of this process is running.
pub async fn end_strays(grace: Duration) -> Vec<Stray> {
    let mut ended: Vec<Stray> = Vec::new();
    for _ in 0..ROUNDS {
        let found = adopted();
        if found.is_empty() {
            break;
        }
        let stops = found.into_iter().map(|entry| async move {
            let words = entry.words();
            let stopped = entry.identity.stop(grace).await;
            reap(entry.identity);
            Stray { process: entry.identity, words, stopped }
        });
        for stray in futures_util::future::join_all(stops).await {
            // A process that cannot be killed is found in every round. Report it only once.
            if !ended.iter().any(|known| known.process == stray.process) {
                ended.push(stray);
            }
        }
    }
    ended
}

/// Returns the children of this process, except the children that are allowed to outlive it.
fn adopted() -> Vec<Entry> {
    let own = ProcessIdentity::own();
    let is_ours = |entry: &Entry| entry.parent == own.pid && !outlives(entry.identity.pid, own);
    Entry::all().into_iter().filter(is_ours).collect()
}

/// Returns the children of this process that do not have pitcrew's tags. Children that are allowed
/// to outlive this process are not included. If this process were killed, nothing would show that
/// the returned children belong to it. The result is empty if this process is not a subreaper.
pub fn untagged_strays() -> Vec<ProcessIdentity> {
    if !adopts() {
        return Vec::new();
    }
    let own = ProcessIdentity::own();
    let Some(this) = Entry::read(own.pid) else { return Vec::new() };
    let own_words = this.words();
    let mut found = adopted();
    // Exclude three kinds of children: helpers of pitcrew (in pitcrew's own process group),
    // commands of agents (with pitcrew's tag), and commands between fork and exec (these still have
    // pitcrew's command line).
    found.retain(|entry| {
        entry.group != this.group
            && !is_tagged_by(entry.identity.pid, own)
            && entry.words() != own_words
    });
    found.into_iter().map(|entry| entry.identity).collect()
}

/// Returns true if this process is the new parent of stray processes.
#[cfg(target_os = "linux")]
fn adopts() -> bool {
    matches!(rustix::process::child_subreaper(), Ok(Some(_)))
}

/// Returns false, because this system has no subreapers.
#[cfg(not(target_os = "linux"))]
fn adopts() -> bool {
    false
}

/// Reaps a child that this process did not start. If the child is not reaped, its process id stays
/// in use until this process ends.
fn reap(process: ProcessIdentity) {
    let Some(number) = process.number() else { return };
    if let Err(error) = rustix::process::waitpid(Some(number), rustix::process::WaitOptions::NOHANG)
    {
        tracing::debug!(%process, %error, "another waited for it");
    }
}
