//! Inbox messages, in both dialects.
//!
//! Source: `fixtures/*/teams/*/inboxes/*.json`. The session dialect adds `msgV`, `msg_id`, `type` and `lead_sig`; what is
//! ours stands under `metadata.pitcrew`.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::wire::wire_object;

wire_object! {
    /// One entry of an inbox.
    pub struct Message {
        /// Who sent it: a member's name, or what an outside writer calls itself.
        pub from: String => "from" req,
        /// Plain text, or a frame as JSON in a string.
        pub text: String => "text" req,
        /// A preview of 5 to 10 words; frames carry none.
        pub summary: String => "summary" opt,
        /// ISO 8601, UTC, milliseconds, `Z`.
        pub timestamp: String => "timestamp" opt,
        /// The sender's color; the lead's messages carry none.
        pub color: String => "color" opt,
        /// Session dialect: 1.
        pub msg_v: i64 => "msgV" opt,
        /// Session dialect: a UUID.
        pub msg_id: String => "msg_id" opt,
        /// Session dialect: `message`.
        pub kind: String => "type" opt,
        /// Whether the receiver has taken it.
        pub read: bool => "read" opt,
        /// Ours stands under `pitcrew`; others' is kept.
        pub metadata: Map<String, Value> => "metadata" opt,
    }
}

/// The id of a message: ours, the session dialect's, or one made from what the message says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageId(pub String);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Message {
    /// A message of the named dialect, unread and with no id yet.
    #[must_use]
    pub fn new(from: &str, text: String, timestamp: String) -> Self {
        Self {
            from: from.to_owned(),
            text,
            summary: None,
            timestamp: Some(timestamp),
            color: None,
            msg_v: None,
            msg_id: None,
            kind: None,
            read: Some(false),
            metadata: None,
            foreign: crate::Foreign::default(),
        }
    }

    /// Whether the receiver has taken it; an entry that does not say is unread.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.read == Some(true)
    }

    /// The same message carrying `id` as ours, under `metadata.pitcrew.id`.
    #[must_use]
    pub fn with_id(self, id: &MessageId) -> Self {
        self.with_ours("id", &id.0)
    }

    /// The same message with the lead's signature, under `metadata.pitcrew.sig`.
    #[must_use]
    pub fn with_signature(self, signature: &str) -> Self {
        self.with_ours("sig", signature)
    }

    fn with_ours(mut self, key: &str, given: &str) -> Self {
        let metadata = self.metadata.get_or_insert_default();
        let given = Value::String(given.to_owned());
        match metadata.get_mut("pitcrew").and_then(Value::as_object_mut) {
            Some(ours) => drop(ours.insert(key.to_owned(), given)),
            None => drop(metadata.insert("pitcrew".to_owned(), serde_json::json!({key: given}))),
        }
        self
    }

    /// The id it carries: ours under `metadata.pitcrew.id`, else the session dialect's `msg_id`.
    #[must_use]
    pub fn id(&self) -> Option<MessageId> {
        self.ours("id").or(self.msg_id.as_deref()).map(|id| MessageId(id.to_owned()))
    }

    /// The lead's signature, when it carries one of ours.
    #[must_use]
    pub fn signature(&self) -> Option<&str> {
        self.ours("sig")
    }

    fn ours(&self, key: &str) -> Option<&str> {
        self.metadata.as_ref()?.get("pitcrew")?.get(key)?.as_str()
    }
}

/// The ids of an inbox's messages in order: the one each carries, else one made from sender, time and text, and from how
/// many equal ones came before it, so that it stays the same while the inbox only grows.
#[must_use]
pub fn message_ids<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<MessageId> {
    let mut seen = std::collections::HashMap::<uuid::Uuid, u32>::new();
    let made = |m: &Message, seen: &mut std::collections::HashMap<uuid::Uuid, u32>| {
        let says =
            format!("{}\n{}\n{}", m.from, m.timestamp.as_deref().unwrap_or_default(), m.text);
        let key = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, says.as_bytes());
        let nth = seen.entry(key).and_modify(|n| *n += 1).or_insert(1);
        MessageId(format!("{key}-{nth}"))
    };
    messages.into_iter().map(|m| m.id().unwrap_or_else(|| made(m, &mut seen))).collect()
}
