//! Signs and checks the lead's commands. A command is a message that changes what a teammate does
//! or is allowed to do. The lead's handle on the team signs each command. The teammates' handles
//! refuse a command that the lead did not sign.
//!
//! This module also stores the public keys of the team's leads. The module `lead_signer` makes and
//! verifies signatures, and `mode_record` decides about signed permission modes. The module
//! `requests` makes sure that each request gets only one answer.

use std::collections::{HashMap, HashSet};
use std::fmt;

use pitcrew_protocol::{AgentName, ApiError, LEAD_NAME, Member, Message, MessageId};
use pitcrew_store::{Event, LeaseName, StoredMessage};
use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::lead_signer::{EARLIER_KEPT, LeadKeys, LeadSigner, Said, Trust, VerifyKey};
use crate::mode_record::is_same_record;
use crate::ours::SpawnRecord;
use crate::{Mail, Team, refusal};

/// The frame types that only the lead is allowed to send.
const COMMANDS: [&str; 3] = ["shutdown_request", "plan_approval_response", "permission_response"];

/// The domain of the signatures of commands. It separates these signatures from signatures of other
/// kinds of data.
const DOMAIN: &str = "pitcrew lead frame 1";

/// The public keys of all leads that signed for the team, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Keys {
    keys: Vec<VerifyKey>,
}

impl Keys {
    /// Builds a record with `key` as its only key.
    pub(crate) fn of(key: VerifyKey) -> Self {
        Self { keys: vec![key] }
    }
}

impl Document for Keys {
    const NAME: &'static str = "keys";
}

impl Team {
    /// Turns this handle into the lead's own handle. The lead's handle signs the lead's commands,
    /// and accepts only commands that are signed with the lead's key.
    #[must_use]
    pub fn sealed(self, signer: LeadSigner) -> Self {
        let trust = Trust::of(Some(*signer.verify_key()));
        self.by(Some(signer), trust)
    }

    /// Turns this handle into a teammate's handle. A teammate's handle checks the lead's commands
    /// with `trust`, and is not able to give commands.
    #[must_use]
    pub fn trusting(self, trust: Trust) -> Self {
        self.by(None, trust)
    }

    /// The way in which this handle verifies the lead's commands.
    #[must_use]
    pub fn trust(&self) -> &Trust {
        &self.trust
    }

    /// Returns the public keys of the team's leads, if the leads sign and this handle knows the
    /// keys.
    #[must_use]
    pub fn lead_keys(&self) -> Option<&LeadKeys> {
        match &self.trust {
            Trust::Founding => None,
            Trust::Signed(keys) => Some(keys),
        }
    }

    /// Returns the public key of the current lead, if that lead signs and this handle knows the
    /// key.
    #[must_use]
    pub fn verify_key(&self) -> Option<&VerifyKey> {
        self.lead_keys().map(LeadKeys::now)
    }

    /// Makes this process the lead, with a new key pair. The caller must hold the lease of the run.
    /// Messages that earlier leads signed stay valid. Permission modes that earlier leads signed
    /// are signed again with the new key. If no lead has signed for the team before, every mode in
    /// the config is signed without a check.
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
        // If no lead has signed for this team before, there is no signature to check.
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
            // If another process writes the config meanwhile, the store calls the edit again. Sign
            // a mode only if it has not changed since the check.
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

    /// Returns the public keys of all leads that signed, newest first. A new lead and its teammates
    /// accept everything that these leads signed.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn keys_of_leads(&self) -> Result<Vec<VerifyKey>, ApiError> {
        Ok(self.read_document::<Keys>().await?.keys)
    }

    /// Refuses a command that no reader would accept. In a team whose lead signs, only the lead's
    /// own process is able to send commands.
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

/// A refused message that claimed to be a command of the lead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedFrame {
    /// The id of the message.
    pub id: MessageId,
    /// The sender name in the message. The name may be false.
    pub from: String,
    /// The frame type that the message claims to have.
    pub frame: String,
    /// The reason for the refusal.
    pub reason: String,
}

