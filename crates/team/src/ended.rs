//! The former members of a team. pitcrew remembers their names, so that mail to a former member is
//! reported as dead and not as mail to a wrong name.

use pitcrew_protocol::{AgentName, ApiError, Member, same_name};
use serde::{Deserialize, Serialize};

use crate::Team;
use crate::document::Document;

/// All former members, in the order in which they ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Ended {
    pub(crate) members: Vec<EndedMember>,
}

impl Document for Ended {
    const NAME: &'static str = "ended";
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EndedMember {
    pub(crate) name: AgentName,
    pub(crate) at_ms: i64,
    /// Whether the member's tasks were released, and its unread mail was reported as undeliverable.
    /// While this work is in progress, the value is false.
    pub(crate) settled: bool,
    #[serde(default, skip_serializing_if = "MemberEnd::is_left")]
    pub(crate) end: MemberEnd,
    /// What the config had of the member, without its prompt. Earlier versions did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) member: Option<Member>,
}

/// The way in which a member ended, as reported to the other members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum MemberEnd {
    /// The member shut down, left, or was removed.
    #[default]
    Left,
    /// The member failed.
    Failed,
    /// The member was stopped.
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

    /// The words that follow "is no longer in the team" in a message.
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Self::Left => "",
            Self::Failed => ": it failed",
            Self::Stopped => ": it was stopped",
        }
    }
}

/// A later version of pitcrew may know more ways in which a member ends. This version reads an
/// unknown way as `Left`.
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
    /// Returns the names of all former members, in the order in which they ended.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn ended_members(&self) -> Result<Vec<AgentName>, ApiError> {
        Ok(self.ended().await?.members.into_iter().map(|member| member.name).collect())
    }

    pub(crate) async fn ended(&self) -> Result<Ended, ApiError> {
        self.read_document().await
    }

    /// Records that `name` ends, and the way in which it ends. The member's tasks and mail are
    /// handled after this record.
    pub(crate) async fn note_ended(
        &self,
        name: &AgentName,
        end: MemberEnd,
    ) -> Result<(), ApiError> {
        // Another program may have removed the member from the config already.
        let config = self.config().await.ok();
        let member = config.and_then(|config| config.member(name.as_str()).cloned());
        let member = member.map(|member| Member { prompt: None, ..member });
        let (name, at_ms) = (name.clone(), self.now_ms());
        let noted = EndedMember { name, at_ms, settled: false, end, member };
        self.edit_document(move |ended: &mut Ended| {
            match ended.members.iter_mut().find(|m| m.name == noted.name) {
                Some(there) => {
                    there.settled = false;
                    // A repeated removal may give only the unspecific way `Left`. In that case the
                    // recorded way stays.
                    if there.end == MemberEnd::Left {
                        there.end = noted.end;
                    }
                    if noted.member.is_some() {
                        there.member.clone_from(&noted.member);
                    }
                }
                None => ended.members.push(noted.clone()),
            }
            Ok(())
        })
        .await
    }

    /// Records that the tasks and mail of the former member `name` are handled.
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

    /// Returns the way in which `name` ended, or [`MemberEnd::Left`] if no way is recorded.
    pub(crate) async fn end_of(&self, name: &AgentName) -> MemberEnd {
        let ended = self.ended().await;
        ended.ok().and_then(|ended| Some(ended.member(name.as_str())?.end)).unwrap_or_default()
    }
}
