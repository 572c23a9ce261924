//! Inboxes as files: reading, appending, marking as read, and moving old read messages out.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use pitcrew_protocol::{InboxFile, Message, MessageId, TeamDir, message_ids};

use super::array::{self, Entries};
use super::backend::Files;
use super::disk::{Snapshot, failed, is_absent, make_dir};
use super::lines::{self, Force};
use super::reapply::Write;
use super::update::{self, Fault, Plan, Updated};
use crate::{Appended, StoreError, StoredMessage, dialect};

/// How much of an inbox's archive is searched for a message that is sent, or moved, again: a crash is made good soon.
const ARCHIVE_TAIL: u64 = 256 * 1024;

impl Files {
    pub(crate) fn inbox(&self, team: &TeamDir, inbox: &InboxFile) -> Result<Vec<StoredMessage>, StoreError> {
        self.must_exist(team)?;
        let path = self.paths.inbox(team, inbox);
        self.verify_mail(team, &path)?;
        update::read(&path, &path, |snapshot| {
            let Some(snapshot) = snapshot else { return Ok(Vec::new()) };
            let entries = Entries::parse(&snapshot.bytes).map_err(Fault::Torn)?;
            Ok(stored(&entries).into_iter().map(|(_, stored)| stored).collect())
        })
    }

    /// Appends messages in order, with one lock and one fsync.
    pub(crate) fn append(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        messages: &[Message],
    ) -> Result<Vec<Appended>, StoreError> {
        let is_session = self.is_session(team)?;
        let path = self.paths.inbox(team, inbox);
        let messages: Vec<Message> =
            messages.iter().cloned().map(|m| if is_session { dialect::in_session_form(m) } else { m }).collect();
        let archived = lines::tail(&self.paths.read_mail(team, inbox), ARCHIVE_TAIL)?;
        let appended = match self.splice(&path, &messages, &archived) {
            Err(StoreError::Io { source, .. }) if is_absent(&source) => {
                self.must_exist(team)?;
                let inboxes = self.paths.inboxes(team);
                make_dir_below(&inboxes)?;
                self.splice(&path, &messages, &archived)?
            }
            other => other?,
        };
        if let Some(stamp) = appended.written
            && !is_session
        {
            let new = messages.iter().zip(&appended.value).filter(|(_, done)| **done == Appended::New);
            self.recent.note(&path, Some(stamp), new.map(|(m, _)| Write::Mail(Box::new(m.clone()))));
            self.verify_mail(team, &path)?;
        }
        Ok(appended.value)
    }

    fn splice(&self, path: &Path, messages: &[Message], archived: &str) -> Result<Updated<Vec<Appended>>, StoreError> {
        update::update(&self.disk, path, path, |before| {
            let text = match before {
                None => "[]",
                Some(snapshot) if self.recent.is_ours(path, &snapshot.stamp) => {
                    std::str::from_utf8(&snapshot.bytes).map_err(|e| Fault::Torn(e.to_string()))?
                }
                Some(snapshot) => array::check(&snapshot.bytes).map_err(Fault::Torn)?,
            };
            let mut again = self.lost_mail(path, before);
            again.retain(|m| !holds(text, m));
            let mut there = HashSet::new();
            let mut done = Vec::with_capacity(messages.len());
            let mut new: Vec<&Message> = again.iter().collect();
            for message in messages {
                let id = dialect::id_of(message)?;
                if holds(text, message) || names(archived, &id) || !there.insert(id) {
                    done.push(Appended::AlreadyThere);
                } else {
                    done.push(Appended::New);
                    new.push(message);
                }
            }
            if new.is_empty() {
                return Ok(Plan::Keep(done));
            }
            Ok(Plan::Write(array::appended(text, &new).map_err(Fault::Torn)?.into_bytes(), done))
        })
    }

    /// Marks messages as read; in a session's team they are moved out instead, as its clients do.
    pub(crate) fn acknowledge(&self, team: &TeamDir, inbox: &InboxFile, ids: &[MessageId]) -> Result<(), StoreError> {
        let is_session = self.is_session(team)?;
        let path = self.paths.inbox(team, inbox);
        let archive = self.paths.read_mail(team, inbox);
        self.verify_mail(team, &path)?;
        let updated = update::update(&self.disk, &path, &path, |before| {
            let Some(snapshot) = before else { return Ok(Plan::Keep(())) };
            let entries = Entries::parse(&snapshot.bytes).map_err(Fault::Torn)?;
            let is_due = |stored: &StoredMessage| !stored.message.is_read() && ids.contains(&stored.id);
            let places: Vec<usize> =
                stored(&entries).into_iter().filter(|(_, stored)| is_due(stored)).map(|(at, _)| at).collect();
            if places.is_empty() {
                return Ok(Plan::Keep(()));
            }
            if is_session {
                return Ok(Plan::Write(self.moved_out(&entries, &places, &archive)?, ()));
            }
            Ok(Plan::Write(entries.with_read(&places).map_err(Fault::Torn)?.into_bytes(), ()))
        })?;
        self.note_mail(&path, &updated);
        Ok(())
    }

