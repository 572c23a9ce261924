//! Processes that an agent's command left running. After the agent's own process is killed, pitcrew
//! is no longer able to find these processes.
//!
//! They are recorded so that a person can learn of them. Any program can forge such a record.
//! pitcrew therefore never sends a signal to a process because of a record.

use pitcrew_protocol::{AgentName, ApiError, ProcessRef};
use pitcrew_store::ArchiveName;
use serde::{Deserialize, Serialize};

use crate::document::{Document, parsed};
use crate::{Team, Teams, refusal};

/// A process that an agent's command started and that still runs after the command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Escaped {
    /// The process that still runs.
    pub process: ProcessRef,
    /// The member whose command started the process.
    pub member: AgentName,
    /// The first part of the text of the command that started the process.
    pub command: String,
    /// The process that runs the member. When the member's process ends normally, it kills the
    /// recorded process.
    pub owner: ProcessRef,
    /// The time when pitcrew found the process, in milliseconds since 1970.
    pub at_ms: i64,
}

/// The stored document: all processes that commands left running, without those that are known to
/// have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct EscapedProcesses {
    escaped: Vec<Escaped>,
}

impl Document for EscapedProcesses {
    const NAME: &'static str = "escaped";
}

/// The recorded processes of an archived team.
#[derive(Clone, Debug)]
pub struct ArchivedEscapes {
    /// The name of the archive.
    pub archive: ArchiveName,
    /// The recorded processes, or the reason why they cannot be read.
    pub escaped: Result<Vec<Escaped>, ApiError>,
}

impl Teams {
    /// Returns the recorded processes of all archived teams that have such a record.
    ///
    /// # Errors
    /// `internal_error` when the archive cannot be listed.
    pub async fn escaped_in_archive(&self) -> Result<Vec<ArchivedEscapes>, ApiError> {
        let mut found = Vec::new();
        for name in self.backend().archives().await.map_err(refusal::of_store)? {
            let document = EscapedProcesses::NAME;
            let read = match self.backend().archived_document(&name, document).await {
                Ok(None) => continue,
                Ok(Some(stored)) => parsed(Some(&stored), document),
                Err(error) => Err(refusal::of_store(error)),
            };
            let escaped = read.map(|all: EscapedProcesses| all.escaped);
            found.push(ArchivedEscapes { archive: name, escaped });
        }
        Ok(found)
    }
}

impl Team {
    /// Records the processes in `found` that are not recorded yet, and returns these new ones.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn note_escaped(&self, found: Vec<Escaped>) -> Result<Vec<Escaped>, ApiError> {
        self.edit_document(move |all: &mut EscapedProcesses| {
            let mut new = found.clone();
            new.retain(|found| !all.escaped.iter().any(|known| known.process == found.process));
            all.escaped.extend(new.iter().cloned());
            Ok(new)
        })
        .await
    }

    /// Returns every recorded process, without those that are known to have ended.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn escaped(&self) -> Result<Vec<Escaped>, ApiError> {
        Ok(self.read_document::<EscapedProcesses>().await?.escaped)
    }

    /// Deletes the records of processes that have ended.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn forget_escaped(&self, ended: Vec<ProcessRef>) -> Result<(), ApiError> {
        self.edit_document(move |all: &mut EscapedProcesses| {
            all.escaped.retain(|known| !ended.contains(&known.process));
            Ok(())
        })
        .await
    }
}
