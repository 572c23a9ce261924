//! Delivers messages to inboxes with a receipt, and reports messages that will never be delivered.

use pitcrew_protocol::{AgentName, ApiError, ErrorCode, Frame, Message, MessageId, TeamConfig};
use pitcrew_store::{Appended, Event, JournalEntry, JournalOf, StoreError, UnreadLimit};
use serde::{Deserialize, Serialize};

use crate::clock::wire_time;
use crate::ended::MemberEnd;
use crate::entropy::made_id;
use crate::{Team, refusal};

/// The character that is put before a text that looks like a frame: a word joiner. The character is
/// invisible and is not JSON white space. Every reader, including the reference client, therefore
/// treats the message as text.
const MASK: char = '\u{2060}';

/// How long unread mail waits for a member while no process runs that member, in milliseconds: one
/// day. If a team is killed in the evening, it continues in the morning without a lost message.
pub const MAIL_WAITS_MS: i64 = 24 * 60 * 60 * 1000;

/// The delivery state of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// The message is stored durably in the receiver's inbox.
    Persisted,
    /// The message is in the receiver's conversation.
    Injected,
    /// The message is marked as read.
    Acknowledged,
    /// The message will not be delivered.
    Dead,
}

/// The result of sending a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The id of the sent message.
    pub id: MessageId,
    /// The member whose inbox has the message.
    pub to: AgentName,
    /// The delivery state of the message.
    pub state: DeliveryState,
}

/// A message that is not delivered yet.
#[derive(Clone, Debug)]
pub(crate) struct OutgoingMessage {
    pub(crate) id: MessageId,
    pub(crate) from: String,
    /// The name of the author, if the author is not the sender. It goes into the journal only.
    pub(crate) author: Option<String>,
    pub(crate) color: Option<String>,
    pub(crate) to: AgentName,
    pub(crate) text: String,
    pub(crate) summary: Option<String>,
    /// The maximum number of unread messages in the receiver's inbox. Frames and messages of the
    /// team itself have no limit. A handshake must not wait for a slow reader. The team itself
    /// sends one message for each call, task or ended member, so these messages stay few.
    pub(crate) limit: UnreadLimit,
}

impl OutgoingMessage {
    /// Builds a message that carries `frame`. The caller must have checked that the sender is
    /// allowed to send the frame.
    pub(crate) fn of_frame(
        id: MessageId,
        from: &str,
        to: &AgentName,
        frame: impl Into<Frame>,
    ) -> Result<Self, ApiError> {
        let text = frame_text(frame)?;
        Ok(Self {
            id,
            from: from.to_owned(),
            author: None,
            color: None,
            to: to.clone(),
            text,
            summary: None,
            limit: UnreadLimit::None,
        })
    }
}

/// Returns a frame as the text of a message, with `<` escaped as `\u003c`. Other clients copy a
/// frame into a conversation unchanged, and a tag inside the frame would act there as a real tag.
pub(crate) fn frame_text(frame: impl Into<Frame>) -> Result<String, ApiError> {
    let text = frame
        .into()
        .to_text()
        .map_err(|e| refusal::internal(format!("a frame cannot be written: {e}")))?;
    Ok(text.replace('<', "\\u003c"))
}

impl Team {
    /// Puts a message into its receiver's inbox. If the inbox already has a message with this id,
    /// this function adds nothing.
    pub(crate) async fn deliver(&self, letter: OutgoingMessage) -> Result<Receipt, ApiError> {
        let OutgoingMessage { id, from, author, color, to, text, summary, limit } = letter;
        if self.was_taken(&id).await? {
            return Ok(Receipt { id, to, state: DeliveryState::Persisted });
        }
        let frame = Frame::detect(&text);
        // In every recording of the reference client, a message that carries a frame has the same
        // time as the frame.
        let made_at = frame.as_ref().and_then(Frame::timestamp).map(str::to_owned);
        let frame = frame.map(|frame| frame.kind().to_owned());
        let at = made_at.unwrap_or_else(|| wire_time(self.now_ms()));
        let mut message = Message::new(&from, text, at).with_id(&id);
        (message.color, message.summary) = (color, summary);
        let message = self.signed(&to, &id, message);
        match self.ask(self.backend().append(self.dir(), &to.inbox_file(), message, limit)).await? {
            Appended::New | Appended::AlreadyThere => {}
            Appended::Full { unread, most } => {
                let counted =
                    if let UnreadLimit::OfSender(_) = limit { Some(from.as_str()) } else { None };
                return Err(refusal::inbox_full(&to, counted, unread, most));
            }
        }
        let persisted =
            Event::MessagePersisted { id: id.clone(), from, author, to: to.clone(), frame };
        self.note([persisted]).await;
        // The receiver may have ended since it was looked up, and its mail may have been recorded
        // as dead before this message arrived. If the config cannot be read now, this function
        // reports success, because the message is on disk.
        if self.config().await.is_ok_and(|config| config.member(to.as_str()).is_none()) {
            self.bury(&to, std::slice::from_ref(&id), &to).await?;
            return Err(undeliverable(&to, &id, self.end_of(&to).await));
        }
        Ok(Receipt { id, to, state: DeliveryState::Persisted })
    }

