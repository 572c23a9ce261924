//! Changing the recorded permission mode of a member. The module `mode_record` signs and verifies
//! the modes.

use pitcrew_protocol::{AgentName, ApiError, PermissionMode};
use pitcrew_store::MemberChange;

use super::changed;
use crate::actor::{Actor, Speaker};
use crate::lead_signer::Trust;
use crate::mode_record::LEAST_FREE;
use crate::{Team, refusal};

/// A permission mode that was replaced by a stricter mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeLowered {
    /// The mode that was not strict enough. This is the member's current mode, if that mode was not
    /// strict enough. Otherwise it is the mode in which the member was spawned. The approval of a
    /// plan can restore the mode from the spawn.
    pub before: String,
    /// The stricter mode that replaces the old mode.
    pub now: String,
}

impl Team {
    /// Changes the permission mode of a member. In a team whose lead signs, only the lead's own
    /// handle is able to set every mode. All other handles are able to set only `plan`, the
    /// strictest mode.
    ///
    /// # Errors
    /// `permission_denied` for every caller except the lead and the user, `invalid_request` for an
    /// unknown mode, `agent_not_found`.
    pub async fn set_mode(
        &self,
        actor: &Actor,
        name: &AgentName,
        mode: &str,
    ) -> Result<(), ApiError> {
        Speaker::of(actor, self.config().await?.as_ref())?.must_lead("change a member's mode")?;
        check_mode(mode)?;
        // Every handle is allowed to set the strictest mode. Any other mode needs the lead's
        // signature.
        if mode != LEAST_FREE {
            self.may_command().await?;
        }
        self.record_mode(&self.member(name.as_str()).await?.name, mode).await
    }

    /// Records the mode from a plan approval as the member's own mode. In a team whose lead signs,
    /// only the lead's own handle changes the record, and only if the signed record does not have
    /// this mode yet. All other handles change nothing.
    ///
    /// # Errors
    /// `agent_not_found`, `invalid_request` for an unknown mode.
    pub async fn adopt_mode(&self, name: &AgentName, mode: &str) -> Result<(), ApiError> {
        check_mode(mode)?;
        match (&self.trust, &self.signer) {
            (Trust::Founding, _) => self.record_mode(name, mode).await,
            (Trust::Signed(_), None) => Ok(()),
            (Trust::Signed(_), Some(_)) => {
                let member = self.member(name.as_str()).await?;
                if member.mode.as_deref() == Some(mode) && self.vouches_for_mode(&member) {
                    return Ok(());
                }
                self.record_mode(name, mode).await
            }
        }
    }

    /// Replaces the modes in a member's record by stricter modes. A record has two modes: the
    /// current mode, and the mode from the spawn, in which the member works again after its plan is
    /// approved. If a mode is not strict enough, `lowered` returns the stricter mode. A record
    /// without a valid signature stays unchanged, because members ignore such a record.
    ///
    /// # Errors
    /// `agent_not_found`.
    pub async fn lower_mode(
        &self,
        name: &AgentName,
        lowered: impl Fn(&str) -> Option<&'static str> + Clone + Send + Sync + 'static,
    ) -> Result<Option<ModeLowered>, ApiError> {
        let member = self.member(name.as_str()).await?;
        let Some(change) = self.mode_lowered(&member, lowered.clone()) else { return Ok(None) };
        let signer = self.clone();
        self.edit_member(name, move |member| signer.put_lowered_mode(member, lowered.clone()))
            .await?;
        self.note([changed(name, MemberChange::Mode, Some(&change.now))]).await;
        Ok(Some(change))
    }

    pub(crate) async fn record_mode(&self, name: &AgentName, mode: &str) -> Result<(), ApiError> {
        let (new, signer) = (mode.to_owned(), self.clone());
        self.edit_member(name, move |member| {
            let is_vouched_for = signer.vouches_for_mode(member);
            member.mode = Some(new.clone());
            signer.sign_mode(member, is_vouched_for)
        })
        .await?;
        self.note([changed(name, MemberChange::Mode, Some(mode))]).await;
        Ok(())
    }
}

pub(super) fn check_mode(mode: &str) -> Result<(), ApiError> {
    if PermissionMode::named(mode).is_some() {
        return Ok(());
    }
    let modes = PermissionMode::ALL.map(PermissionMode::as_str);
    let message = format!(
        "there is no permission mode '{}'; there are: {}",
        mode.escape_debug(),
        modes.join(", ")
    );
    Err(refusal::invalid(message).with("mode", mode).with("valid_modes", modes.to_vec()))
}
