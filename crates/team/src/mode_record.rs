//! The permission mode a member works in, as the lead signed it: recorded, verified, and watched for changes by hand.
//!
//! A mode stands in the config, where whoever can write the user's files can change it. A member that knows its lead's key
//! takes another one from there only with the lead's signature, or when it is `plan`, the least free of all: that anybody
//! may have it go back to.

use pitcrew_protocol::{AgentName, ApiError, Member, PermissionMode};
use pitcrew_store::{Event, MemberChange};
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};

use crate::lead_signer::{Said, Trust};
use crate::members::ModeLowered;
use crate::ours::KEY;
use crate::{Team, refusal};

/// What is signed here, told from everything else that is ever signed.
const DOMAIN: &str = "pitcrew member mode 1";

/// The key of the signature in what we note on a member.
const SIGNATURE: &str = "modeSig";

/// The mode that allows least.
pub(crate) const LEAST_FREE: &str = PermissionMode::Plan.as_str();

/// The mode of a member that has no other.
const PLAIN: &str = PermissionMode::Default.as_str();

/// What a member's record says of its mode.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ModeRecord {
    mode: Option<String>,
    must_plan: bool,
    spawned_in: Option<String>,
    signature: Option<ModeSignature>,
}

/// The lead's signature under it, and which of several is the latest.
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

    /// The mode it comes to: as set, which the approval of a plan does too; before that it plans, if it must.
    fn mode(&self) -> &str {
        let spawned_in = if self.must_plan { Some(LEAST_FREE) } else { self.spawned_in.as_deref() };
        self.mode.as_deref().or(spawned_in).unwrap_or(PLAIN)
    }
}

impl Team {
    /// Signs a member's mode as its record has it, if this is the lead's own handle; a member's record that nobody has
    /// vouched for until now loses the mode it says it was spawned in.
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

    /// What [`Team::lower_mode`] changes of a member's record; nothing where no mode of it is too free.
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
        // A process of the member that lives takes no mode from a record without one. Who has to plan first goes on planning.
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

    /// Whether a lead of the team has signed the member's mode as it stands, or nothing is signed in this team.
    #[must_use]
    pub fn vouches_for_mode(&self, member: &Member) -> bool {
        self.vouches_for(&member.name, &ModeRecord::of(member))
    }

    /// The mode a member is to go on in when its plan is approved: its own, unless that is to plan, or nobody has vouched
    /// for it.
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

    /// Notes that a mode in the config was not taken.
    pub async fn note_refused_mode(&self, member: &AgentName, refused: &RefusedMode) {
        let changed = Event::MemberChanged {
            member: member.clone(),
            state: MemberChange::ModeRefused,
            detail: Some(refused.to_string()),
        };
        self.note([changed]).await;
    }
}

/// Whether two records of a member say the same of its mode.
pub(crate) fn is_same_record(one: &Member, other: &Member) -> bool {
    ModeRecord::of(one) == ModeRecord::of(other)
}

/// What we note on a member, as it stands.
fn noted(member: &Member) -> Map<String, Value> {
    member.foreign.get(KEY).and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// The mode one member works in, as far as its record may decide that.
#[derive(Clone, Debug)]
pub struct KnownMode {
    mode: String,
    is_believed: bool,
    at: Option<i64>,
    seen: ModeRecord,
    /// Whether the record that was seen says another mode and was not believed.
    is_refused: bool,
}

/// What a look at a member's record finds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum ModeLook {
    /// Nothing to do.
    Same,
    /// The member works in this mode from now on.
    Changed(String),
    /// The record says another mode, and is not to be believed; told once.
    Refused(RefusedMode),
}

/// A mode that was written by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedMode {
    /// The mode that the config says.
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
    /// The mode a member starts in; also what was refused of its record.
    ///
    /// A record that nobody vouches for makes it `default`, or `plan` where it says so.
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

    /// The mode of the lead itself: what its record says when a lead before it has signed that, else `given`.
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

    /// The mode in force.
    #[must_use]
    pub fn mode(&self) -> &str {
        &self.mode
    }

    /// When the lead signed it, in milliseconds since 1970; none where nobody did.
    #[must_use]
    pub fn since_ms(&self) -> Option<i64> {
        self.at
    }

    /// The mode of a member that another client runs: that goes by a mode of its own, which is only shown here.
    #[must_use]
    pub fn of_another_client(member: &Member) -> Self {
        let seen = ModeRecord::of(member);
        Self { mode: seen.mode().to_owned(), is_believed: true, at: None, seen, is_refused: false }
    }

    /// Looks at the member's record, after the config changed.
    pub fn look(&mut self, team: &Team, member: &Member) -> ModeLook {
        let now = ModeRecord::of(member);
        if now == self.seen {
            return ModeLook::Same;
        }
        self.seen = now.clone();
        self.is_refused = false;
        // A record without a mode takes none back.
        let Some(claimed) = now.mode.clone() else { return ModeLook::Same };
        let is_vouched_for = self.is_believed || team.vouches_for(&member.name, &now);
        let at = now.signature.filter(|_| is_vouched_for).map(|signature| signature.at);
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

    /// Looks at the member's record once more, after other keys became known: what was refused may be signed by one of them.
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

    /// Whether the record that was looked at last says another mode and was not believed.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }
}
