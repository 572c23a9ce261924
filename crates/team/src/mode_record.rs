//! Signs the permission mode of a member with the lead's key, and verifies the signature. A mode
//! that another program wrote without this signature is refused.
//!
//! The mode is stored in the config, which any program of the user is able to change. A member that
//! knows its lead's key accepts a changed mode from the config only with the lead's signature. The
//! only exception is `plan`, the strictest mode, which any program is allowed to set.

use std::collections::BTreeSet;

use pitcrew_protocol::{AgentName, ApiError, Member, PermissionMode};
use pitcrew_store::{Event, MemberChange};
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};

use crate::lead_signer::{LeadKeys, Said, Trust};
use crate::members::ModeLowered;
use crate::ours::{KEY, SpawnRecord};
use crate::{Team, refusal};

/// The domain of the signatures of modes. It separates these signatures from signatures of other
/// kinds of data.
const DOMAIN: &str = "pitcrew member mode 1";

/// The name of the field that holds the signature in pitcrew's record of a member.
const SIGNATURE: &str = "modeSig";

/// The strictest permission mode.
pub(crate) const LEAST_FREE: &str = PermissionMode::Plan.as_str();

/// The mode of a member if its config entry has no mode.
const PLAIN: &str = PermissionMode::Default.as_str();

/// The parts of a member's config entry that decide the permission mode of the member.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ModeRecord {
    mode: Option<String>,
    must_plan: bool,
    spawned_in: Option<String>,
    signature: Option<ModeSignature>,
}

/// The lead's signature of a mode, with the time of the signature. A member refuses a signature
/// that is older than the signature of its current mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ModeSignature {
    at: i64,
    sig: String,
}

impl ModeRecord {
    fn of(member: &Member) -> Self {
        let mut noted = noted(member);
        Self {
            mode: member.mode.clone(),
            must_plan: member.plan_mode_required == Some(true),
            spawned_in: noted.get("mode").and_then(Value::as_str).map(str::to_owned),
            signature: noted.remove(SIGNATURE).and_then(|value| serde_json::from_value(value).ok()),
        }
    }

    /// Returns the mode that this record gives to the member. If a mode was set after the spawn,
    /// for example by the approval of a plan, this is that mode. Otherwise it is `plan` for a
    /// member that must plan, and the mode from the spawn for all other members.
    fn mode(&self) -> &str {
        let spawned_in = if self.must_plan { Some(LEAST_FREE) } else { self.spawned_in.as_deref() };
        self.mode.as_deref().or(spawned_in).unwrap_or(PLAIN)
    }
}

impl Team {
    /// Signs the mode in a member's record, if this handle belongs to the lead. If the old record
    /// has no valid signature, this function first deletes one entry of the record: the mode in
    /// which the member was spawned.
    pub(crate) fn sign_mode(
        &self,
        member: &mut Member,
        is_vouched_for: bool,
    ) -> Result<(), ApiError> {
        let Some(signer) = &self.signer else { return Ok(()) };
        let before = ModeRecord::of(member);
        let mut note = noted(member);
        if !is_vouched_for {
            note.remove("mode");
        }
        // Each signature gets a later time than the last signature, even if the clock goes back,
        // because a reader refuses older signatures.
        let at = before
            .signature
            .as_ref()
            .map_or(i64::MIN, |last| last.at.saturating_add(1))
            .max(self.now_ms());
        let mode_record =
            ModeRecord { spawned_in: before.spawned_in.filter(|_| is_vouched_for), ..before };
        let sig = self.mode_says(&member.name, &mode_record, at, |said| signer.sign(&said));
        note.insert(SIGNATURE.to_owned(), json!(ModeSignature { at, sig }));
        let raw = to_raw_value(&note)
            .map_err(|e| refusal::internal(format!("a member cannot be written: {e}")))?;
        member.foreign.put(KEY, raw);
        Ok(())
    }

