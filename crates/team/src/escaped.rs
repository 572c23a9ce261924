//! Processes that a command of an agent left running, and that nothing finds once the agent's process is killed.
//!
//! They are recorded so that a person can be told of them. A record is a file that anybody can forge: nothing is ever
//! signalled because of one.

use pitcrew_protocol::{AgentName, ApiError, ProcessRef};
use serde::{Deserialize, Serialize};

use crate::Team;
use crate::document::Document;

/// A process that outlived the command of an agent that started it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Escaped {
    /// The process.
    pub process: ProcessRef,
    /// The member after whose command it was found.
    pub member: AgentName,
    /// The beginning of that command.
    pub command: String,
    /// The process that runs the member. It ends what is recorded here, unless it is killed first.
    pub owner: ProcessRef,
    /// When it was found, in milliseconds since 1970.
    pub at_ms: i64,
}

/// The document: every such process that is not known to have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct EscapedProcesses {
    escaped: Vec<Escaped>,
}

impl Document for EscapedProcesses {
    const NAME: &'static str = "escaped";
}

impl Team {
    /// Records processes that are not recorded yet; answers with those.
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

    /// Every recorded process that is not known to have ended.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn escaped(&self) -> Result<Vec<Escaped>, ApiError> {
        Ok(self.read_document::<EscapedProcesses>().await?.escaped)
    }

    /// Takes out the records of processes that have ended.
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
