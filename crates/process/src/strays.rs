//! Finds and stops stray processes: processes that a command moved to another session without
//! pitcrew's tags, and whose parents have ended.
//!
//! The system gives such a process a new parent: the nearest ancestor that has registered as a
//! subreaper, or else init. So pitcrew's process registers itself. Any child that it still has at
//! its own end was then started by a command. Pane servers and processes left running by the user's
//! hooks are exempt. Each stray is reaped by its number, because tokio reaps the other children.

use std::io;
use std::time::Duration;

use crate::identity::{Entry, ProcessIdentity, Stopped};
use crate::job::{is_tagged_by, outlives};

/// Maximum number of rounds. Stopped processes may leave further children to this process, which
/// must be stopped too.
const ROUNDS: usize = 10;

/// A stray process that outlived its command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    /// The process.
    pub process: ProcessIdentity,
    /// Its program and arguments.
    pub words: Vec<String>,
    /// The result of stopping it and all processes that it started.
    pub stopped: Stopped,
}

/// Makes this process the new parent of stray processes. Returns whether it is. Refuses if this
/// process already has children, because it did not start those itself.
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

/// Does nothing, because this system has no subreapers. Returns false.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn adopt_strays() -> io::Result<bool> {
    Ok(false)
}

/// Stops all stray processes: TERM, `grace`, KILL. Call it when no other work of this process is
/// running.
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
            // A process that cannot be killed appears in every round. Report it once.
            if !ended.iter().any(|known| known.process == stray.process) {
                ended.push(stray);
            }
        }
    }
    ended
}

/// Returns the children of this process, except those that may outlive it.
fn adopted() -> Vec<Entry> {
    let own = ProcessIdentity::own();
    let is_ours = |entry: &Entry| entry.parent == own.pid && !outlives(entry.identity.pid, own);
    Entry::all().into_iter().filter(is_ours).collect()
}

/// Returns the adopted children without pitcrew's tags. They could not be traced to this process if
/// it were killed. Empty if this process is not a subreaper.
pub fn untagged_strays() -> Vec<ProcessIdentity> {
    if !adopts() {
        return Vec::new();
    }
    let own = ProcessIdentity::own();
    let Some(this) = Entry::read(own.pid) else { return Vec::new() };
    let own_words = this.words();
    let mut found = adopted();
    // Exclude three kinds: pitcrew's helpers, which are in its process group, commands of agents,
    // which carry the tag, and commands between fork and exec, which still have pitcrew's own
    // command line and environment.
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

/// This system has no subreapers.
#[cfg(not(target_os = "linux"))]
fn adopts() -> bool {
    false
}

/// Reaps a child that this process did not start. Otherwise its number stays in use until this
/// process ends.
fn reap(process: ProcessIdentity) {
    let Some(number) = process.number() else { return };
    if let Err(error) = rustix::process::waitpid(Some(number), rustix::process::WaitOptions::NOHANG)
    {
        tracing::debug!(%process, %error, "another waited for it");
    }
}
