//! Mail: the inboxes of a team.

use async_trait::async_trait;
use pitcrew_protocol::{InboxFile, Message, MessageId, TeamDir};

use crate::StoreError;

/// The inboxes of teams.
#[async_trait]
pub trait MailStore: Send + Sync {
    /// Returns all messages of an inbox, in order. Returns an empty list for an inbox that does not
    /// exist yet. Skips entries of the inbox that are not messages.
    async fn inbox(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
    ) -> Result<Vec<StoredMessage>, StoreError>;

    /// Returns messages that have left an inbox or have perhaps left it. The messages are in the
    /// order in which they left the inbox or were written.
    ///
    /// The messages come from the archive and from the log of messages that pitcrew processes wrote
    /// recently. The log is needed because other clients remove their mail and keep no copy. For
    /// this reason the result can contain messages that are still in the inbox. [`Past::Lately`]
    /// leaves out the older part of the archive.
    async fn past_mail(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        past: Past,
    ) -> Result<Vec<StoredMessage>, StoreError>;

    /// Appends one message that carries an id. A second append of the same id changes nothing.
    /// Messages of one caller keep the order of the calls. Concurrent calls for one inbox can share
    /// one lock and one fsync. If a caller drops the future, its message is possibly sent anyway.
    ///
    /// If the new message would exceed the limit of unread messages, the inbox is not changed, and
    /// the result is [`Appended::Full`]. A message that is already in the inbox is never refused.
    /// Even concurrent callers of this function cannot exceed the limit. But other programs do not
    /// check the limit.
    async fn append(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        message: Message,
        limit: UnreadLimit,
    ) -> Result<Appended, StoreError>;

    /// Marks messages as read, and returns the ids that this call marked. Skips ids that are
    /// missing or already read. If two callers name the same id, only one of them gets the id as a
    /// result.
    ///
    /// In a team of the session dialect, this function removes the messages from the inbox instead
    /// of marking them. The clients of that dialect do the same.
    async fn acknowledge(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        ids: &[MessageId],
    ) -> Result<Vec<MessageId>, StoreError>;

    /// Moves read messages from the inbox to the archive, the oldest first. `keep` read messages
    /// stay in the inbox. Call this function only for inboxes of members that pitcrew runs.
    async fn trim_inbox(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        keep: usize,
    ) -> Result<usize, StoreError>;
}

/// A message with its id.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredMessage {
    /// The id of the message.
    pub id: MessageId,
    /// The message.
    pub message: Message,
}

/// Selects how far back to search for mail that has left its inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// Only the last 256 KiB of the archive. This is enough to resume a team.
    Lately,
    /// The whole archive.
    All,
}

/// The result of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Appended {
    /// The message was added.
    New,
    /// The message was already in the inbox or its archive.
    AlreadyThere,
    /// The message was not added, because the inbox reached its limit of unread messages.
    Full {
        /// The present number of unread messages in the inbox. If the limit is for one sender, only
        /// the messages from that sender are counted.
        unread: usize,
        /// The highest allowed number of unread messages.
        most: usize,
    },
}

/// A limit on the number of unread messages in an inbox. The new message is included in the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadLimit {
    /// No limit.
    None,
    /// A limit on the unread messages of all senders together.
    OfAll(usize),
    /// A limit on the unread messages from the new message's sender. Messages from other senders do
    /// not count.
    OfSender(usize),
}

impl UnreadLimit {
    /// Returns [`Appended::Full`] if this limit does not allow one more message from `sender`.
    /// `unread` lists the sender of each unread message.
    pub(crate) fn reached<'a>(
        self,
        sender: &str,
        unread: impl Iterator<Item = &'a str>,
    ) -> Option<Appended> {
        let (most, unread) = match self {
            Self::None => return None,
            Self::OfAll(most) => (most, unread.count()),
            Self::OfSender(most) => (most, unread.filter(|from| *from == sender).count()),
        };
        (unread >= most).then_some(Appended::Full { unread, most })
    }

    /// Returns the highest allowed number of messages, or `None` if there is no limit.
    pub(crate) fn most(self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::OfAll(most) | Self::OfSender(most) => Some(most),
        }
    }
}
