//! The conversations of teammates that another client runs.
//!
//! For each teammate, this module stores the client's conversation id. It also stores the messages
//! that were written to the client's socket but not yet seen in the conversation, and decides what
//! happens to these messages. The crate `runtime` reads the conversations.

use std::collections::{BTreeMap, HashSet};

use pitcrew_protocol::{AgentName, ApiError, Frame, LEAD_NAME, MessageId};
use pitcrew_store::{Event, JournalEntry, JournalOf, UnreadLimit};
use serde::{Deserialize, Serialize};

use crate::Team;
use crate::delivery::{OutgoingMessage, Receipt};
use crate::document::Document;
use crate::entropy::made_id;
use crate::mail::Mail;

/// The current conversation of a teammate that another client runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientConversation {
    /// The client's id of the conversation, a UUID.
    pub id: String,
    /// Messages that were sent at this time or later belong to this conversation. Earlier messages
    /// belonged to the previous conversation. The unit is milliseconds since 1970.
    pub since_ms: i64,
    /// The number of the teammate's model calls that the journal already had when the conversation
    /// began.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls_before: u32,
    /// Messages that were written to the client's socket, but not yet seen in the conversation,
    /// oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub brought: Vec<MessageId>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The stored document: one conversation for each teammate that another client runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ClientConversations {
    conversations: BTreeMap<AgentName, ClientConversation>,
}

impl Document for ClientConversations {
    const NAME: &'static str = "conversations";
}

impl ClientConversations {
    pub(crate) fn of(&self, name: &AgentName) -> Option<&ClientConversation> {
        self.conversations.get(name)
    }
}

