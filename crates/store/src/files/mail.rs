//! Inboxes as files: reading, appending, marking as read, and moving old read messages to the
//! archive.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;

use pitcrew_protocol::{InboxFile, Message, MessageId, TeamDir, message_ids};

use super::array::{self, Entries};
use super::backend::Files;
use super::disk::{failed, is_absent, make_dir};
use super::group::Limited;
use super::lines::{self, Force};
use super::overwritten::{MailUpdate, sent};
use super::plain;
use super::update::{self, Fault, Plan};
use super::written_log::{self, InboxLine};
use crate::{Appended, Past, StoreError, StoredMessage, UnreadLimit, dialect, own_mode};

/// Number of bytes at the end of an inbox's archive that are searched for a message that is sent or
/// moved a second time. This is enough, because a repetition after a crash happens soon.
pub(super) const ARCHIVE_TAIL: u64 = 256 * 1024;

impl Files {
    pub(crate) fn inbox(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        self.must_exist(team)?;
        let path = self.paths.inbox(team, inbox);
        self.verify_mail(team, inbox)?;
        update::read(&path, self.lock_to_read(&path), |snapshot| {
            let Some(snapshot) = snapshot else { return Ok(Vec::new()) };
            let entries = Entries::parse(&snapshot.bytes).map_err(Fault::Torn)?;
            Ok(stored(&entries).into_iter().map(|(_, stored)| stored).collect())
        })
    }

    pub(crate) fn past_mail(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        past: Past,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        self.must_exist(team)?;
        let most = match past {
            Past::Lately => ARCHIVE_TAIL,
            Past::All => plain::LOG_MOST,
        };
        let archived = lines::tail(&self.paths.read_mail(team, inbox), most)?;
        let archived: Vec<Message> =
            archived.lines().filter_map(|line| pitcrew_protocol::from_text(line).ok()).collect();
        let ids = message_ids(archived.iter());
        // Messages of other clients carry no id of their own. Only a caller that wants all past
        // mail needs such messages.
        let is_wanted = |message: &Message| past == Past::All || message.id().is_some();
        let archived = ids.into_iter().zip(archived).filter(|(_, message)| is_wanted(message));
        let log = written_log::inbox_lines(&self.paths.inbox_writes(team, inbox))?;
        let sent = log.iter().filter_map(|line| match line {
            InboxLine::Sent { message, .. } => {
                pitcrew_protocol::from_text::<Message>(message.get()).ok()
            }
            InboxLine::Read(_) | InboxLine::Stamp(_) => None,
        });
        let sent = sent.filter_map(|message| Some((message.id()?, message)));
        let mut there = HashSet::new();
        let mut past = Vec::new();
        for (id, message) in archived.chain(sent) {
            if there.insert(id.clone()) {
                past.push(StoredMessage { id, message });
            }
        }
        Ok(past)
    }

    /// Appends messages in order, with one lock and one fsync.
    pub(crate) fn append(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        messages: &[Limited],
    ) -> Result<Vec<Appended>, StoreError> {
        let is_session = self.readers(team)?.is_session;
        let in_form = |m: Message| if is_session { dialect::in_session_form(m) } else { m };
        let messages: Vec<Limited> =
            messages.iter().cloned().map(|(m, limit)| (in_form(m), limit)).collect();
        // A message may be sent again after its reader has already moved it to the archive.
        let archived = lines::tail(&self.paths.read_mail(team, inbox), ARCHIVE_TAIL)?;
        let appended = match self.splice(team, inbox, &messages, &archived) {
            Err(StoreError::Io { source, .. }) if is_absent(&source) => {
                self.must_exist(team)?;
                let inboxes = self.paths.inboxes(team);
                make_dir_below(&inboxes)?;
                self.splice(team, inbox, &messages, &archived)?
            }
            other => other?,
        };
        // Another client may have written an older reading over the message at the same moment.
        if appended.is_written {
            self.verify_mail(team, inbox)?;
        }
        Ok(appended.value)
    }