impl RefusedFrame {
    /// Returns the refusal for a command that is in the inbox a second time after the teammate has
    /// carried it out. Returns `None` if the mail is not a command.
    #[must_use]
    pub fn repeated(mail: &Mail) -> Option<Self> {
        let frame = command_in(&mail.message.text)?;
        Some(Self::new(mail.id.clone(), &mail.message, frame, Flaw::Repeated))
    }

    fn new(id: MessageId, message: &Message, frame: &str, flaw: Flaw) -> Self {
        Self { id, from: message.from.clone(), frame: frame.to_owned(), reason: flaw.to_string() }
    }
}

impl fmt::Display for RefusedFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a {} that says it is from {} was refused: {} (message {})",
            self.frame, self.from, self.reason, self.id
        )
    }
}

/// The reasons to refuse a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    NotTheLeads,
    Unsigned,
    Forged,
    Repeated,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotTheLeads => "only the lead sends such a frame",
            Self::Unsigned => "the lead has not signed it",
            Self::Forged => "its signature does not match its content",
            Self::Repeated => "it was taken before",
        })
    }
}

impl Team {
    /// Signs `message` if it is a command and this handle belongs to the lead. Other messages stay
    /// unchanged.
    pub(crate) fn signed(&self, to: &AgentName, id: &MessageId, message: Message) -> Message {
        match &self.signer {
            Some(signer) if is_leads(&message.from, to) && command_in(&message.text).is_some() => {
                let signature = self.says(to, id, &message, |said| signer.sign(&said));
                message.with_signature(&signature)
            }
            Some(_) | None => message,
        }
    }

    /// Splits the messages of an inbox into two lists: the messages to keep, and the messages that
    /// falsely claim to be commands of the lead.
    ///
    /// If a key of `to_come` signed a command, the command is in neither list. It stays unread
    /// until the lead with that key is known.
    pub(crate) fn examine(
        &self,
        to: &AgentName,
        stored: Vec<StoredMessage>,
        to_come: &[VerifyKey],
    ) -> (Vec<StoredMessage>, Vec<RefusedFrame>) {
        let Trust::Signed(_) = &self.trust else { return (stored, Vec::new()) };
        if to.as_str() == LEAD_NAME {
            return (stored, Vec::new());
        }
        let is_read: HashMap<MessageId, bool> =
            stored.iter().fold(HashMap::new(), |mut ids, stored| {
                *ids.entry(stored.id.clone()).or_default() |= stored.message.is_read();
                ids
            });
        let (mut taken, mut refused) = (HashSet::new(), Vec::new());
        let mut kept = Vec::with_capacity(stored.len());
        for StoredMessage { id, message } in stored {
            let Some(frame) = command_in(&message.text) else {
                kept.push(StoredMessage { id, message });
                continue;
            };
            let was_taken =
                taken.contains(&id) || (!message.is_read() && is_read.get(&id) == Some(&true));
            match self.flaw(to, &id, &message).or(was_taken.then_some(Flaw::Repeated)) {
                Some(Flaw::Forged) if self.is_signed_by(to_come, to, &id, &message) => {}
                Some(flaw) => {
                    refused.push((message.is_read(), RefusedFrame::new(id, &message, frame, flaw)))
                }
                None => {
                    taken.insert(id.clone());
                    kept.push(StoredMessage { id, message });
                }
            }
        }
        (
            kept,
            refused
                .into_iter()
                .filter(|(is_read, _)| !is_read)
                .map(|(_, refused)| refused)
                .collect(),
        )
    }

