//! Delivers a message into the receiver's conversation without the inbox, for example through the
//! message socket of another client.
//!
//! Each message is first written to the inbox, and stays there as a record. Two programs can then
//! take the message: pitcrew, or the receiver's client, which reads the inbox. The program that
//! first marks the message as read, under the inbox's lock, must also deliver it. The crate
//! `runtime` implements the delivery without the inbox.

use pitcrew_protocol::{AgentName, ApiError, Frame, MessageId, TeamConfig};
use pitcrew_store::Event;
use pitcrew_store::UnreadLimit;

use crate::Team;
use crate::delivery::{OutgoingMessage, Receipt};
use crate::mail::Mail;
use crate::ours::SpawnRecord;

impl Team {
    /// Claims one unread text message of `to`, so that the caller is able to deliver it without the
    /// inbox. Returns `None` if the receiver has already taken the message. Also returns `None` if
    /// the message carries a frame, because clients read frames from inboxes only.
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
        // If two callers try this at the same time, only one of them marks the message as read. The
        // other caller must not deliver the message.
        let claimed = self
            .ask(self.backend().acknowledge(self.dir(), &inbox, std::slice::from_ref(id)))
            .await?;
        Ok(claimed.contains(id).then_some(mail))
    }

    /// Records that the claimed message `id` was delivered.
    pub async fn handed_over(&self, to: &AgentName, id: &MessageId) {
        self.note([Event::MessageAcknowledged { id: id.clone(), to: to.clone() }]).await;
    }

    /// Puts a claimed message that was not delivered back into the inbox, as a new message.
    ///
    /// # Errors
    /// The errors of every delivery. If the delivery fails, the message is recorded as dead.
    pub async fn put_back(&self, to: &AgentName, mail: Mail) -> Result<Receipt, ApiError> {
        let id = self.teams().entropy().message_id(self.now_ms())?;
        let reason = format!("sent again as {}", id.0);
        let Mail { id: first, message, .. } = mail;
        let letter = OutgoingMessage {
            id,
            from: message.from,
            author: None,
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

/// Whether the lead reads its inbox now. In a team of the session dialect (the format of newer
/// reference clients), the lead reads its inbox only while the team has a teammate that pitcrew did
/// not spawn. For all other teams, the result is always `true`.
#[must_use]
pub fn lead_reads_inbox(config: &TeamConfig) -> bool {
    !config.is_session_dialect()
        || config.teammates().any(|member| SpawnRecord::of(member).is_none())
}
