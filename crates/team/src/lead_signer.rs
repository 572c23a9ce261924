//! The key pair of a lead, and the keys with which a teammate verifies its lead's commands.
//!
//! A lead's process creates a key pair for its team and never shares the private key. This module
//! signs and verifies bytes, and contains the rule for accepting a new lead's key. The module
//! `lead` decides which frames need a signature, and `mode_record` decides about signed modes. The
//! crate `runtime` gives the public key to the teammates.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use pitcrew_protocol::{ApiError, TeamConfig};
use pitcrew_store::LeaseHolder;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::Teams;

#[cfg(test)]
mod tests;

/// The fixed bytes before an Ed25519 public key in SPKI form (RFC 8410, section 4).
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The number of keys of earlier leads that are kept. Messages that those leads signed may still be
/// unread in an inbox.
pub(crate) const EARLIER_KEPT: usize = 8;

/// The key pair of a lead's process. All clones share one key pair. The private key is never
/// printed, and is erased from memory when the last clone is dropped.
#[derive(Clone)]
pub struct LeadSigner(Arc<Pair>);

struct Pair {
    key: SigningKey,
    shown: VerifyKey,
}

impl LeadSigner {
    /// Creates a new key pair for the lead of one team.
    ///
    /// # Errors
    /// `internal_error` when the operating system gives no random bytes.
    pub fn make(teams: &Teams) -> Result<Self, ApiError> {
        Ok(Self::of(&Zeroizing::new(teams.entropy().seed()?), teams.now_ms()))
    }

    fn of(seed: &[u8; 32], made_ms: i64) -> Self {
        let key = SigningKey::from_bytes(seed);
        let shown = VerifyKey { made_ms, key: key.verifying_key() };
        Self(Arc::new(Pair { key, shown }))
    }

    /// Returns the public key.
    #[must_use]
    pub fn verify_key(&self) -> &VerifyKey {
        &self.0.shown
    }

    /// Signs the content `said` and returns the signature in base64url.
    pub(crate) fn sign(&self, said: &Said<'_>) -> String {
        URL_SAFE_NO_PAD.encode(self.0.key.sign(&said.to_bytes()).to_bytes())
    }
}

impl fmt::Debug for LeadSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeadSeal")
    }
}

/// The public key of a lead. Its text form is `<ms>.<base64url of the key in SPKI form>`, as in the
/// session dialect (the format of newer reference clients). `<ms>` is the time when the key was
/// created, in milliseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct VerifyKey {
    made_ms: i64,
    key: VerifyingKey,
}

/// The error for a text that is not a valid lead key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} is no key of a lead: expected <milliseconds>.<base64url of an Ed25519 public key>"
)]
pub struct VerifyKeyError {
    given: String,
}

impl VerifyKey {
    pub(crate) fn fits(&self, said: &Said<'_>, signature: &str) -> bool {
        let bytes = URL_SAFE_NO_PAD.decode(signature).ok();
        let signature = bytes.and_then(|bytes| Signature::from_slice(&bytes).ok());
        signature
            .is_some_and(|signature| self.key.verify_strict(&said.to_bytes(), &signature).is_ok())
    }
}

impl fmt::Display for VerifyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spki = [SPKI.as_slice(), self.key.as_bytes()].concat();
        write!(f, "{}.{}", self.made_ms, URL_SAFE_NO_PAD.encode(spki))
    }
}

impl fmt::Debug for VerifyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifyKey({self})")
    }
}

impl FromStr for VerifyKey {
    type Err = VerifyKeyError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (made_ms, key) = given.split_once('.')?;
            let spki = URL_SAFE_NO_PAD.decode(key).ok()?;
            let bytes: [u8; 32] = spki.strip_prefix(&SPKI)?.try_into().ok()?;
            // A weak key accepts a signature for many different messages, so a signature with such
            // a key proves nothing.
            let key = VerifyingKey::from_bytes(&bytes).ok().filter(|key| !key.is_weak())?;
            Some(Self { made_ms: made_ms.parse().ok()?, key })
        };
        read().ok_or_else(|| VerifyKeyError { given: given.chars().take(120).collect() })
    }
}