    /// Appends messages after those that are already in the inbox.
    fn splice(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        messages: &[Limited],
        archived: &str,
    ) -> Result<MailUpdate<Vec<Appended>>, StoreError> {
        let plan = |text: Option<&str>| {
            let text = text.unwrap_or("[]");
            let mut there = HashSet::new();
            let mut unread = Unread::of(text);
            let mut done = Vec::with_capacity(messages.len());
            let mut new: Vec<&Message> = Vec::new();
            for (message, limit) in messages {
                let id = dialect::id_of(message)?;
                if holds(text, message) || names(archived, &id) || there.contains(&id) {
                    done.push(Appended::AlreadyThere);
                } else if let Some(full) = unread.add(&message.from, *limit) {
                    done.push(full);
                } else {
                    there.insert(id);
                    done.push(Appended::New);
                    new.push(message);
                }
            }
            if new.is_empty() {
                return Ok(Plan::Keep(done));
            }
            Ok(Plan::Write(array::appended(text, &new).map_err(Fault::Torn)?.into_bytes(), done))
        };
        self.update_mail(team, inbox, plan, |done| {
            let new = messages.iter().zip(done).filter(|(_, done)| **done == Appended::New);
            new.filter_map(|((message, _), _)| sent(message)).collect()
        })
    }

    /// Marks messages as read. In a team of the session dialect it moves them to the archive,
    /// because the clients of that dialect also remove read messages.
    pub(crate) fn acknowledge(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        ids: &[MessageId],
    ) -> Result<Vec<MessageId>, StoreError> {
        let is_session = self.readers(team)?.is_session;
        let archive = self.paths.read_mail(team, inbox);
        let plan = |text: Option<&str>| {
            let Some(text) = text else { return Ok(Plan::Keep(Vec::new())) };
            let entries = Entries::parse(text.as_bytes()).map_err(Fault::Torn)?;
            let is_due =
                |stored: &StoredMessage| !stored.message.is_read() && ids.contains(&stored.id);
            let due = stored(&entries).into_iter().filter(|(_, stored)| is_due(stored));
            let (places, marked): (Vec<usize>, Vec<MessageId>) =
                due.map(|(at, stored)| (at, stored.id)).unzip();
            if places.is_empty() {
                return Ok(Plan::Keep(marked));
            }
            if is_session {
                return Ok(Plan::Write(self.moved_out(&entries, &places, &archive)?, marked));
            }
            Ok(Plan::Write(entries.with_read(&places).map_err(Fault::Torn)?.into_bytes(), marked))
        };
        let lines = |marked: &Vec<MessageId>| match marked.is_empty() {
            true => Vec::new(),
            false => vec![InboxLine::Read(ids.to_vec())],
        };
        Ok(self.update_mail(team, inbox, plan, lines)?.value)
    }

    pub(crate) fn trim_inbox(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        keep: usize,
    ) -> Result<usize, StoreError> {
        self.must_exist(team)?;
        let archive = self.paths.read_mail(team, inbox);
        let plan = |text: Option<&str>| {
            let Some(text) = text else { return Ok(Plan::Keep(0)) };
            let entries = Entries::parse(text.as_bytes()).map_err(Fault::Torn)?;
            let read: Vec<usize> = entries
                .messages()
                .into_iter()
                .filter(|(_, m)| m.is_read())
                .map(|(at, _)| at)
                .collect();
            let surplus = read.get(..read.len().saturating_sub(keep)).unwrap_or_default();
            if surplus.is_empty() {
                return Ok(Plan::Keep(0));
            }
            Ok(Plan::Write(self.moved_out(&entries, surplus, &archive)?, surplus.len()))
        };
        Ok(self.update_mail(team, inbox, plan, |_| Vec::new())?.value)
    }