    /// Returns the change that [`Team::lower_mode`] makes to a member's record. Returns `None` if
    /// each mode in the record is strict enough, or if the record has no valid signature.
    pub(crate) fn mode_lowered(
        &self,
        member: &Member,
        lowered: impl Fn(&str) -> Option<&'static str>,
    ) -> Option<ModeLowered> {
        let mode_record = ModeRecord::of(member);
        let too_free = |mode: &String| {
            Some(ModeLowered { before: mode.clone(), now: lowered(mode)?.to_owned() })
        };
        let change = mode_record.mode.iter().chain(&mode_record.spawned_in).find_map(too_free);
        change.filter(|_| self.vouches_for(&member.name, &mode_record))
    }

    pub(crate) fn put_lowered_mode(
        &self,
        member: &mut Member,
        lowered: impl Fn(&str) -> Option<&'static str>,
    ) -> Result<(), ApiError> {
        if self.mode_lowered(member, &lowered).is_none() {
            return Ok(());
        }
        let mode_record = ModeRecord::of(member);
        // A running member ignores a config entry without a mode. If the mode in force is not
        // strict enough, this function must therefore write the stricter mode into the entry. A
        // member that must plan stays in plan mode.
        if let Some(now) =
            Some(mode_record.mode()).filter(|mode| *mode != LEAST_FREE).and_then(&lowered)
        {
            member.mode = Some(now.to_owned());
        }
        if let Some(now) = mode_record.spawned_in.as_deref().and_then(&lowered) {
            let mut note = noted(member);
            note.insert("mode".to_owned(), json!(now));
            let raw = to_raw_value(&note)
                .map_err(|e| refusal::internal(format!("a member cannot be written: {e}")))?;
            member.foreign.put(KEY, raw);
        }
        self.sign_mode(member, true)
    }

    /// Whether a lead has signed the member's current mode. In a team without signatures, the
    /// result is always true.
    #[must_use]
    pub fn vouches_for_mode(&self, member: &Member) -> bool {
        self.vouches_for(&member.name, &ModeRecord::of(member))
    }

    /// Returns the mode that the member gets when its plan is approved. This is the mode in the
    /// member's config entry, or the mode from the spawn if the entry has no mode. If this mode is
    /// `plan` or has no valid signature, the result is `default`.
    pub(crate) fn mode_after_plan(&self, member: &Member) -> String {
        let mode_record = ModeRecord::of(member);
        let own = mode_record
            .mode
            .clone()
            .or(mode_record.spawned_in.clone())
            .filter(|mode| mode != LEAST_FREE);
        own.filter(|_| self.vouches_for(&member.name, &mode_record))
            .unwrap_or_else(|| PLAIN.to_owned())
    }

    fn vouches_for(&self, name: &AgentName, mode_record: &ModeRecord) -> bool {
        match (&self.trust, &mode_record.signature) {
            (Trust::Founding, _) => true,
            (Trust::Signed(_), None) => false,
            (Trust::Signed(keys), Some(signature)) => {
                self.mode_says(name, mode_record, signature.at, |said| {
                    keys.vouch_for(&said, &signature.sig)
                })
            }
        }
    }

    fn mode_says<T>(
        &self,
        name: &AgentName,
        mode_record: &ModeRecord,
        at: i64,
        then: impl FnOnce(Said<'_>) -> T,
    ) -> T {
        let born = self.born_ms().map(|ms| ms.to_string());
        let (name, at) = (name.inbox_file().as_str().to_lowercase(), at.to_string());
        let parts = [
            Some(self.dir().as_str()),
            born.as_deref(),
            Some(&name),
            mode_record.mode.as_deref(),
            mode_record.must_plan.then_some("must plan"),
            mode_record.spawned_in.as_deref(),
            Some(&at),
        ];
        then(Said { domain: DOMAIN, parts: parts.map(|part| part.map(str::as_bytes)).into() })
    }

    /// Returns the members whose mode in the config no lead has signed, although the team's leads
    /// sign. Such a member does not work in that mode. Members that another client runs are left
    /// out: their client decides.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn unsigned_modes(&self) -> Result<BTreeSet<AgentName>, ApiError> {
        let config = self.config().await?;
        let ours: Vec<_> =
            config.members.iter().filter(|member| SpawnRecord::is_run_by_us(member)).collect();
        // Without members of ours, there are no keys.
        if ours.is_empty() {
            return Ok(BTreeSet::new());
        }
        let mut keys = self.keys_of_leads().await?.into_iter();
        let Some(now) = keys.next() else { return Ok(BTreeSet::new()) };
        let reader = self.clone().trusting(Trust::Signed(LeadKeys::new(now, keys)));
        let is_unsigned = |member: &&Member| KnownMode::of(&reader, member).1.is_some();
        Ok(ours.into_iter().filter(is_unsigned).map(|member| member.name.clone()).collect())
    }

