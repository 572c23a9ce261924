//! Mail that goes to its receiver's conversation by another way than its inbox, such as the message socket of another client.
//!
//! The message is in the inbox first, and stays there as its record. Whoever then marks it as read, under the inbox's lock,
//! brings it to the receiver: its client, which reads the inbox, or we. The way itself is `runtime`'s.

use pitcrew_protocol::{AgentName, ApiError, Frame, MessageId, TeamConfig};
use pitcrew_store::Event;

use crate::Team;
use crate::delivery::{OutgoingMessage, Receipt};
use crate::mail::Mail;
use crate::ours::SpawnRecord;
use pitcrew_store::UnreadLimit;

impl Team {
    /// Takes a text out of the unread mail of `to`, to bring it there by another way. `None` when its receiver has taken it
    /// already, or when it carries a frame: those are read from inboxes only.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn claim_mail(
        &self,
        to: &AgentName,
        id: &MessageId,
    ) -> Result<Option<Mail>, ApiError> {
        let found = self.unread(to).await?.into_iter().find(|mail| mail.id == *id);
        let Some(mail) = found.filter(|mail| Frame::detect(&mail.message.text).is_none()) else {
            return Ok(None);
        };
        let inbox = to.inbox_file();
        let claimed = self
            .ask(self.backend().acknowledge(self.dir(), &inbox, std::slice::from_ref(id)))
            .await?;
        Ok(claimed.contains(id).then_some(mail))
    }

    /// Notes that claimed mail was handed over.
    pub async fn handed_over(&self, to: &AgentName, id: &MessageId) {
        self.note([Event::MessageAcknowledged { id: id.clone(), to: to.clone() }]).await;
    }

    /// Puts claimed mail that could not be handed over into the inbox again, as a new message.
    ///
    /// # Errors
    /// As for every message; then it is told as dead.
    pub async fn put_back(&self, to: &AgentName, mail: Mail) -> Result<Receipt, ApiError> {
        let id = self.teams().entropy().message_id(self.now_ms())?;
        let reason = format!("sent again as {}", id.0);
        let Mail { id: first, message, .. } = mail;
        let letter = OutgoingMessage {
            id,
            from: message.from,
            color: message.color,
            to: to.clone(),
            text: message.text,
            summary: message.summary,
            limit: UnreadLimit::None,
        };
        self.note([Event::MessageDead { id: first, to: to.clone(), reason }]).await;
        self.deliver(letter).await
    }
}

/// Whether the lead of a session reads its inbox now: only while it has a named teammate of its own. Of other teams `true`.
#[must_use]
pub fn lead_reads_inbox(config: &TeamConfig) -> bool {
    !config.is_session_dialect()
        || config.teammates().any(|member| SpawnRecord::of(member).is_none())
}