impl TryFrom<String> for VerifyKey {
    type Error = VerifyKeyError;

    fn try_from(given: String) -> Result<Self, Self::Error> {
        given.parse()
    }
}

impl From<VerifyKey> for String {
    fn from(key: VerifyKey) -> Self {
        key.to_string()
    }
}

/// The way in which a teammate verifies the commands of its lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Checks only the name in `from`, as pitcrew's specification (the founding guide) describes.
    /// The lead's client signs nothing.
    #[default]
    Founding,
    /// Checks the signature with these keys.
    Signed(LeadKeys),
}

/// The key of the current lead and the keys of earlier leads. Unread messages that an earlier lead
/// signed are still valid. In the text form, commas separate the keys, and the current key is
/// first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeadKeys(Arc<Known>);

#[derive(Debug, PartialEq, Eq)]
struct Known {
    now: VerifyKey,
    earlier: Vec<VerifyKey>,
}

impl From<VerifyKey> for LeadKeys {
    fn from(now: VerifyKey) -> Self {
        Self::new(now, [])
    }
}

impl LeadKeys {
    pub(crate) fn new(now: VerifyKey, earlier: impl IntoIterator<Item = VerifyKey>) -> Self {
        let earlier = earlier.into_iter().filter(|key| *key != now).take(EARLIER_KEPT).collect();
        Self(Arc::new(Known { now, earlier }))
    }

    /// Returns the key of the current lead.
    #[must_use]
    pub fn now(&self) -> &VerifyKey {
        &self.0.now
    }

    /// Whether `signature` is a valid signature of `said` by the current lead or an earlier lead.
    pub(crate) fn vouch_for(&self, said: &Said<'_>, signature: &str) -> bool {
        std::iter::once(&self.0.now).chain(&self.0.earlier).any(|key| key.fits(said, signature))
    }
}

impl fmt::Display for LeadKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.now)?;
        self.0.earlier.iter().try_for_each(|key| write!(f, ",{key}"))
    }
}

impl FromStr for LeadKeys {
    type Err = VerifyKeyError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let (now, earlier) =
            given.split_once(',').map_or((given, None), |(now, earlier)| (now, Some(earlier)));
        let earlier = earlier.into_iter().flat_map(|keys| keys.split(',')).map(str::parse);
        Ok(Self::new(now.parse()?, earlier.collect::<Result<Vec<_>, _>>()?))
    }
}

/// The reason why the process that holds the lease of the run is not accepted as the new lead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRenewed {
    /// The known lead has not ended, so no other process can have replaced it.
    #[error("process {pid} leads the team and has not ended")]
    OldLeadLives {
        /// The process id of the known lead.
        pid: u32,
    },
    /// The new process has no key, although the earlier lead had a key.
    #[error(
        "process {pid} holds the lease of the run and signs nothing, although the lead before it did"
    )]
    SignsNothing {
        /// The id of the process that holds the lease.
        pid: u32,
    },
    /// The new process has a key that is not valid.
    #[error("process {pid} holds the lease of the run, but its public key is invalid")]
    NoKey {
        /// The id of the process that holds the lease.
        pid: u32,
    },
}

impl Trust {
    /// Returns the trust in a lead with this key. If `key` is `None`, returns the trust in a lead
    /// that signs nothing.
    #[must_use]
    pub fn of(key: Option<VerifyKey>) -> Self {
        key.map_or(Self::Founding, |key| Self::Signed(key.into()))
    }