    /// Records in the journal that a mode in the config was refused.
    pub async fn note_refused_mode(&self, member: &AgentName, refused: &RefusedMode) {
        let changed = Event::MemberChanged {
            member: member.clone(),
            state: MemberChange::ModeRefused,
            detail: Some(refused.to_string()),
        };
        self.note([changed]).await;
    }
}

/// Whether two config entries of a member have the same mode data.
pub(crate) fn is_same_record(one: &Member, other: &Member) -> bool {
    ModeRecord::of(one) == ModeRecord::of(other)
}

/// Returns pitcrew's record of a member, as the config contains it.
fn noted(member: &Member) -> Map<String, Value> {
    member.foreign.get(KEY).and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// The mode in which a member works. Also holds the mode data of the member's config entry, in the
/// state in which it was checked last, to notice a change.
#[derive(Clone, Debug)]
pub struct KnownMode {
    mode: String,
    is_believed: bool,
    at: Option<i64>,
    seen: ModeRecord,
    /// Whether the last check refused the mode in the config entry.
    is_refused: bool,
}

/// The result of checking a member's config entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum ModeLook {
    /// The mode has not changed.
    Same,
    /// The member works in this mode from now on.
    Changed(String),
    /// The config entry has another mode, but the lead did not sign this mode, or the signature is
    /// older than the signature of the current mode. The refusal is reported only once.
    Refused(RefusedMode),
}

/// A mode in the config that is refused. Either the lead did not sign it, or its signature is older
/// than the signature of the current mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedMode {
    /// The mode in the config.
    pub claimed: String,
    /// The mode that stays in force.
    pub stays: String,
    is_old: bool,
}

impl std::fmt::Display for RefusedMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let why = if self.is_old {
            "the lead has said something else since"
        } else {
            "the lead has not signed it"
        };
        write!(
            f,
            "the mode {} in the config was refused: {why}; {} stays in force",
            self.claimed, self.stays
        )
    }
}

impl KnownMode {
    /// Returns the mode in which a member starts, and the mode that was refused, if any.
    ///
    /// If the config entry has a valid signature, the member starts in the mode of the entry.
    /// Without a valid signature, the member starts in `plan` if the entry's mode is `plan`, and
    /// otherwise in `default`.
    #[must_use]
    pub fn of(team: &Team, member: &Member) -> (Self, Option<RefusedMode>) {
        let seen = ModeRecord::of(member);
        if team.vouches_for(&member.name, &seen) {
            let at = seen.signature.as_ref().map(|signature| signature.at);
            return (
                Self {
                    mode: seen.mode().to_owned(),
                    is_believed: false,
                    at,
                    seen,
                    is_refused: false,
                },
                None,
            );
        }
        let stays = if seen.mode() == LEAST_FREE { LEAST_FREE } else { PLAIN };
        let refused = (seen.mode() != stays).then(|| RefusedMode {
            claimed: seen.mode().to_owned(),
            stays: stays.to_owned(),
            is_old: false,
        });
        let is_refused = refused.is_some();
        (Self { mode: stays.to_owned(), is_believed: false, at: None, seen, is_refused }, refused)
    }

