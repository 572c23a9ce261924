//! Leading a team with a seal: the handle that signs, the handle that verifies, and what is kept of the keys there were.

use pitcrew_protocol::{ApiError, LEAD_NAME, Member};
use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::lead_signer::{EARLIER_KEPT, LeadKeys, LeadSigner, Trust, VerifyKey};
use crate::mode_record::is_same_record;
use crate::ours::SpawnRecord;
use crate::{Team, refusal};

/// The keys of all leads that signed, the latest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Keys {
    keys: Vec<VerifyKey>,
}

impl Keys {
    /// This key alone.
    pub(crate) fn of(key: VerifyKey) -> Self {
        Self { keys: vec![key] }
    }
}

impl Document for Keys {
    const NAME: &'static str = "keys";
}

impl Team {
    /// The lead's own handle: it signs the lead's commands, and takes no others.
    #[must_use]
    pub fn sealed(self, signer: LeadSigner) -> Self {
        let trust = Trust::of(Some(*signer.verify_key()));
        self.by(Some(signer), trust)
    }

    /// A teammate's handle: it takes the lead's commands by `trust`, and gives none.
    #[must_use]
    pub fn trusting(self, trust: Trust) -> Self {
        self.by(None, trust)
    }

    /// By what this handle knows the lead's word.
    #[must_use]
    pub fn trust(&self) -> &Trust {
        &self.trust
    }

    /// The keys of the leads, when they sign and this handle knows them.
    #[must_use]
    pub fn lead_keys(&self) -> Option<&LeadKeys> {
        match &self.trust {
            Trust::Founding => None,
            Trust::Signed(keys) => Some(keys),
        }
    }

    /// The key of the lead, when it signs and this handle knows it.
    #[must_use]
    pub fn verify_key(&self) -> Option<&VerifyKey> {
        self.lead_keys().map(LeadKeys::now)
    }

    /// Takes the lead with a new seal; the caller holds the lease of the run. What the leads before it signed still
    /// counts, and modes they signed are signed anew. A team that nobody has signed for yet is taken as it stands.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn take_lead(self, signer: LeadSigner) -> Result<Self, ApiError> {
        let own = *signer.verify_key();
        let earlier = self
            .edit_document(move |document: &mut Keys| {
                let earlier: Vec<_> = document
                    .keys
                    .iter()
                    .copied()
                    .filter(|key| *key != own)
                    .take(EARLIER_KEPT)
                    .collect();
                document.keys = std::iter::once(own).chain(earlier.iter().copied()).collect();
                Ok(earlier)
            })
            .await?;
        let is_first = earlier.is_empty();
        let team = self.by(Some(signer), Trust::Signed(LeadKeys::new(own, earlier)));
        let is_due = |member: &&Member| {
            let is_ours = SpawnRecord::of(member).is_some()
                && (member.mode.is_some() || !member.is_called(LEAD_NAME));
            is_ours && (is_first || team.vouches_for_mode(member))
        };
        let due: Vec<Member> =
            team.config().await?.members.iter().filter(is_due).cloned().collect();
        if !due.is_empty() {
            let signer = team.clone();
            // Only what was looked at is signed: an edit is made again when somebody wrote in between.
            team.edit_config(move |config| {
                due.iter().try_for_each(|seen| match config.member_mut(seen.name.as_str()) {
                    Some(member) if is_same_record(seen, member) => signer.sign_mode(member, true),
                    Some(_) | None => Ok(()),
                })
            })
            .await?;
        }
        Ok(team)
    }

    /// The keys of all leads that signed, the latest first. A new lead accepts what they signed, and so may its teammates.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn keys_of_leads(&self) -> Result<Vec<VerifyKey>, ApiError> {
        Ok(self.read_document::<Keys>().await?.keys)
    }

    /// Refuses to give a command of the lead where nobody would take it: in a team whose lead signs, only the lead's own
    /// process can.
    pub(crate) async fn may_command(&self) -> Result<(), ApiError> {
        if self.signer.is_some() {
            return Ok(());
        }
        let is_signed = match &self.trust {
            Trust::Signed(_) => true,
            Trust::Founding => !self.read_document::<Keys>().await?.keys.is_empty(),
        };
        if !is_signed {
            return Ok(());
        }
        let message = format!(
            "the lead of team '{}' signs its commands, and only the process that leads it can give one",
            self.name()
        );
        Err(refusal::denied(message)
            .with("team_name", self.name().as_str())
            .with("lead_signs", true))
    }
}