    /// Writes the entries at `places` (sorted) into the archive and returns the inbox without them.
    /// Skips entries that are already archived, because an earlier call may have failed to write
    /// the inbox afterwards.
    fn moved_out(
        &self,
        entries: &Entries<'_>,
        places: &[usize],
        archive: &Path,
    ) -> Result<Vec<u8>, StoreError> {
        let folder = archive.parent().unwrap_or(archive);
        if !folder.is_dir() {
            make_dir(folder)?;
            // Otherwise a power cut could remove the new folder together with the messages moved
            // into it.
            self.disk.force_dir(folder.parent().unwrap_or(folder))?;
        }
        let tail = lines::tail(archive, ARCHIVE_TAIL)?;
        let there: HashSet<&str> = tail.lines().collect();
        let going = entries.iter().enumerate().filter(|(at, _)| places.binary_search(at).is_ok());
        let mut lines: Vec<String> = going.map(|(_, text)| in_one_line(text)).collect();
        // A crash after an earlier archiving may have left these messages in both files.
        lines.retain(|line| !there.contains(line.as_str()));
        lines::append(&self.disk, archive, &lines, Force::Now)?;
        Ok(entries.without(places).into_bytes())
    }
}

/// The unread messages of an inbox with a checked text, and the messages added to it.
struct Unread<'a> {
    text: &'a str,
    /// Upper bound of the number of messages. A message is an object, so counting `{` needs no
    /// decoding.
    at_most: Option<usize>,
    /// The senders of the unread messages. They are read only if the upper bound reaches the limit.
    senders: Option<Vec<Cow<'a, str>>>,
    added: Vec<&'a str>,
}

impl<'a> Unread<'a> {
    fn of(text: &'a str) -> Self {
        Self { text, at_most: None, senders: None, added: Vec::new() }
    }

    /// Counts a message of `sender`. Returns [`Appended::Full`] if `limit` is reached.
    fn add(&mut self, sender: &'a str, limit: UnreadLimit) -> Option<Appended> {
        let text = self.text;
        let mut at_most = || {
            *self.at_most.get_or_insert_with(|| text.bytes().filter(|byte| *byte == b'{').count())
        };
        if limit.most().is_some_and(|most| at_most() + self.added.len() >= most) {
            let there = self.senders.get_or_insert_with(|| array::senders_of_unread(text));
            let unread = there.iter().map(|from| &**from).chain(self.added.iter().copied());
            if let Some(full) = limit.reached(sender, unread) {
                return Some(full);
            }
        }
        self.added.push(sender);
        None
    }
}

pub(super) fn stored(entries: &Entries<'_>) -> Vec<(usize, StoredMessage)> {
    let messages = entries.messages();
    let ids = message_ids(messages.iter().map(|(_, m)| m));
    messages
        .into_iter()
        .zip(ids)
        .map(|((at, message), id)| (at, StoredMessage { id, message }))
        .collect()
}

/// Whether the inbox contains a message with the same id. The text is parsed only if it contains
/// the id as a string.
fn holds(text: &str, message: &Message) -> bool {
    let Some(id) = message.id() else { return false };
    names(text, &id)
        && Entries::parse(text.as_bytes()).is_ok_and(|entries| {
            entries.messages().iter().any(|(_, m)| m.id().as_ref() == Some(&id))
        })
}

/// Whether the text contains the id as a JSON string. Searches for the end of the id first, because
/// searching for such a short text is much faster.
pub(super) fn names(text: &str, id: &MessageId) -> bool {
    const FAST: usize = 32;
    let Ok(quoted) = serde_json::to_string(id) else { return false };
    let end = quoted.get(quoted.len().saturating_sub(FAST)..).unwrap_or(&quoted);
    text.contains(end) && text.contains(&quoted)
}

/// Returns the text of an entry without line breaks. This is safe, because a JSON string contains
/// no line breaks.
fn in_one_line(text: &str) -> String {
    text.lines().map(str::trim).collect()
}

/// Creates a folder whose parent must exist.
fn make_dir_below(path: &Path) -> Result<(), StoreError> {
    match own_mode::create_folder(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(failed("create", path)(error)),
    }
}