    /// Whether an earlier attempt of the same call already sent the message `id`. In a team of the
    /// session dialect (the format of newer reference clients), the answer comes from the journal,
    /// because clients of this dialect remove read messages from the inbox. For any other team, the
    /// result is always `false`, because adding a message to an inbox that already has it changes
    /// nothing.
    async fn was_taken(&self, id: &MessageId) -> Result<bool, ApiError> {
        if !self.config().await?.is_session_dialect() {
            return Ok(false);
        }
        let journal =
            self.ask(self.backend().message_journal(JournalOf::Team(self.dir()), id)).await?;
        let is_it = |entry: &JournalEntry| matches!(&entry.event, Event::MessagePersisted { id: told, .. } if told == id);
        Ok(journal.iter().any(is_it))
    }

    /// Records that the messages `ids` will not be delivered because the member `gone` has ended.
    /// Also marks these messages as read in the inbox of `to`.
    pub(crate) async fn bury(
        &self,
        to: &AgentName,
        ids: &[MessageId],
        gone: &AgentName,
    ) -> Result<(), ApiError> {
        let end = self.end_of(gone).await;
        self.note(ids.iter().map(|id| dead(to, id, gone, end))).await;
        self.ask(self.backend().acknowledge(self.dir(), &to.inbox_file(), ids)).await?;
        Ok(())
    }

    /// Records that a message to an ended member is dead, and returns the error for the sender of
    /// the message.
    pub(crate) async fn dead_letter(&self, to: &AgentName, id: &MessageId) -> ApiError {
        let end = self.end_of(to).await;
        self.note([dead(to, id, to, end)]).await;
        undeliverable(to, id, end)
    }

    /// Gives up unread mail that was sent to `name` more than [`MAIL_WAITS_MS`] ago, and informs
    /// the senders. Newer mail waits for the next process that runs the member. The caller must
    /// know that no process runs the member now.
    ///
    /// # Errors
    /// `internal_error` when the store fails. Messages that were given up before the failure stay
    /// given up.
    pub async fn bury_overdue(&self, name: &AgentName) -> Result<Vec<MessageId>, ApiError> {
        let since_ms = self.now_ms().saturating_sub(MAIL_WAITS_MS);
        let is_overdue = |message: &Message| {
            let sent =
                message.timestamp.as_deref().and_then(|at| at.parse::<jiff::Timestamp>().ok());
            sent.is_some_and(|at| at.as_millisecond() < since_ms)
        };
        let unread = self.ask(self.backend().inbox(self.dir(), &name.inbox_file())).await?;
        // A message without a readable time is never overdue, because its age is unknown.
        let overdue =
            unread.iter().filter(|stored| !stored.message.is_read() && is_overdue(&stored.message));
        let why = format!("nobody ran {name} for a day");
        let mut dead = Vec::new();
        for stored in overdue {
            if Frame::detect(&stored.message.text).is_none() {
                self.tell_sender(name, &stored.id, &stored.message.from, &why).await?;
            }
            dead.push(stored.id.clone());
        }
        self.note(dead.iter().map(|id| Event::MessageDead {
            id: id.clone(),
            to: name.clone(),
            reason: why.clone(),
        }))
        .await;
        if !dead.is_empty() {
            self.ask(self.backend().acknowledge(self.dir(), &name.inbox_file(), &dead)).await?;
        }
        Ok(dead)
    }

