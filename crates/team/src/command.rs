//! The lead's commands: the frames that change what a teammate does or may do, how they are signed, and what is wrong with
//! one that is not. That an answer is given once is the ledger's (`requests`).

use std::collections::{HashMap, HashSet};
use std::fmt;

use pitcrew_protocol::{AgentName, ApiError, LEAD_NAME, Message, MessageId};
use pitcrew_store::{Event, LeaseName, StoredMessage};
use serde::Serialize;

use crate::lead_signer::{Said, Trust, VerifyKey};
use crate::{Mail, Team};

/// The types of the frames that are the lead's to send.
const COMMANDS: [&str; 3] = ["shutdown_request", "plan_approval_response", "permission_response"];

/// What is signed here, told from everything else that is ever signed.
const DOMAIN: &str = "pitcrew lead frame 1";

/// A message that claimed to be a command of the lead and was not taken for one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedFrame {
    /// The message.
    pub id: MessageId,
    /// Who it says it is from.
    pub from: String,
    /// The type of the frame it pretends to be.
    pub frame: String,
    /// Why it was not taken.
    pub reason: String,
}

impl RefusedFrame {
    /// A command that was carried out before and stands in the inbox once more; nothing for what is no command.
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

/// What can be wrong with a command.
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
            Self::Forged => "its signature does not fit what it says",
            Self::Repeated => "it was taken before",
        })
    }
}

impl Team {
    /// Signs `message` if it is a command and this is the lead's own handle.
    pub(crate) fn signed(&self, to: &AgentName, id: &MessageId, message: Message) -> Message {
        match &self.signer {
            Some(signer) if is_leads(&message.from, to) && command_in(&message.text).is_some() => {
                let signature = self.says(to, id, &message, |said| signer.sign(&said));
                message.with_signature(&signature)
            }
            Some(_) | None => message,
        }
    }

    /// Takes out of an inbox what pretends to be a command of the lead. A command that a lead of `to_come` signed is neither
    /// taken nor refused: it stays unread until that lead is known.
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

    /// The keys that may become the lead's: that of the process which took the lease of the run last, and those on record.
    /// None when nothing unread in the inbox of `to` depends on them. A forged command fits none of them, since only a lead
    /// has the private part of one.
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

    /// Notes that messages were refused, and marks them as read: nobody is to look at them again.
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

    /// What a command says, to be signed or verified: everything a reader or its model is shown of it.
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

/// The type of the command that some reader could take `text` for.
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
