//! Records which messages are in a conversation, marks messages as read, and moves read messages to
//! the archive.

use pitcrew_protocol::{AgentName, ApiError, MessageId};
use pitcrew_store::{Event, StoredMessage};

use super::valid_frames::Senders;
use crate::Team;
use crate::ours::SpawnRecord;

/// The number of read messages that stay in the inbox of a member that pitcrew runs. Every
/// operation on a message reads or writes the whole inbox, so a longer inbox makes a busy team
/// slower.
const READ_KEPT: usize = 50;

/// The number of read messages that an inbox may have in addition to [`READ_KEPT`]. If the inbox
/// has more, its oldest read messages are moved to the archive. Without this margin, each message
/// would need a write to the archive.
const READ_SLACK: usize = 50;

impl Team {
    /// Records that messages are in the conversation of `name`. From now on these messages count as
    /// delivered.
    pub async fn injected(&self, name: &AgentName, ids: &[MessageId]) {
        self.note(ids.iter().map(|id| Event::MessageInjected { id: id.clone(), to: name.clone() }))
            .await;
    }

    /// Marks messages of `name` as read.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn acknowledge(&self, name: &AgentName, ids: &[MessageId]) -> Result<(), ApiError> {
        if ids.is_empty() {
            return Ok(());
        }
        let inbox = name.inbox_file();
        let there = self.ask(self.backend().inbox(self.dir(), &inbox)).await?;
        let read = there
            .iter()
            .filter(|stored| stored.message.is_read() || ids.contains(&stored.id))
            .count();
        // In a team of the session dialect (the format of newer reference clients), a message
        // leaves the inbox when it is marked as read. If the message carries a request, the request
        // must be recorded before the message leaves.
        let leaves =
            |stored: &StoredMessage| stored.message.msg_v.is_some() && ids.contains(&stored.id);
        let leaving: Vec<StoredMessage> = there.into_iter().filter(leaves).collect();
        if !leaving.is_empty() {
            self.keep_requests(name, &self.verified(name, leaving, Senders::Members).await?)
                .await?;
        }
        self.ask(self.backend().acknowledge(self.dir(), &inbox, ids)).await?;
        self.note(
            ids.iter().map(|id| Event::MessageAcknowledged { id: id.clone(), to: name.clone() }),
        )
        .await;
        self.trim(name, read).await
    }

    /// Moves the oldest read messages of `name` out of its inbox if there are too many. `read` is
    /// the number of read messages. Each new message rewrites the whole inbox, so a long inbox is
    /// slow.
    pub(super) async fn trim(&self, name: &AgentName, read: usize) -> Result<(), ApiError> {
        // Messages are moved only out of the inbox of a member that pitcrew runs. Another client
        // may mark the messages of its inbox by their position, and would mark the wrong messages
        // after a move.
        if read > READ_KEPT + READ_SLACK
            && self.config().await?.member(name.as_str()).is_some_and(SpawnRecord::is_run_by_us)
        {
            self.ask(self.backend().trim_inbox(self.dir(), &name.inbox_file(), READ_KEPT)).await?;
        }
        Ok(())
    }
}