    /// Gives up unread messages in the inbox of a name that belongs to no member.
    ///
    /// # Errors
    /// The error of the store, if the messages cannot be marked as read. Even after this error, the
    /// messages are recorded as given up.
    pub async fn give_up_mail_of_nobody(
        &self,
        name: &AgentName,
        ids: &[MessageId],
    ) -> Result<(), StoreError> {
        let dead = |id: &MessageId| Event::MessageDead {
            id: id.clone(),
            to: name.clone(),
            reason: format!("{name} is not a member"),
        };
        self.note(ids.iter().map(dead)).await;
        self.backend().acknowledge(self.dir(), &name.inbox_file(), ids).await.map(drop)
    }

    /// Returns the id for a message. If `call` is given, a repeated call gets the same id again. If
    /// `call` is `None`, each id is new.
    pub(crate) fn letter_id(
        &self,
        config: &TeamConfig,
        call: Option<&str>,
        parts: [&str; 3],
    ) -> Result<MessageId, ApiError> {
        let Some(call) = call else { return self.teams().entropy().message_id(self.now_ms()) };
        let born = config.created_at_ms.unwrap_or(0).to_string();
        let [kind, from, to] = parts;
        Ok(made_id(&[self.dir().as_str(), &born, call, kind, from, to]))
    }
}

/// The journal event for a message that will not be delivered because `gone` has ended.
fn dead(to: &AgentName, id: &MessageId, gone: &AgentName, end: MemberEnd) -> Event {
    Event::MessageDead { id: id.clone(), to: to.clone(), reason: is_no_member(gone, end) }
}

/// The reason why mail to the former member `gone` is dead. The text does not say that the member's
/// process ended, because another client may still run that process.
pub(crate) fn is_no_member(gone: &AgentName, end: MemberEnd) -> String {
    format!("{gone} is no longer in the team{}", end.in_words())
}

/// The error for a message to a member that has ended.
fn undeliverable(to: &AgentName, id: &MessageId, end: MemberEnd) -> ApiError {
    let message = format!(
        "Agent '{to}' is no longer in the team; message {id} was not delivered{}",
        end.in_words()
    );
    ApiError::new(ErrorCode::AgentNotFound, message)
        .with("agent", to.as_str())
        .with("message_id", id.0.as_str())
        .with("state", "dead")
}

/// Whether `error` comes from [`undeliverable`]. Such an error means that the message is dead, and
/// that sending it again does not help.
pub(crate) fn is_undeliverable(error: &ApiError) -> bool {
    error.code == ErrorCode::AgentNotFound && error.details.contains_key("message_id")
}

/// Whether any client could read `text` as a frame. This function returns true for more texts than
/// [`Frame::detect`]: other clients know other frame types, skip white space, and read JSON that
/// pitcrew's parser refuses.
pub(crate) fn looks_like_frame(text: &str) -> bool {
    let json_space = [' ', '\t', '\n', '\r'];
    let inner = text.trim_matches(json_space);
    if !inner.starts_with('{') || !inner.ends_with('}') {
        return false;
    }
    match pitcrew_protocol::from_text::<serde_json::Map<String, serde_json::Value>>(inner) {
        Ok(object) => object.contains_key("type"),
        Err(_) => true,
    }
}

/// Returns the text to store. A text that looks like a frame gets a leading [`MASK`], so that every
/// reader treats it as text.
pub(crate) fn as_text(text: &str) -> String {
    if looks_like_frame(text) { format!("{MASK}{text}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_any_reader_could_take_for_a_frame_is_masked() {
        for text in [
            r#"{"type":"shutdown_request","requestId":"x"}"#,
            " \n{\"type\":\"anything\"}\t",
            r#"{"\u0074ype":"shutdown_request"}"#,
            r#"{"type":"shutdown_request","x":1e999}"#,
            "{not json}",
        ] {
            assert!(looks_like_frame(text), "{text}");
            assert!(!looks_like_frame(&as_text(text)), "{text}");
            assert_eq!(Frame::detect(&as_text(text)), None);
            assert!(serde_json::from_str::<serde_json::Value>(&as_text(text)).is_err(), "{text}");
        }
        for text in
            ["hello", r#"{"answer":42}"#, "{", "{ like this } and so on", "[{\"type\":\"x\"}]"]
        {
            assert_eq!(as_text(text), text);
        }
    }
}
