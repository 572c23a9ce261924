//! A take-over: a member becomes the lead of a team whose lead is dead.
//!
//! The take-over has several steps: the member's conversation becomes the lead's conversation, and
//! the member leaves the team. The decision is recorded before these steps. After a crash, the next
//! run finds the record and repeats the steps. The crate `runtime` converts the conversation.

use pitcrew_protocol::{AgentName, ApiError, LEAD_NAME};
use serde::{Deserialize, Serialize};

use crate::actor::{Actor, Speaker};
use crate::ours::SpawnRecord;
use crate::{Team, refusal};

/// The record of a member that becomes the lead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeOver {
    /// The member that becomes the lead.
    pub member: AgentName,
    /// The time of the decision, in milliseconds since 1970.
    pub at_ms: i64,
}

impl Team {
    /// Records that `member` becomes the lead. The caller must hold the lease of the run.
    ///
    /// # Errors
    /// - `permission_denied` for every caller except the lead and the user.
    /// - `permission_denied` if `member` is the lead.
    /// - `permission_denied` if pitcrew did not spawn `member`, because pitcrew does not have the
    ///   conversation of this member.
    /// - `agent_not_found`.
    pub async fn begin_take_over(
        &self,
        actor: &Actor,
        member: &AgentName,
    ) -> Result<TakeOver, ApiError> {
        let config = self.config().await?;
        Speaker::of(actor, &config)?.must_lead("make a member the lead")?;
        let Some(found) = config.member(member.as_str()) else {
            return Err(refusal::unknown_agent(&config, member.as_str()));
        };
        if found.is_called(LEAD_NAME) {
            return Err(refusal::denied(
                "the lead cannot take over from itself; resume the team instead",
            ));
        }
        // pitcrew has a conversation to continue only for members that it spawned.
        if SpawnRecord::of(found).is_none() {
            let said = format!(
                "'{}' is another client's; its conversation cannot be gone on with",
                found.name
            );
            return Err(refusal::denied(said).with("agent", found.name.as_str()));
        }
        self.count_call().await?;
        let noted = TakeOver { member: found.name.clone(), at_ms: self.now_ms() };
        self.edit_document(move |document: &mut Option<TakeOver>| {
            *document = Some(noted.clone());
            Ok(noted.clone())
        })
        .await
    }

    /// Returns the take-over that was started and is not recorded as complete.
    ///
    /// # Errors
    /// `internal_error` when the store fails.
    pub async fn take_over(&self) -> Result<Option<TakeOver>, ApiError> {
        self.read_document().await
    }

    /// Records that the take-over is complete.
    ///
    /// # Errors
    /// `internal_error` when the store fails.
    pub async fn end_take_over(&self) -> Result<(), ApiError> {
        self.edit_document(|document: &mut Option<TakeOver>| {
            *document = None;
            Ok(())
        })
        .await
    }
}
