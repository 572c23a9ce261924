//! Mail: the inboxes of a team.

use async_trait::async_trait;
use pitcrew_protocol::{InboxFile, Message, MessageId, TeamDir};

use crate::StoreError;

/// The inboxes of teams.
#[async_trait]
pub trait MailStore: Send + Sync {
    /// All messages of an inbox, in order; empty for an inbox not made yet. Entries that are no message are passed over.
    async fn inbox(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
    ) -> Result<Vec<StoredMessage>, StoreError>;

    /// Messages that have left an inbox, or may have, in the order in which they left or were written: those that were moved
    /// to the archive, and those that processes of ours wrote lately. Another client takes its mail out and keeps nothing.
    /// What is still in the inbox may be among them. With [`Past::Lately`] the older ones of the archive are left out.
    async fn past_mail(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        past: Past,
    ) -> Result<Vec<StoredMessage>, StoreError>;

    /// Appends one message that carries an id. A second append of the same id changes nothing. Messages of one caller
    /// stand in the order of their calls. Calls that meet at one inbox may share a lock and an fsync. A caller that stops
    /// waiting may still have sent.
    ///
    /// An inbox that holds too much unread mail for the message stays as it is. A message that is there already is never too
    /// much. Callers that meet at one inbox do not exceed a limit together; other programs know no limit.
    async fn append(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        message: Message,
        limit: UnreadLimit,
    ) -> Result<Appended, StoreError>;

    /// Marks messages as read; ids that are not there, or read already, are passed over. In a team of the session dialect
    /// they are taken out of the inbox, as its clients do. Answers which ones this call marked or took; of two callers one
    /// gets each.
    async fn acknowledge(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        ids: &[MessageId],
    ) -> Result<Vec<MessageId>, StoreError>;

    /// Moves the oldest read messages past `keep` to the archive; only ever called for inboxes of our own members.
    async fn trim_inbox(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        keep: usize,
    ) -> Result<usize, StoreError>;
}

/// A message with the id it goes by.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredMessage {
    /// The id.
    pub id: MessageId,
    /// The message.
    pub message: Message,
}

/// How far back mail is looked for that has left its inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// As far as a resume needs it: the last 256 KiB of the archive.
    Lately,
    /// All that is kept.
    All,
}

/// What an append did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Appended {
    /// The message is there now.
    New,
    /// It was there already.
    AlreadyThere,
    /// It is not there: the inbox holds so many unread messages that count.
    Full {
        /// How many.
        unread: usize,
        /// How many there may be.
        most: usize,
    },
}

/// How many unread messages an inbox may hold, the new one included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadLimit {
    /// Any number.
    None,
    /// So many, whoever sent them.
    OfAll(usize),
    /// So many of the new message's sender; those of others do not count.
    OfSender(usize),
}

impl UnreadLimit {
    /// [`Appended::Full`] when there is no room for one more message of `sender`. `unread` are the senders of the unread
    /// messages.
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

    /// The number.
    pub(crate) fn most(self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::OfAll(most) | Self::OfSender(most) => Some(most),
        }
    }
}