    /// Adds the keys of former leads. `Trust::Founding` stays unchanged.
    #[must_use]
    pub fn knowing(self, former: impl IntoIterator<Item = VerifyKey>) -> Self {
        match self {
            Self::Founding => Self::Founding,
            Self::Signed(keys) => {
                let earlier: Vec<VerifyKey> =
                    keys.0.earlier.iter().copied().chain(former).collect();
                let mut known = Vec::with_capacity(earlier.len());
                for key in earlier {
                    if !known.contains(&key) {
                        known.push(key);
                    }
                }
                Self::Signed(LeadKeys::new(keys.0.now, known))
            }
        }
    }

    /// Returns a warning for a member that joins the team. There is a warning if the team's lead
    /// signs nothing, or if its signatures cannot be verified.
    #[must_use]
    pub fn caution(&self, config: &TeamConfig) -> Option<String> {
        let lead = match (self, config.is_session_dialect()) {
            (Self::Signed(_), _) => return None,
            (Self::Founding, true) => "session, whose signatures cannot be verified here",
            (Self::Founding, false) => "client that signs nothing",
        };
        let team = &config.name;
        Some(format!(
            "team {team} is led by a {lead}: requests and answers of its lead are known by the name they carry"
        ))
    }

    /// Returns the new trust after another process took the lease of the run. A known key is
    /// replaced only if the holder of the lease has changed and the process of the known lead has
    /// ended. If no lead is known yet, the first lease holder's key is accepted.
    ///
    /// # Errors
    /// [`NotRenewed`] if the new key is not accepted. The old trust then stays valid.
    pub fn renewed(
        &self,
        known: Option<&LeaseHolder>,
        known_has_ended: bool,
        holder: &LeaseHolder,
    ) -> Result<Self, NotRenewed> {
        let shown = holder.verify_key.as_deref().map(str::parse::<VerifyKey>);
        let pid = holder.pid;
        let known_stands = match known {
            Some(known) => !known_has_ended || is_one_process(known, holder),
            None => matches!(self, Self::Signed(_)),
        };
        match (self, shown) {
            (Self::Founding, None) => Ok(Self::Founding),
            (Self::Signed(keys), Some(Ok(key))) if key == keys.0.now => Ok(self.clone()),
            (_, _) if known_stands => {
                Err(NotRenewed::OldLeadLives { pid: known.map_or(pid, |known| known.pid) })
            }
            (Self::Signed(_), None) => Err(NotRenewed::SignsNothing { pid }),
            (_, Some(Err(_))) => Err(NotRenewed::NoKey { pid }),
            (Self::Founding, Some(Ok(key))) => Ok(Self::Signed(key.into())),
            (Self::Signed(keys), Some(Ok(key))) => {
                let earlier = std::iter::once(keys.0.now).chain(keys.0.earlier.iter().copied());
                Ok(Self::Signed(LeadKeys::new(key, earlier)))
            }
        }
    }
}

fn is_one_process(a: &LeaseHolder, b: &LeaseHolder) -> bool {
    (a.pid, a.start_ticks) == (b.pid, b.start_ticks)
}

/// The content that is signed: the kind of the data, and the parts of the data in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said<'a> {
    pub(crate) domain: &'static str,
    pub(crate) parts: Vec<Option<&'a [u8]>>,
}

impl Said<'_> {
    /// Encodes the content for signing. The length of each part is written before the part, and an
    /// absent part has another encoding than an empty part. Two different contents therefore never
    /// give the same bytes.
    fn to_bytes(&self) -> Vec<u8> {
        fn put(bytes: &mut Vec<u8>, part: &[u8]) {
            bytes.extend((part.len() as u64).to_be_bytes());
            bytes.extend(part);
        }
        let mut bytes = Vec::new();
        put(&mut bytes, self.domain.as_bytes());
        bytes.extend((self.parts.len() as u64).to_be_bytes());
        for part in &self.parts {
            bytes.push(u8::from(part.is_some()));
            put(&mut bytes, part.unwrap_or_default());
        }
        bytes
    }
}
