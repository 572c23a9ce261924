//! Records of what commands left running, for the day on which their agent's process is killed.
//!
//! A process that dropped our tags has this process as its parent (see `strays`), and ends with it in order. After
//! `kill -9` its parent is init, and only the record tells that an agent started it. It is reported then, never signalled.

use std::collections::BTreeSet;
use std::sync::Arc;

use pitcrew_protocol::{AgentName, ApiError, ProcessRef};
use pitcrew_team::{Escaped, Team};

use crate::identity::{Entry, ProcessIdentity};
use crate::process::left_by;
use crate::tools::LeftRunningLog;
use pitcrew_process::strays::untagged_strays;

/// How many characters of a command are recorded or shown.
const COMMAND_CHARS: usize = 80;

/// Records what commands of one member left running.
#[derive(Clone, Debug)]
pub(crate) struct EscapeLog {
    team: Team,
    member: AgentName,
}

/// A process that runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftRunning {
    /// Its record.
    pub record: Escaped,
    /// The beginning of its own command line.
    pub line: String,
}

impl EscapeLog {
    /// For commands of `member`.
    pub(crate) fn new(team: Team, member: AgentName) -> Self {
        Self { team, member }
    }

    /// This record as a set of background commands takes it.
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

    /// Records what runs on after a command: `tagged`, which is known by our tags, and what has none. Answers with what of
    /// the latter was not recorded before.
    pub(crate) async fn after(
        &self,
        command: &str,
        tagged: &[ProcessIdentity],
    ) -> Vec<LeftRunning> {
        let untagged = tokio::task::spawn_blocking(untagged_strays).await.unwrap_or_default();
        let untagged: Vec<ProcessIdentity> =
            untagged.into_iter().filter(|it| !tagged.contains(it)).collect();
        // Tagged ones are recorded too: the next program that such a process executes may drop the tags.
        let found: Vec<Escaped> =
            tagged.iter().chain(&untagged).map(|it| self.record(command, *it)).collect();
        if found.is_empty() {
            return Vec::new();
        }
        let new = match self.team.note_escaped(found.clone()).await {
            Ok(new) => new,
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
    /// `None` when the process has ended.
    fn of(record: Escaped) -> Option<Self> {
        let entry = Entry::read(record.process.pid)
            .filter(|entry| record.process == entry.identity.into())?;
        let words = entry.words().join(" ");
        // What it was called with is read first: a process that ends in between has no program any more.
        if !entry.has_program() {
            return None;
        }
        let line = if words.trim().is_empty() { entry.name() } else { words };
        Some(Self { line: beginning(&line), record })
    }

    /// `process PID (COMMAND LINE)`.
    #[must_use]
    pub fn in_words(&self) -> String {
        format!("process {} ({})", self.record.process.pid, self.line)
    }
}

/// The recorded processes of a team that run on although the process that was to end them is dead, but for those that still
/// carry our tags: these are found and stopped without a record.
///
/// # Errors
/// When the record cannot be read.
pub async fn escaped(team: &Team) -> Result<Vec<LeftRunning>, ApiError> {
    let mut left: Vec<LeftRunning> =
        team.escaped().await?.into_iter().filter_map(LeftRunning::of).collect();
    left.retain(|left| !ProcessIdentity::from(left.record.owner).is_alive());
    let owners: BTreeSet<ProcessIdentity> =
        left.iter().map(|left| left.record.owner.into()).collect();
    for owner in owners {
        let tagged = left_by(owner).await;
        left.retain(|left| !tagged.contains(&left.record.process.into()));
    }
    Ok(left)
}

/// Takes out the records of processes that have ended.
///
/// # Errors
/// When the record cannot be read or written.
pub async fn forget_ended(team: &Team) -> Result<(), ApiError> {
    let processes = team.escaped().await?.into_iter().map(|record| record.process);
    let ended: Vec<ProcessRef> =
        processes.filter(|it| !ProcessIdentity::from(*it).is_alive()).collect();
    if ended.is_empty() { Ok(()) } else { team.forget_escaped(ended).await }
}

/// The beginning of a command, in one line.
fn beginning(command: &str) -> String {
    let line = command.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(COMMAND_CHARS) {
        Some((at, _)) => format!("{}...", line.get(..at).unwrap_or_default()),
        None => line,
    }
}
