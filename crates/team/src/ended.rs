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
    /// How it ended.
    #[serde(default, skip_serializing_if = "MemberEnd::is_left")]
    pub(crate) end: MemberEnd,
}

/// How a member ended, as far as its correspondents are to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum MemberEnd {
    /// It shut down, left, or was removed.
    #[default]
    Left,
    /// It failed.
    Failed,
    /// It was stopped.
    Stopped,
}

impl MemberEnd {
    fn as_str(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }

    fn is_left(&self) -> bool {
        *self == Self::Left
    }

    /// What is said behind "is no longer in the team".
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Self::Left => "",
            Self::Failed => ": it failed",
            Self::Stopped => ": it was stopped",
        }
    }
}

/// A later version may know more ends; its readers are told no more than that the member is gone.
impl From<String> for MemberEnd {
    fn from(name: String) -> Self {
        [Self::Failed, Self::Stopped]
            .into_iter()
            .find(|end| end.as_str() == name)
            .unwrap_or_default()
    }
}

impl From<MemberEnd> for String {
    fn from(end: MemberEnd) -> Self {
        end.as_str().to_owned()
    }
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
        self.read_document().await
    }

    /// Notes that `name` ends, and how; what follows from it is still to be done.
    pub(crate) async fn note_ended(
        &self,
        name: &AgentName,
        end: MemberEnd,
    ) -> Result<(), ApiError> {
        let noted = EndedMember { name: name.clone(), at_ms: self.now_ms(), settled: false, end };
        self.edit_document(move |ended: &mut Ended| {
            match ended.members.iter_mut().find(|m| m.name == noted.name) {
                Some(there) => {
                    there.settled = false;
                    if there.end == MemberEnd::Left {
                        there.end = noted.end;
                    }
                }
                None => ended.members.push(noted.clone()),
            }
            Ok(())
        })
        .await
    }

    /// Notes that all that follows from the end of `name` is done.
    pub(crate) async fn note_settled(&self, name: &AgentName) -> Result<(), ApiError> {
        let gone = name.clone();
        self.edit_document(move |ended: &mut Ended| {
            if let Some(there) = ended.members.iter_mut().find(|m| m.name == gone) {
                there.settled = true;
            }
            Ok(())
        })
        .await
    }

    /// How `name` ended; [`MemberEnd::Left`] for somebody of whom nothing is noted.
    pub(crate) async fn end_of(&self, name: &AgentName) -> MemberEnd {
        let ended = self.ended().await;
        ended.ok().and_then(|ended| Some(ended.member(name.as_str())?.end)).unwrap_or_default()
    }
}
