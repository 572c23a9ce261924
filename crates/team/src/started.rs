//! The record of the processes and panes that run members outside the lead's process. A process or
//! pane stays in this record from its start until it is known to be gone.
//!
//! After a crash, a later process reads the record, and stops the processes and panes that still
//! exist. The journal's events `started` and `stopped` contain the same information, but only for
//! people to read. The crate `runtime` checks whether a process still runs, and stops the process.

use std::collections::BTreeMap;

use pitcrew_protocol::{AgentName, ApiError, ProcessRef};
use pitcrew_store::{Event, StartedProgram};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::document::Document;
use crate::{PanePlace, Team};

/// A process or pane that was started to run a member, and the process that must stop it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The started process. It is `None` while the process is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessRef>,
    /// The pane in which the member runs. It is `None` if the member does not run in a pane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pane: Option<PanePlace>,
    /// The program that was started.
    pub program: StartedProgram,
    /// The digest of the run's limits at the time of the start. It is `None` if an earlier version
    /// of pitcrew started the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<String>,
    /// The process that started the member and must stop it. If that process is gone and no other
    /// process leads the team, the member is an orphan.
    pub owner: ProcessRef,
    /// The time of the start, in milliseconds since 1970.
    pub at_ms: i64,
    /// The latest time at which the member must be ready, in milliseconds since 1970. When the
    /// member is ready, this becomes `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
}

/// The stored document: all started processes and panes, by member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StartedMembers {
    started: BTreeMap<AgentName, Started>,
}

impl Document for StartedMembers {
    const NAME: &'static str = "started";

    /// Converts a document of an earlier version of pitcrew, which had no format version. Such a
    /// document is only the map of members.
    fn from_earlier(document: Value) -> Value {
        json!({ "started": document })
    }
}

impl Team {
    /// Records the process or pane that was started to run `name`. The record replaces the earlier
    /// record of `name`.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails. The caller must then stop the
    /// process or pane that it started.
    pub async fn note_started(&self, name: &AgentName, started: Started) -> Result<(), ApiError> {
        let event = Event::Started {
            member: name.clone(),
            program: started.program.clone(),
            pid: started.process.map(|process| process.pid),
            start_ticks: started.process.map(|process| process.start_ticks),
            pane: started.pane.as_ref().map(PanePlace::to_string),
            owner: started.owner.pid,
        };
        let name = name.clone();
        self.edit_document(move |all: &mut StartedMembers| {
            all.started.insert(name.clone(), started.clone());
            Ok(())
        })
        .await?;
        self.note([event]).await;
        Ok(())
    }

    /// Returns the started processes and panes by member, without those that are known to be gone.
    /// Members that have left the team are included.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn started(&self) -> Result<BTreeMap<AgentName, Started>, ApiError> {
        Ok(self.read_document::<StartedMembers>().await?.started)
    }

    /// Removes the record of `name`, because its process and pane are gone. If there is no record,
    /// this is not an error.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn forget_started(&self, name: &AgentName) -> Result<(), ApiError> {
        let gone = name.clone();
        let was = self
            .edit_document(move |all: &mut StartedMembers| Ok(all.started.remove(&gone)))
            .await?;
        if let Some(was) = was {
            let pid = was.process.map(|process| process.pid);
            let pane = was.pane.as_ref().map(PanePlace::to_string);
            self.note([Event::Stopped { member: name.clone(), pid, pane }]).await;
        }
        Ok(())
    }
}
