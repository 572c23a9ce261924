//! The processes and panes that run members outside the lead's process, from their start until they
//! are known to be gone.
//!
//! A later process uses this document to stop whatever a crash left running. The journal's events
//! `started` and `stopped` are evidence only. The crate `runtime` checks whether a process still
//! runs, and stops it.

use std::collections::BTreeMap;

use pitcrew_protocol::{AgentName, ApiError, ProcessRef};
use pitcrew_store::{Event, StartedProgram};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::document::Document;
use crate::{PanePlace, Team};

/// A process or pane that was started to run a member, with the process responsible for stopping
/// it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The started process. Absent while the process is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessRef>,
    /// The pane in which the member runs. Absent if the member runs in no pane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pane: Option<PanePlace>,
    /// The program that was started.
    pub program: StartedProgram,
    /// The digest of the limits at the time of the start. Absent if an earlier version of pitcrew
    /// started the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<String>,
    /// The process that started the member. If that process is gone and no other process leads the
    /// team, the member is an orphan.
    pub owner: ProcessRef,
    /// The time of the start, in milliseconds since 1970.
    pub at_ms: i64,
    /// The latest time at which the member must be ready, in milliseconds since 1970. Absent once
    /// the member is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
}

/// The stored document: everything that was started, by member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StartedMembers {
    started: BTreeMap<AgentName, Started>,
}

impl Document for StartedMembers {
    const NAME: &'static str = "started";

    /// Before documents had a version, this document was only the map of members.
    fn from_earlier(document: Value) -> Value {
        json!({ "started": document })
    }
}

impl Team {
    /// Records what was started to run `name`, in place of the earlier record.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails. The caller must then stop what
    /// it started.
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

    /// Returns everything that was started and is not known to be gone, by member. It includes
    /// members that have left.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn started(&self) -> Result<BTreeMap<AgentName, Started>, ApiError> {
        Ok(self.read_document::<StartedMembers>().await?.started)
    }

    /// Removes the record of the process and pane for `name`, because they are gone. A missing
    /// record is no error.
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
