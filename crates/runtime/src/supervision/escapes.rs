//! Records processes that commands left running. The record is needed if pitcrew is killed.
//!
//! pitcrew marks the processes of its commands by tags in their environment. A process can remove
//! these tags. When the parent of such a process ends, pitcrew's process becomes its parent (see
//! `strays`). When pitcrew ends normally, it stops the process. After `kill -9` of pitcrew, init
//! becomes the parent of the process, and only the record shows that an agent started the process.
//! The process is then reported but never signalled.

use std::collections::BTreeSet;
use std::sync::Arc;

use pitcrew_process::identity::{Entry, ProcessIdentity};
use pitcrew_process::job::left_by;
use pitcrew_process::strays::untagged_strays;
use pitcrew_protocol::{AgentName, ApiError, ProcessRef};
use pitcrew_team::{Escaped, Team};
use pitcrew_tools::LeftRunningLog;

/// Maximum number of characters of a command that are recorded or shown.
const COMMAND_CHARS: usize = 80;

/// Records the processes that one member's commands left running.
#[derive(Clone, Debug)]
pub(crate) struct EscapeLog {
    team: Team,
    member: AgentName,
}

/// A process that is still running after its command has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftRunning {
    /// The record of the process.
    pub record: Escaped,
    /// The first part of the process's command line.
    pub line: String,
}

impl EscapeLog {
    /// Creates the log for commands of `member`.
    pub(crate) fn new(team: Team, member: AgentName) -> Self {
        Self { team, member }
    }

    /// Converts the log into a function. It is called when a command has left processes running. It
    /// records these processes, and returns a description of each process without tags that was not
    /// recorded before.
    pub(crate) fn into_log(self) -> LeftRunningLog {
        Arc::new(move |command, tagged| {
            let log = self.clone();
            Box::pin(async move {
                let left = log.after(&command, &tagged).await;
                left.iter()
                    .map(|left| format!("pid {} ({})", left.record.process.pid, left.line))
                    .collect()
            })
        })
    }

    /// Records the processes that still run after a command. These are the processes in `tagged`,
    /// and the processes that no longer have pitcrew's tags. Returns those untagged processes that
    /// were not recorded before.
    pub(crate) async fn after(
        &self,
        command: &str,
        tagged: &[ProcessIdentity],
    ) -> Vec<LeftRunning> {
        let untagged = tokio::task::spawn_blocking(untagged_strays).await.unwrap_or_default();
        let untagged: Vec<ProcessIdentity> =
            untagged.into_iter().filter(|it| !tagged.contains(it)).collect();
        // Record tagged processes too. Such a process can execute another program that removes the
        // tags.
        let found: Vec<Escaped> =
            tagged.iter().chain(&untagged).map(|it| self.record(command, *it)).collect();
        if found.is_empty() {
            return Vec::new();
        }
        let new = match self.team.note_escaped(found.clone()).await {
            Ok(new) => new,
            // Even if the record cannot be written, report the processes to the caller.
            Err(error) => {
                tracing::warn!(member = %self.member, %error, "what a command left running is not recorded");
                found
            }
        };
        let is_untagged = |record: &Escaped| untagged.contains(&record.process.into());
        new.into_iter().filter(is_untagged).filter_map(LeftRunning::of).collect()
    }

    fn record(&self, command: &str, process: ProcessIdentity) -> Escaped {
        Escaped {
            process: process.into(),
            member: self.member.clone(),
            command: beginning(command),
            owner: ProcessIdentity::own().into(),
            at_ms: self.team.teams().now_ms(),
        }
    }
}

impl LeftRunning {
    /// Reads the command line of a recorded process from the system. Returns `None` if the process
    /// has ended.
    fn of(record: Escaped) -> Option<Self> {
        let entry = Entry::read(record.process.pid)
            .filter(|entry| record.process == entry.identity.into())?;
        let words = entry.words().join(" ");
        // A process that has ended has no program any more. Check this after reading the arguments,
        // because the process can end while they are read.
        if !entry.has_program() {
            return None;
        }
        let line = if words.trim().is_empty() { entry.name() } else { words };
        Some(Self { line: beginning(&line), record })
    }

    /// Describes the process as `process PID (COMMAND LINE)`.
    #[must_use]
    pub fn in_words(&self) -> String {
        format!("process {} ({})", self.record.process.pid, self.line)
    }
}

/// Returns the recorded processes of a team that still run although their owner is dead. The owner
/// is the process that should have ended them. Processes that still carry pitcrew's tags are left
/// out, because they are found and stopped without a record.
///
/// # Errors
/// If the record cannot be read.
pub async fn escaped(team: &Team) -> Result<Vec<LeftRunning>, ApiError> {
    Ok(still_running(team.escaped().await?).await)
}

/// Returns those of the recorded processes that [`escaped`] reports.
pub async fn still_running(records: Vec<Escaped>) -> Vec<LeftRunning> {
    let mut left: Vec<LeftRunning> = records.into_iter().filter_map(LeftRunning::of).collect();
    // An owner that is alive stops these processes itself when it ends.
    left.retain(|left| !ProcessIdentity::from(left.record.owner).is_alive());
    let owners: BTreeSet<ProcessIdentity> =
        left.iter().map(|left| left.record.owner.into()).collect();
    for owner in owners {
        // The normal cleanup stops processes with tags, so they need no report.
        let tagged = left_by(owner).await;
        left.retain(|left| !tagged.contains(&left.record.process.into()));
    }
    left
}

/// Removes the records of processes that have ended.
///
/// # Errors
/// If the record cannot be read or written.
pub async fn forget_ended(team: &Team) -> Result<(), ApiError> {
    let processes = team.escaped().await?.into_iter().map(|record| record.process);
    let ended: Vec<ProcessRef> =
        processes.filter(|it| !ProcessIdentity::from(*it).is_alive()).collect();
    if ended.is_empty() { Ok(()) } else { team.forget_escaped(ended).await }
}

/// Returns the first part of a command, in one line.
fn beginning(command: &str) -> String {
    let line = command.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(COMMAND_CHARS) {
        Some((at, _)) => format!("{}...", line.get(..at).unwrap_or_default()),
        None => line,
    }
}
