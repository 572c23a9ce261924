//! The members a team had: their names stay known, so that mail to them is told as dead and never mistaken for a typo.

use pitcrew_protocol::{AgentName, ApiError, same_name};
use serde::{Deserialize, Serialize};

use crate::Team;
use crate::document::Document;

/// Everybody that ended, by order of ending.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Ended {
    pub(crate) members: Vec<EndedMember>,
}

impl Document for Ended {
    const NAME: &'static str = "ended";
}

/// A member that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EndedMember {
    pub(crate) name: AgentName,
    pub(crate) at_ms: i64,
    /// Whether its tasks are released and its mail is told as dead; false while that is being done.
    pub(crate) settled: bool,
}

impl Ended {
    pub(crate) fn member(&self, name: &str) -> Option<&EndedMember> {
        self.members.iter().find(|m| same_name(m.name.as_str(), name))
    }
}

impl Team {
    /// The names of everybody that ended, by order of ending.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn ended_members(&self) -> Result<Vec<AgentName>, ApiError> {
        Ok(self.ended().await?.members.into_iter().map(|member| member.name).collect())
    }

    /// Everybody that ended.
    pub(crate) async fn ended(&self) -> Result<Ended, ApiError> {
        self.edit_document(|ended: &mut Ended| Ok(ended.clone())).await
    }

    /// Notes that `name` ends, or that all that follows from it is done.
    pub(crate) async fn note_ended(&self, name: &AgentName, settled: bool) -> Result<(), ApiError> {
        let noted = EndedMember { name: name.clone(), at_ms: self.now_ms(), settled };
        self.edit_document(move |ended: &mut Ended| {
            match ended.members.iter_mut().find(|m| m.name == noted.name) {
                Some(there) => there.settled = noted.settled,
                None => ended.members.push(noted.clone()),
            }
            Ok(())
        })
        .await
    }
}
