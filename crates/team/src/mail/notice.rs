//! Notices: messages to the lead that the team itself writes.

use pitcrew_protocol::{AgentName, ApiError};
use pitcrew_store::UnreadLimit;

use crate::Team;
use crate::actor::SYSTEM;
use crate::delivery::{OutgoingMessage, Receipt, as_text};

impl Team {
    /// Sends the lead a notice, such as one about what the user did in the lead's place. The sender
    /// is the system, so that nobody takes the text for words of the user. A text over the limit of
    /// messages is cut.
    ///
    /// # Errors
    /// `internal_error`.
    pub async fn notify_lead(&self, text: &str, summary: &str) -> Result<Receipt, ApiError> {
        let most = usize::try_from(self.limits().content_chars).unwrap_or(usize::MAX);
        let text: String = text.chars().take(most).collect();
        self.deliver(OutgoingMessage {
            id: self.teams().entropy().message_id(self.now_ms())?,
            from: SYSTEM.to_owned(),
            author: None,
            color: None,
            to: AgentName::lead(),
            text: as_text(&text),
            summary: Some(summary.to_owned()),
            limit: UnreadLimit::None,
        })
        .await
    }
}
