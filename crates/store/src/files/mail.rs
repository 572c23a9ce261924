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

/// Number of bytes at the end of an inbox's archive that are searched for an id. The search detects
/// a message that is sent or archived a second time. A repetition after a crash happens soon, so
/// these bytes are enough.
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
            let entries = Entries::parse(&snapshot.bytes)?;
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
        past_in(&self.paths.read_mail(team, inbox), &self.paths.inbox_writes(team, inbox), past)
    }

    /// Appends several messages in order. All of them share one lock and one fsync.
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
        // The reader may have archived the message already when the sender sends it a second time.
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
        // While this call wrote the inbox, another client may have replaced the inbox by an older
        // state, which lacks the new message. `verify_mail` restores the message.
        if appended.is_written {
            self.verify_mail(team, inbox)?;
        }
        Ok(appended.value)
    }

    /// Appends messages at the end of the inbox. Skips messages that are already in the inbox or in
    /// its archive.
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
            array::check_room(text, new.len())?;
            Ok(Plan::Write(array::appended(text, &new).map_err(Fault::Torn)?.into_bytes(), done))
        };
        self.update_mail(team, inbox, plan, |done| {
            let new = messages.iter().zip(done).filter(|(_, done)| **done == Appended::New);
            new.filter_map(|((message, _), _)| sent(message)).collect()
        })
    }

    /// Marks messages as read. In a team of the session dialect, moves the messages to the archive
    /// instead. The clients of that dialect also remove read messages from the inbox.
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
            let entries = Entries::parse(text.as_bytes())?;
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
            let entries = Entries::parse(text.as_bytes())?;
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

    /// Appends the entries at `places` (sorted) to the archive, and returns the inbox without these
    /// entries. Skips entries that the archive already has. An earlier call may have written the
    /// archive and then failed to write the inbox.
    fn moved_out(
        &self,
        entries: &Entries<'_>,
        places: &[usize],
        archive: &Path,
    ) -> Result<Vec<u8>, StoreError> {
        let folder = archive.parent().unwrap_or(archive);
        if !folder.is_dir() {
            make_dir(folder)?;
            // Without this fsync, a power cut could remove the new folder and the messages that are
            // moved into it.
            self.disk.force_dir(folder.parent().unwrap_or(folder))?;
        }
        let tail = lines::tail(archive, ARCHIVE_TAIL)?;
        let there: HashSet<&str> = tail.lines().collect();
        let going = entries.iter().enumerate().filter(|(at, _)| places.binary_search(at).is_ok());
        let mut lines: Vec<String> = going.map(|(_, text)| in_one_line(text)).collect();
        // If an earlier call crashed after it wrote the archive, some of the messages are already
        // in the archive and also still in the inbox. They are not written to the archive again.
        lines.retain(|line| !there.contains(line.as_str()));
        lines::append(&self.disk, archive, &lines, Force::Now)?;
        Ok(entries.without(places).into_bytes())
    }
}

/// Counts the unread messages of an inbox. `text` is the inbox, which was already checked. `added`
/// has the senders of the messages that are being added.
struct Unread<'a> {
    text: &'a str,
    /// Upper bound of the number of messages in the inbox: the number of `{`. Each message is an
    /// object, so this count needs no parsing.
    at_most: Option<usize>,
    /// The senders of the unread messages. The inbox is parsed for them only if the upper bound
    /// reaches the limit.
    senders: Option<Vec<Cow<'a, str>>>,
    added: Vec<&'a str>,
}

impl<'a> Unread<'a> {
    fn of(text: &'a str) -> Self {
        Self { text, at_most: None, senders: None, added: Vec::new() }
    }

    /// Adds a message of `sender` to the count. Returns [`Appended::Full`] if `limit` is already
    /// reached.
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

/// Returns the messages that have left an inbox. `read` is the file with the messages that were moved
/// out, `writes` is the log of pitcrew's writes to the inbox.
pub(super) fn past_in(
    read: &Path,
    writes: &Path,
    past: Past,
) -> Result<Vec<StoredMessage>, StoreError> {
    let most = match past {
        Past::Lately => ARCHIVE_TAIL,
        Past::All => plain::LOG_MOST,
    };
    let archived = lines::tail(read, most)?;
    let archived: Vec<Message> =
        archived.lines().filter_map(|line| pitcrew_protocol::from_text(line).ok()).collect();
    let ids = message_ids(archived.iter());
    // Messages of other clients have no explicit id. Only a caller that asks for all past mail
    // needs such messages.
    let is_wanted = |message: &Message| past == Past::All || message.id().is_some();
    let archived = ids.into_iter().zip(archived).filter(|(_, message)| is_wanted(message));
    let log = written_log::inbox_lines(writes)?;
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

pub(super) fn stored(entries: &Entries<'_>) -> Vec<(usize, StoredMessage)> {
    let messages = entries.messages();
    let ids = message_ids(messages.iter().map(|(_, m)| m));
    messages
        .into_iter()
        .zip(ids)
        .map(|((at, message), id)| (at, StoredMessage { id, message }))
        .collect()
}

/// Whether the inbox contains a message with the same id. The inbox is parsed only if its text
/// contains the id as a JSON string.
fn holds(text: &str, message: &Message) -> bool {
    let Some(id) = message.id() else { return false };
    names(text, &id)
        && Entries::parse(text.as_bytes()).is_ok_and(|entries| {
            entries.messages().iter().any(|(_, m)| m.id().as_ref() == Some(&id))
        })
}

/// Whether the text contains the id as a JSON string. The end of the id is searched first, because
/// the search for a text of at most 32 bytes is much faster.
pub(super) fn names(text: &str, id: &MessageId) -> bool {
    const FAST: usize = 32;
    let Ok(quoted) = serde_json::to_string(id) else { return false };
    let end = quoted.get(quoted.len().saturating_sub(FAST)..).unwrap_or(&quoted);
    text.contains(end) && text.contains(&quoted)
}

/// Returns the text of an entry without line breaks. The content does not change, because a JSON
/// string never contains a raw line break.
fn in_one_line(text: &str) -> String {
    text.lines().map(str::trim).collect()
}

/// Creates a folder if it does not exist. The parent of the folder must exist.
fn make_dir_below(path: &Path) -> Result<(), StoreError> {
    match own_mode::create_folder(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(failed("create", path)(error)),
    }
}
