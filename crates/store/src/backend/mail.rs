//! Mail: the inboxes of a team.

use async_trait::async_trait;
use pitcrew_protocol::{InboxFile, Message, MessageId, TeamDir};

use crate::StoreError;

/// The inboxes of teams.
#[async_trait]
pub trait MailStore: Send + Sync {
    /// Returns all messages of an inbox, in order. Returns an empty list for an inbox that does not
    /// exist yet. Skips entries that are no messages.
    async fn inbox(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
    ) -> Result<Vec<StoredMessage>, StoreError>;

    /// Returns messages that have left an inbox or may have left it. They are in the order in which
    /// they left or were written. The sources are the archive and the messages that pitcrew
    /// processes wrote recently. The second source is needed because another client removes its
    /// mail and keeps no copy. The result may contain messages that are still in the inbox.
    /// [`Past::Lately`] leaves out the older part of the archive.
    async fn past_mail(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        past: Past,
    ) -> Result<Vec<StoredMessage>, StoreError>;

    /// Appends one message that carries an id. A second append of the same id changes nothing.
    /// Messages of one caller keep the order of the calls. Concurrent calls for one inbox may share
    /// a lock and an fsync. If a caller stops waiting, its message may still be sent.
    ///
    /// If the inbox has too many unread messages, it is not changed. A message that is already in
    /// the inbox is never refused. Concurrent callers cannot exceed a limit together, but other
    /// programs do not check the limit.
    async fn append(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        message: Message,
        limit: UnreadLimit,
    ) -> Result<Appended, StoreError>;

    /// Marks messages as read. Skips ids that are missing or already read. In a team of the session
    /// dialect it removes the messages from the inbox, as the clients of that dialect do. Returns
    /// the ids that this call marked or removed. If two callers name the same id, only one of them
    /// gets it.
    async fn acknowledge(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        ids: &[MessageId],
    ) -> Result<Vec<MessageId>, StoreError>;

    /// Moves read messages to the archive, the oldest first, and leaves `keep` of them. Call it
    /// only for inboxes of members that pitcrew runs.
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

/// How far back to search for mail that has left its inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// The last 256 KiB of the archive, which is enough for a resume.
    Lately,
    /// All mail that is kept.
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
        /// The number of unread messages that count for the limit.
        unread: usize,
        /// The limit.
        most: usize,
    },
}

/// A limit on the number of unread messages in an inbox. The new message counts too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadLimit {
    /// No limit.
    None,
    /// Limit on the messages of all senders together.
    OfAll(usize),
    /// Limit on the messages of the new message's sender. Messages of other senders do not count.
    OfSender(usize),
}

impl UnreadLimit {
    /// Returns [`Appended::Full`] if there is no room for one more message of `sender`. `unread`
    /// lists the senders of the unread messages.
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

    /// Returns the limit as a number, or `None` if there is no limit.
    pub(crate) fn most(self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::OfAll(most) | Self::OfSender(most) => Some(most),
        }
    }
}