    /// Returns the mode in which the lead itself starts, and the mode that was refused, if any. The
    /// lead starts in the mode from its config entry, if an earlier lead signed this mode or if it
    /// is `plan`. Otherwise the lead starts in `given`, the mode from the caller.
    #[must_use]
    pub fn of_lead(team: &Team, member: &Member, given: &str) -> (Self, Option<RefusedMode>) {
        let seen = ModeRecord::of(member);
        match &seen.mode {
            Some(mode) if team.vouches_for(&member.name, &seen) || mode == LEAST_FREE => {
                let at = seen.signature.as_ref().map(|signature| signature.at);
                (Self { mode: mode.clone(), is_believed: false, at, seen, is_refused: false }, None)
            }
            Some(claimed) => {
                let (claimed, stays) = (claimed.clone(), given.to_owned());
                let refused = RefusedMode { claimed, stays, is_old: false };
                (
                    Self {
                        mode: given.to_owned(),
                        is_believed: false,
                        at: None,
                        seen,
                        is_refused: true,
                    },
                    Some(refused),
                )
            }
            None => (
                Self {
                    mode: given.to_owned(),
                    is_believed: false,
                    at: None,
                    seen,
                    is_refused: false,
                },
                None,
            ),
        }
    }

    /// Returns the mode in force.
    #[must_use]
    pub fn mode(&self) -> &str {
        &self.mode
    }

    /// The time at which the lead signed the mode in force, in milliseconds since 1970. If that
    /// mode is not signed, the result is `None`.
    #[must_use]
    pub fn since_ms(&self) -> Option<i64> {
        self.at
    }

    /// Returns the mode of a member that another client runs. That client decides the mode itself,
    /// and pitcrew only displays the mode.
    #[must_use]
    pub fn of_another_client(member: &Member) -> Self {
        let seen = ModeRecord::of(member);
        Self { mode: seen.mode().to_owned(), is_believed: true, at: None, seen, is_refused: false }
    }

    /// Checks the member's config entry after the config changed.
    pub fn look(&mut self, team: &Team, member: &Member) -> ModeLook {
        let now = ModeRecord::of(member);
        if now == self.seen {
            return ModeLook::Same;
        }
        self.seen = now.clone();
        self.is_refused = false;
        // A config entry without a mode does not change the member's current mode.
        let Some(claimed) = now.mode.clone() else { return ModeLook::Same };
        let is_vouched_for = self.is_believed || team.vouches_for(&member.name, &now);
        let at = now.signature.filter(|_| is_vouched_for).map(|signature| signature.at);
        // Another program can restore an old config with a mode that the lead once signed. If the
        // lead signed another mode later, the old mode is refused.
        let is_old = is_vouched_for && at < self.at;
        if (is_vouched_for && !is_old) || claimed == LEAST_FREE {
            self.at = at.max(self.at);
            let changes = self.mode != claimed;
            self.mode.clone_from(&claimed);
            return if changes { ModeLook::Changed(claimed) } else { ModeLook::Same };
        }
        if claimed == self.mode {
            return ModeLook::Same;
        }
        self.is_refused = true;
        ModeLook::Refused(RefusedMode { claimed, stays: self.mode.clone(), is_old })
    }

    /// Checks the member's config entry again after the team learned new keys of leads. A mode that
    /// was refused before may have a signature by one of these keys.
    pub fn look_again(&mut self, team: &Team, member: &Member) -> ModeLook {
        let now = ModeRecord::of(member);
        if now != self.seen || !self.is_refused {
            return self.look(team, member);
        }
        let at = now.signature.as_ref().map(|signature| signature.at);
        if !team.vouches_for(&member.name, &now) || at < self.at {
            return ModeLook::Same;
        }
        (self.mode, self.at, self.is_refused) = (now.mode().to_owned(), at, false);
        ModeLook::Changed(self.mode.clone())
    }

    /// Whether the mode in the config entry that was checked last was refused.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }
}
