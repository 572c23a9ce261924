//! What commands of agents moved out of sight: into another session, without our tags, their parents gone.
//!
//! The system gives such a process a new parent: the nearest ancestor that asked for it (a subreaper), else init. So our
//! process asks, and whatever of its children is left at its end was started by a command. Exempt are the servers that
//! hold panes, and what hooks of the user leave running. A child is waited for by its number only: the others are tokio's.

use std::io;
use std::time::Duration;

use crate::identity::{Entry, ProcessIdentity, Stopped};
use crate::job::{is_tagged_by, outlives};

/// How often stopped processes leave further ones to us that are stopped too.
const ROUNDS: usize = 10;

/// A process that a command moved out of sight, and that outlived its command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    /// The process.
    pub process: ProcessIdentity,
    /// Its program and arguments.
    pub words: Vec<String>,
    /// What came of stopping it, with all that it started.
    pub stopped: Stopped,
}

/// Makes this process the parent of what its commands move out of sight; says whether it is. A process that has children
/// before it started any does not become one: those are not its own.
///
/// # Errors
/// What the system said.
#[cfg(target_os = "linux")]
pub fn adopt_strays() -> io::Result<bool> {
    if !adopted().is_empty() {
        return Ok(false);
    }
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(true)
}

/// Nobody can ask for it here.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn adopt_strays() -> io::Result<bool> {
    Ok(false)
}

/// Stops what commands moved out of sight: TERM, `grace`, KILL. To be called when nothing else of this process runs.
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
            // One that cannot be killed is told once.
            if !ended.iter().any(|known| known.process == stray.process) {
                ended.push(stray);
            }
        }
    }
    ended
}

/// Our children, but for those that are to outlive us.
fn adopted() -> Vec<Entry> {
    let own = ProcessIdentity::own();
    let is_ours = |entry: &Entry| entry.parent == own.pid && !outlives(entry.identity.pid, own);
    Entry::all().into_iter().filter(is_ours).collect()
}

/// Our children that a killed process of ours could not be traced to: adopted, without our tags. Only a process that adopts
/// has any.
pub fn untagged_strays() -> Vec<ProcessIdentity> {
    if !adopts() {
        return Vec::new();
    }
    let own = ProcessIdentity::own();
    let Some(this) = Entry::read(own.pid) else { return Vec::new() };
    let own_words = this.words();
    let mut found = adopted();
    // Helpers of ours are in our group, commands of agents carry the tag. Between fork and exec a command of ours still has
    // our own command line and environment.
    found.retain(|entry| {
        entry.group != this.group
            && !is_tagged_by(entry.identity.pid, own)
            && entry.words() != own_words
    });
    found.into_iter().map(|entry| entry.identity).collect()
}

/// Whether this process becomes the parent of what its commands move out of sight.
#[cfg(target_os = "linux")]
fn adopts() -> bool {
    matches!(rustix::process::child_subreaper(), Ok(Some(_)))
}

/// None does here.
#[cfg(not(target_os = "linux"))]
fn adopts() -> bool {
    false
}

/// Lets go of the number of a child that was not started by us; without that it would be taken until our own end.
fn reap(process: ProcessIdentity) {
    let Some(number) = process.number() else { return };
    if let Err(error) = rustix::process::waitpid(Some(number), rustix::process::WaitOptions::NOHANG)
    {
        tracing::debug!(%process, %error, "another waited for it");
    }
}