impl Team {
    /// Returns the recorded conversation of `name`. The result is `None` if no conversation is
    /// recorded, because an earlier version of pitcrew may not have recorded it.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn client_conversation(
        &self,
        name: &AgentName,
    ) -> Result<Option<ClientConversation>, ApiError> {
        let name = name.clone();
        self.edit_document(move |all: &mut ClientConversations| Ok(all.of(&name).cloned())).await
    }

    /// Records that a new conversation of `name` replaces the previous one. Returns the id of the
    /// new conversation.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn begin_client_conversation(&self, name: &AgentName) -> Result<String, ApiError> {
        let id = self.teams().entropy().token()?;
        // Mail that is unread now belongs to the new conversation too, even if it was sent earlier.
        let since_ms = self
            .unread(name)
            .await?
            .iter()
            .map(sent_at_ms)
            .min()
            .unwrap_or(i64::MAX)
            .min(self.now_ms());
        let (summary, _) = self.ask(self.backend().journal_summary(self.dir())).await?;
        let calls_before = summary.members.get(name).map_or(0, |member| member.turns);
        let begun =
            ClientConversation { id: id.clone(), since_ms, calls_before, brought: Vec::new() };
        let name = name.clone();
        self.edit_document(move |all: &mut ClientConversations| {
            all.conversations.insert(name.clone(), begun.clone());
            Ok(())
        })
        .await?;
        Ok(id)
    }

    /// Records that the caller is about to write a message to the socket of `name`, whose client is
    /// in `conversation`. The caller must make this record before it writes to the socket, so that
    /// a crash loses no message.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn bring_by_socket(
        &self,
        name: &AgentName,
        conversation: &str,
        id: &MessageId,
    ) -> Result<(), ApiError> {
        let (name, conversation, id) = (name.clone(), conversation.to_owned(), id.clone());
        self.edit_document(move |all: &mut ClientConversations| {
            let known = all.conversations.entry(name.clone()).or_default();
            if known.id != conversation {
                // If a session of another client leads the team, the lead's client starts new
                // conversations by itself. The recorded conversation id of the lead may therefore
                // be out of date.
                *known = ClientConversation {
                    id: conversation.clone(),
                    ..ClientConversation::default()
                };
            }
            known.brought.push(id.clone());
            Ok(())
        })
        .await
    }

    /// Records that the messages `ids`, which were written to the socket of `name`, are now in the
    /// conversation of `name`.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn arrived(&self, name: &AgentName, ids: &[MessageId]) -> Result<(), ApiError> {
        if !ids.is_empty() {
            self.injected(name, ids).await;
        }
        self.forget_brought(name, ids).await
    }

    /// Removes messages from the list of messages that were written to the socket of `name`.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn forget_brought(
        &self,
        name: &AgentName,
        ids: &[MessageId],
    ) -> Result<(), ApiError> {
        if ids.is_empty() {
            return Ok(());
        }
        let (name, ids) = (name.clone(), ids.to_vec());
        self.edit_document(move |all: &mut ClientConversations| {
            if let Some(conversation) = all.conversations.get_mut(&name) {
                conversation.brought.retain(|id| !ids.contains(id));
            }
            Ok(())
        })
        .await
    }

    /// Returns all known mail of `name` in the order of sending: the messages that are in the
    /// inbox, and the messages that have left the inbox. If another client sent a message and the
    /// receiver removed it from the inbox file, that message is not known.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn known_mail(&self, name: &AgentName) -> Result<Vec<Mail>, ApiError> {
        let mut mail = self.past_mail(name).await?;
        mail.extend(self.mail(name).await?);
        // A message that was moved out of the inbox can be newer than a message that is still in
        // the inbox.
        mail.sort_by_key(sent_at_ms);
        Ok(mail)
    }

    /// Returns the id that the message `id` gets when it is sent a second time. This new id is
    /// always the same for one message, so a crash while the message is sent again cannot produce
    /// two copies.
    #[must_use]
    pub fn again_id(&self, id: &MessageId) -> MessageId {
        made_id(&[self.dir().as_str(), "again", &id.0])
    }

    /// Records as read every message that the client of a member has taken, unless the journal
    /// already records the message as read or dead. After the member is gone, the inbox no longer
    /// shows which messages the client has taken. The caller must first record the messages that
    /// the model never read.
    pub(crate) async fn note_taken(&self, name: &AgentName) -> Result<(), ApiError> {
        let mut taken = self.known_mail(name).await?;
        taken.retain(|mail| mail.message.is_read());
        if taken.is_empty() {
            return Ok(());
        }
        let (journal, _) = self.ask(self.backend().journal_since(self.dir(), 0)).await?;
        // A message that is already recorded as read or dead must not get a second, different
        // record.
        let told: HashSet<&MessageId> =
            journal.iter().filter_map(|entry| settled(&entry.event)).collect();
        let untold = taken.into_iter().map(|mail| mail.id).filter(|id| !told.contains(id));
        self.note(
            untold
                .map(|id| Event::MessageAcknowledged { id, to: name.clone() })
                .collect::<Vec<_>>(),
        )
        .await;
        Ok(())
    }

    /// Puts a message into the inbox of `to` a second time, because the process that took the
    /// message ended before the model read the message. A `remark`, if given, becomes the first
    /// line of the text. Returns `None` if the message was already sent a second time or is dead.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn deliver_again(
        &self,
        to: &AgentName,
        mail: &Mail,
        remark: Option<&str>,
    ) -> Result<Option<Receipt>, ApiError> {
        if self.is_settled(&mail.id).await? {
            return Ok(None);
        }
        let id = self.again_id(&mail.id);
        let is_sent = |entry: &JournalEntry| matches!(&entry.event, Event::MessagePersisted { id: sent, .. } if *sent == id);
        // A crash can happen after the copy with the new id is sent and before the original message
        // is recorded as dead. In that case the copy must not be sent again; only the record is
        // missing.
        let was_sent = self.journal_of(&id).await?.iter().any(is_sent);
        let text = match remark {
            Some(remark) if mail.frame.is_none() => format!("{remark}\n{}", mail.message.text),
            Some(_) | None => mail.message.text.clone(),
        };
        let letter = OutgoingMessage {
            id: id.clone(),
            from: mail.message.from.clone(),
            author: None,
            color: mail.message.color.clone(),
            to: to.clone(),
            text,
            summary: mail.message.summary.clone(),
            limit: UnreadLimit::None,
        };
        let receipt = if was_sent { None } else { Some(self.deliver(letter).await?) };
        let reason = format!("sent again as {id}");
        // The copy of the message is already sent. The original message is marked as read only now.
        // A crash between sending and marking leaves both messages in the inbox, but loses neither.
        self.ask(self.backend().acknowledge(
            self.dir(),
            &to.inbox_file(),
            std::slice::from_ref(&mail.id),
        ))
        .await?;
        self.note([Event::MessageDead { id: mail.id.clone(), to: to.clone(), reason }]).await;
        Ok(receipt)
    }

    /// Records that the client of `gone` took a message but the model never read it, and informs
    /// the sender. Returns false if the message was already sent a second time or recorded as dead.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn never_read(&self, gone: &AgentName, mail: &Mail) -> Result<bool, ApiError> {
        if self.is_settled(&mail.id).await? {
            return Ok(false);
        }
        let reason = format!("{gone} ended before it read it");
        if Frame::detect(&mail.message.text).is_none() {
            self.tell_sender(gone, &mail.id, &mail.message.from, &reason).await?;
        }
        self.note([Event::MessageDead { id: mail.id.clone(), to: gone.clone(), reason }]).await;
        Ok(true)
    }

    /// Puts a text from the lead's process into the inbox of a teammate that another client runs.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn tell_client(&self, to: &AgentName, text: &str) -> Result<Receipt, ApiError> {
        self.deliver(OutgoingMessage {
            id: self.teams().entropy().message_id(self.now_ms())?,
            from: LEAD_NAME.to_owned(),
            author: None,
            color: None,
            to: to.clone(),
            text: text.to_owned(),
            summary: None,
            limit: UnreadLimit::None,
        })
        .await
    }

    /// Whether the journal records that the message is dead (will not be delivered).
    async fn is_settled(&self, id: &MessageId) -> Result<bool, ApiError> {
        let is_dead = |entry: &JournalEntry| matches!(&entry.event, Event::MessageDead { id: dead, .. } if dead == id);
        Ok(self.journal_of(id).await?.iter().any(is_dead))
    }

    async fn journal_of(&self, id: &MessageId) -> Result<Vec<JournalEntry>, ApiError> {
        self.ask(self.backend().message_journal(JournalOf::Team(self.dir()), id)).await
    }
}

/// If `event` records that a message was read or will not be delivered, returns the id of that
/// message.
fn settled(event: &Event) -> Option<&MessageId> {
    match event {
        Event::MessageAcknowledged { id, .. } | Event::MessageDead { id, .. } => Some(id),
        _ => None,
    }
}

/// The time when a message was sent, in milliseconds since 1970. If the message has no time, the
/// result is 0.
#[must_use]
pub fn sent_at_ms(mail: &Mail) -> i64 {
    let at = mail.message.timestamp.as_deref().and_then(|at| at.parse::<jiff::Timestamp>().ok());
    at.map_or(0, jiff::Timestamp::as_millisecond)
}
