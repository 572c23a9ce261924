//! What runs members outside of the lead's process: started, and not yet known to be gone.
//!
//! The document of the team is the truth that a later process goes by, to stop what a crash left behind; the journal's
//! `started` and `stopped` are the evidence. Whether any of it still runs, and stopping it, is `runtime`'s.

use std::collections::BTreeMap;

use pitcrew_protocol::{AgentName, ApiError, ProcessRef};
use pitcrew_store::{Event, StartedProgram};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::document::Document;
use crate::{PanePlace, Team};

/// Something that was started to run a member, and who answers for its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Its process; absent while it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessRef>,
    /// Its pane; absent for one without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pane: Option<PanePlace>,
    /// What runs.
    pub program: StartedProgram,
    /// What bounded it at its start, as a digest; absent where an earlier version started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<String>,
    /// The process that started it; once that is gone and no other leads the team, it is an orphan.
    pub owner: ProcessRef,
    /// When it was started, in milliseconds since 1970.
    pub at_ms: i64,
    /// Until when it may take to be at work, in milliseconds since 1970; absent once it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
}

/// The document: everything that was started, by member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StartedMembers {
    started: BTreeMap<AgentName, Started>,
}

impl Document for StartedMembers {
    const NAME: &'static str = "started";

    /// It was the members alone.
    fn from_earlier(document: Value) -> Value {
        json!({ "started": document })
    }
}

impl Team {
    /// Records what was started to run `name`, in place of what was recorded of it before.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails; then what was started must be stopped again.
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

    /// Everything that was started and is not known to be gone, by member; also of members that have left.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn started(&self) -> Result<BTreeMap<AgentName, Started>, ApiError> {
        Ok(self.read_document::<StartedMembers>().await?.started)
    }

    /// Takes out what was started for `name`, which is gone; its pane too. One that is not there is no error.
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