    pub(crate) fn trim_inbox(&self, team: &TeamDir, inbox: &InboxFile, keep: usize) -> Result<usize, StoreError> {
        self.must_exist(team)?;
        let path = self.paths.inbox(team, inbox);
        let archive = self.paths.read_mail(team, inbox);
        let updated = update::update(&self.disk, &path, &path, |before| {
            let Some(snapshot) = before else { return Ok(Plan::Keep(0)) };
            let entries = Entries::parse(&snapshot.bytes).map_err(Fault::Torn)?;
            let read: Vec<usize> =
                entries.messages().into_iter().filter(|(_, m)| m.is_read()).map(|(at, _)| at).collect();
            let surplus = read.get(..read.len().saturating_sub(keep)).unwrap_or_default();
            if surplus.is_empty() {
                return Ok(Plan::Keep(0));
            }
            Ok(Plan::Write(self.moved_out(&entries, surplus, &archive)?, surplus.len()))
        })?;
        self.note_mail(&path, &updated);
        Ok(updated.value)
    }

    /// Writes the entries at `places`, sorted, into the archive, unless they are in it already since the inbox could not be
    /// written after; gives the inbox without them.
    fn moved_out(&self, entries: &Entries<'_>, places: &[usize], archive: &Path) -> Result<Vec<u8>, StoreError> {
        make_dir(archive.parent().unwrap_or(archive))?;
        let tail = lines::tail(archive, ARCHIVE_TAIL)?;
        let there: HashSet<&str> = tail.lines().collect();
        let going = entries.iter().enumerate().filter(|(at, _)| places.binary_search(at).is_ok());
        let mut lines: Vec<String> = going.map(|(_, text)| in_one_line(text)).collect();
        lines.retain(|line| !there.contains(line.as_str()));
        lines::append(&self.disk, archive, &lines, Force::Now)?;
        Ok(entries.without(places).into_bytes())
    }

    /// Puts messages of ours back that a writer without a lock has overwritten.
    pub(crate) fn verify_mail(&self, team: &TeamDir, path: &Path) -> Result<(), StoreError> {
        if !self.recent.knows(path) || self.is_session(team)? {
            return Ok(());
        }
        let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
        let stamp = super::disk::Stamp::of(&meta);
        if self.recent.suspects(path, &stamp).is_empty() {
            return Ok(());
        }
        let updated = update::update(&self.disk, path, path, |before| {
            let Some(snapshot) = before else { return Ok(Plan::Keep(None)) };
            let text = array::check(&snapshot.bytes).map_err(Fault::Torn)?;
            let mut lost = self.lost_mail(path, before);
            lost.retain(|m| !holds(text, m));
            if lost.is_empty() {
                return Ok(Plan::Keep(Some(snapshot.stamp)));
            }
            tracing::warn!(path = %path.display(), messages = lost.len(), "putting overwritten messages back");
            let lost: Vec<&Message> = lost.iter().collect();
            Ok(Plan::Write(array::appended(text, &lost).map_err(Fault::Torn)?.into_bytes(), None))
        })?;
        if let Some(stamp) = updated.written.or(updated.value) {
            self.recent.settle(path, stamp);
        }
        Ok(())
    }

    fn lost_mail(&self, path: &Path, before: Option<&Snapshot>) -> Vec<Message> {
        let suspects = before.map(|s| self.recent.suspects(path, &s.stamp)).unwrap_or_default();
        suspects.into_iter().filter_map(|w| if let Write::Mail(m) = w { Some(*m) } else { None }).collect()
    }

    /// Keeps up with the stamp of a file that was written without a new message.
    fn note_mail<T>(&self, path: &Path, updated: &Updated<T>) {
        if let Some(stamp) = updated.written
            && self.recent.knows(path)
        {
            self.recent.settle(path, stamp);
        }
    }
}

fn stored(entries: &Entries<'_>) -> Vec<(usize, StoredMessage)> {
    let messages = entries.messages();
    let ids = message_ids(messages.iter().map(|(_, m)| m));
    messages.into_iter().zip(ids).map(|((at, message), id)| (at, StoredMessage { id, message })).collect()
}

/// Whether the inbox holds a message of the same id. Its text is searched first; only a text that names the id is read.
fn holds(text: &str, message: &Message) -> bool {
    let Some(id) = message.id() else { return false };
    names(text, &id)
        && Entries::parse(text.as_bytes())
            .is_ok_and(|entries| entries.messages().iter().any(|(_, m)| m.id().as_ref() == Some(&id)))
}

/// Whether the text has the id as a JSON string. Its end is looked for first: so short a text is found much faster.
fn names(text: &str, id: &MessageId) -> bool {
    const FAST: usize = 32;
    let Ok(quoted) = serde_json::to_string(id) else { return false };
    let end = quoted.get(quoted.len().saturating_sub(FAST)..).unwrap_or(&quoted);
    text.contains(end) && text.contains(&quoted)
}

/// An entry's text without its line breaks; a JSON string holds none.
fn in_one_line(text: &str) -> String {
    text.lines().map(str::trim).collect()
}

/// Makes a folder whose parent must be there.
fn make_dir_below(path: &Path) -> Result<(), StoreError> {
    match fs::create_dir(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(failed("create", path)(error)),
    }
}