    /// Returns the keys that may belong to the next lead: the key of the process that took the
    /// lease of the run last, and the recorded keys. The list is empty if every signature of an
    /// unread command in the inbox of `to` fits a key that this handle knows. No forged command
    /// fits a returned key, because only a lead has the private key.
    pub(crate) async fn keys_to_come(
        &self,
        to: &AgentName,
        stored: &[StoredMessage],
    ) -> Result<Vec<VerifyKey>, ApiError> {
        let is_unknown = |StoredMessage { id, message }: &StoredMessage| {
            let is_new_command = !message.is_read() && command_in(&message.text).is_some();
            is_new_command && self.flaw(to, id, message) == Some(Flaw::Forged)
        };
        if to.as_str() == LEAD_NAME || !stored.iter().any(is_unknown) {
            return Ok(Vec::new());
        }
        let mut keys = self.keys_of_leads().await?;
        let holder = self.ask(self.backend().last_holder(self.dir(), &LeaseName::Run)).await?;
        keys.extend(holder.and_then(|holder| holder.verify_key?.parse::<VerifyKey>().ok()));
        Ok(keys)
    }

    /// Records that messages were refused. Marks these messages as read, so that no reader sees
    /// them again.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn refuse(&self, to: &AgentName, refused: &[RefusedFrame]) -> Result<(), ApiError> {
        if refused.is_empty() {
            return Ok(());
        }
        let ids: Vec<MessageId> = refused.iter().map(|refused| refused.id.clone()).collect();
        self.ask(self.backend().acknowledge(self.dir(), &to.inbox_file(), &ids)).await?;
        self.note(refused.iter().cloned().map(|RefusedFrame { id, from, frame, reason }| {
            Event::FrameRefused { id, to: to.clone(), from, frame, reason }
        }))
        .await;
        Ok(())
    }

    fn flaw(&self, to: &AgentName, id: &MessageId, message: &Message) -> Option<Flaw> {
        let Trust::Signed(keys) = &self.trust else { return None };
        if !is_leads(&message.from, to) {
            return Some(Flaw::NotTheLeads);
        }
        match message.signature() {
            None => Some(Flaw::Unsigned),
            Some(signature) => {
                let fits = self.says(to, id, message, |said| keys.vouch_for(&said, signature));
                (!fits).then_some(Flaw::Forged)
            }
        }
    }

    fn is_signed_by(
        &self,
        keys: &[VerifyKey],
        to: &AgentName,
        id: &MessageId,
        message: &Message,
    ) -> bool {
        let fits = |signature| {
            self.says(to, id, message, |said| keys.iter().any(|key| key.fits(&said, signature)))
        };
        message.signature().is_some_and(fits)
    }

    /// Builds the content that the signature of a command covers, and passes the content to `then`.
    /// The function `then` signs or verifies the content. The content includes everything that a
    /// reader or its model sees.
    fn says<T>(
        &self,
        to: &AgentName,
        id: &MessageId,
        message: &Message,
        then: impl FnOnce(Said<'_>) -> T,
    ) -> T {
        let born = self.born_ms().map(|ms| ms.to_string());
        let to = to.inbox_file().as_str().to_lowercase();
        let Message { text, timestamp, summary, color, .. } = message;
        let parts = [
            Some(self.dir().as_str()),
            born.as_deref(),
            Some(&to),
            Some(&id.0),
            timestamp.as_deref(),
            Some(text),
            summary.as_deref(),
            color.as_deref(),
        ];
        then(Said { domain: DOMAIN, parts: parts.map(|part| part.map(str::as_bytes)).into() })
    }
}

fn is_leads(from: &str, to: &AgentName) -> bool {
    from == LEAD_NAME && to.as_str() != LEAD_NAME
}

/// If any client could read `text` as a command, returns the type of the command.
fn command_in(text: &str) -> Option<&'static str> {
    let inner = text.trim_matches([' ', '\t', '\n', '\r']);
    if !inner.starts_with('{') {
        return None;
    }
    let object: serde_json::Map<String, serde_json::Value> =
        pitcrew_protocol::from_text(inner).ok()?;
    let kind = object.get("type")?.as_str()?;
    COMMANDS.into_iter().find(|command| *command == kind)
}
