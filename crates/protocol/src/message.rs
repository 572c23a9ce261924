//! Inbox messages, in both dialects: the named dialect of older reference clients and the session
//! dialect of newer ones.
//!
//! Source: `fixtures/*/teams/*/inboxes/*.json`. The session dialect adds `msgV`, `msg_id`, `type`
//! and `lead_sig`. Our own fields are stored under `metadata.pitcrew`.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::wire::wire_object;

wire_object! {
    /// One message in an inbox.
    pub struct Message {
        /// The sender: the name of a member, or the name that a writer from outside the team chose
        /// for itself.
        pub from: String => "from" req,
        /// The message text: plain text, or a protocol frame as JSON in a string.
        pub text: String => "text" req,
        /// A preview of 5 to 10 words. Protocol frames have no preview.
        pub summary: String => "summary" opt,
        /// The time of sending in ISO 8601: UTC, with milliseconds and `Z`.
        pub timestamp: String => "timestamp" opt,
        /// The sender's color. Messages of the lead have no color.
        pub color: String => "color" opt,
        /// The message version, always 1. Only the session dialect has this field.
        pub msg_v: i64 => "msgV" opt,
        /// The message id, a UUID. Only the session dialect has this field.
        pub msg_id: String => "msg_id" opt,
        /// The message type, always `message`. Only the session dialect has this field.
        pub kind: String => "type" opt,
        /// Whether the receiver has read the message.
        pub read: bool => "read" opt,
        /// Additional data. Pitcrew's data is under the key `pitcrew`. Data of other clients is
        /// kept.
        pub metadata: Map<String, Value> => "metadata" opt,
    }
}

/// The id of a message. Pitcrew or a client of the session dialect gave the message this id, or the
/// id was computed from the message's content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageId(pub String);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Message {
    /// Creates an unread message of the named dialect. The message has no id yet.
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

    /// Whether the receiver has read the message. A message without the field `read` counts as
    /// unread.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.read == Some(true)
    }

    /// Adds an id of pitcrew to the message, under `metadata.pitcrew.id`.
    #[must_use]
    pub fn with_id(self, id: &MessageId) -> Self {
        self.with_ours("id", &id.0)
    }

    /// Adds the lead's signature to the message, under `metadata.pitcrew.sig`.
    #[must_use]
    pub fn with_signature(self, signature: &str) -> Self {
        self.with_ours("sig", signature)
    }

    fn with_ours(mut self, key: &str, given: &str) -> Self {
        let metadata = self.metadata.get_or_insert_default();
        let given = Value::String(given.to_owned());
        match metadata.get_mut("pitcrew").and_then(Value::as_object_mut) {
            Some(ours) => drop(ours.insert(key.to_owned(), given)),
            // If `pitcrew` is missing or is not an object, write a new object.
            None => drop(metadata.insert("pitcrew".to_owned(), serde_json::json!({key: given}))),
        }
        self
    }

    /// Returns the message's id: pitcrew's id under `metadata.pitcrew.id`, otherwise the `msg_id`
    /// of the session dialect.
    #[must_use]
    pub fn id(&self) -> Option<MessageId> {
        self.ours("id").or(self.msg_id.as_deref()).map(|id| MessageId(id.to_owned()))
    }

    /// Returns the lead's signature, if pitcrew stored one in the message.
    #[must_use]
    pub fn signature(&self) -> Option<&str> {
        self.ours("sig")
    }

    fn ours(&self, key: &str) -> Option<&str> {
        self.metadata.as_ref()?.get("pitcrew")?.get(key)?.as_str()
    }
}

/// Returns the ids of an inbox's messages, in order. For a message without an id, the id is
/// computed from the sender, the time, the text, and the number of equal messages before it. Such
/// an id stays the same as long as messages are only appended to the inbox.
#[must_use]
pub fn message_ids<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<MessageId> {
    let mut seen = std::collections::HashMap::<uuid::Uuid, u32>::new();
    let made = |m: &Message, seen: &mut std::collections::HashMap<uuid::Uuid, u32>| {
        let says =
            format!("{}\n{}\n{}", m.from, m.timestamp.as_deref().unwrap_or_default(), m.text);
        let key = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, says.as_bytes());
        // Equal messages need different ids, so each id ends with a running number.
        let nth = seen.entry(key).and_modify(|n| *n += 1).or_insert(1);
        MessageId(format!("{key}-{nth}"))
    };
    messages.into_iter().map(|m| m.id().unwrap_or_else(|| made(m, &mut seen))).collect()
}
