//! The conversations of teammates that another client runs: the id by which the client keeps each, and which mail was written
//! to its socket and is not known to be in the conversation. What such mail comes to is decided here; reading a conversation
//! is `runtime`'s.

use std::collections::{BTreeMap, HashSet};

use pitcrew_protocol::{AgentName, ApiError, Frame, LEAD_NAME, MessageId};
use pitcrew_store::{Event, JournalEntry, JournalOf, UnreadLimit};
use serde::{Deserialize, Serialize};

use crate::Team;
use crate::delivery::{OutgoingMessage, Receipt};
use crate::document::Document;
use crate::entropy::made_id;
use crate::mail::Mail;

/// The conversation of a teammate with another client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientConversation {
    /// The id by which the client keeps it: a UUID.
    pub id: String,
    /// Since when mail is for it, in milliseconds since 1970: what was sent before was for the conversation before it.
    pub since_ms: i64,
    /// How many model calls of the teammate the journal had when it began.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls_before: u32,
    /// Messages that were written to the client's socket and not seen in the conversation since, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub brought: Vec<MessageId>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The document: the conversation of each such teammate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ClientConversations {
    conversations: BTreeMap<AgentName, ClientConversation>,
}

impl Document for ClientConversations {
    const NAME: &'static str = "conversations";
}

impl Team {
    /// The conversation of `name`, when it was started by a pitcrew that recorded one.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn client_conversation(
        &self,
        name: &AgentName,
    ) -> Result<Option<ClientConversation>, ApiError> {
        let name = name.clone();
        self.edit_document(move |all: &mut ClientConversations| {
            Ok(all.conversations.get(&name).cloned())
        })
        .await
    }

    /// Records that a new conversation of `name` begins, in place of the one before. Answers with its id.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn begin_client_conversation(&self, name: &AgentName) -> Result<String, ApiError> {
        let id = self.teams().entropy().token()?;
        // What nobody has taken yet is for it as well.
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

    /// Records that a message is written to the socket of `name`, whose client is in this conversation; before it is, so that
    /// a crash loses nothing.
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
                // The lead of a session begins its conversations by itself.
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

    /// Notes that messages which were written to the socket of `name` are in its conversation.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn arrived(&self, name: &AgentName, ids: &[MessageId]) -> Result<(), ApiError> {
        if !ids.is_empty() {
            self.injected(name, ids).await;
        }
        self.forget_brought(name, ids).await
    }

    /// Takes messages off the list of those that were written to the socket of `name`.
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

    /// All mail of `name` that is known, in the order in which it was sent: what is in its inbox, and what has left it. What
    /// another client sent and its receiver took out of the file is not known.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn known_mail(&self, name: &AgentName) -> Result<Vec<Mail>, ApiError> {
        let mut mail = self.past_mail(name).await?;
        mail.extend(self.mail(name).await?);
        mail.sort_by_key(sent_at_ms);
        Ok(mail)
    }

    /// The id under which a message is sent again: the same each time, so that a crash between its two notes sends it once.
    #[must_use]
    pub fn again_id(&self, id: &MessageId) -> MessageId {
        made_id(&[self.dir().as_str(), "again", &id.0])
    }

    /// Notes of the messages that the client of a member has taken that it has, as far as nobody did: once the member is gone,
    /// nobody can tell by its inbox. What was never read must be noted before.
    pub(crate) async fn note_taken(&self, name: &AgentName) -> Result<(), ApiError> {
        let mut taken = self.known_mail(name).await?;
        taken.retain(|mail| mail.message.is_read());
        if taken.is_empty() {
            return Ok(());
        }
        let (journal, _) = self.ask(self.backend().journal_since(self.dir(), 0)).await?;
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

    /// Puts a message into the inbox of `to` once more, since the process that had taken it ended before its model had it.
    /// With `remark`, a line in front of the text says so. `None` when that was done before, or the message is dead.
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
        let was_sent = self.journal_of(&id).await?.iter().any(is_sent);
        let text = match remark {
            Some(remark) if mail.frame.is_none() => format!("{remark}\n{}", mail.message.text),
            Some(_) | None => mail.message.text.clone(),
        };
        let letter = OutgoingMessage {
            id: id.clone(),
            from: mail.message.from.clone(),
            color: mail.message.color.clone(),
            to: to.clone(),
            text,
            summary: mail.message.summary.clone(),
            limit: UnreadLimit::None,
        };
        let receipt = if was_sent { None } else { Some(self.deliver(letter).await?) };
        let reason = format!("sent again as {id}");
        self.ask(self.backend().acknowledge(
            self.dir(),
            &to.inbox_file(),
            std::slice::from_ref(&mail.id),
        ))
        .await?;
        self.note([Event::MessageDead { id: mail.id.clone(), to: to.clone(), reason }]).await;
        Ok(receipt)
    }

    /// Notes that a message which the client of `gone` took never reached its model; its sender is told. Says whether that is
    /// news: a message that was sent again, or told to be dead, is neither.
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

    /// Puts words of the lead's own process into the inbox of a teammate of another client.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn tell_client(&self, to: &AgentName, text: &str) -> Result<Receipt, ApiError> {
        self.deliver(OutgoingMessage {
            id: self.teams().entropy().message_id(self.now_ms())?,
            from: LEAD_NAME.to_owned(),
            color: None,
            to: to.clone(),
            text: text.to_owned(),
            summary: None,
            limit: UnreadLimit::None,
        })
        .await
    }

    /// Whether it was told of a message that it will not be delivered.
    async fn is_settled(&self, id: &MessageId) -> Result<bool, ApiError> {
        let is_dead = |entry: &JournalEntry| matches!(&entry.event, Event::MessageDead { id: dead, .. } if dead == id);
        Ok(self.journal_of(id).await?.iter().any(is_dead))
    }

    async fn journal_of(&self, id: &MessageId) -> Result<Vec<JournalEntry>, ApiError> {
        self.ask(self.backend().message_journal(JournalOf::Team(self.dir()), id)).await
    }
}

/// The message that an event tells the end of.
fn settled(event: &Event) -> Option<&MessageId> {
    match event {
        Event::MessageAcknowledged { id, .. } | Event::MessageDead { id, .. } => Some(id),
        _ => None,
    }
}

/// When a message was sent, in milliseconds since 1970; 0 when it does not say.
#[must_use]
pub fn sent_at_ms(mail: &Mail) -> i64 {
    let at = mail.message.timestamp.as_deref().and_then(|at| at.parse::<jiff::Timestamp>().ok());
    at.map_or(0, jiff::Timestamp::as_millisecond)
}
