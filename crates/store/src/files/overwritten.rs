//! Finds those changes in a team's files that other programs overwrote, and restores and reports
//! them. For this it compares the inboxes, the tasks and the config with the logs of pitcrew's
//! writes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use pitcrew_protocol::{InboxFile, Message, MessageId, TeamDir};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::to_raw_value;

use super::array::{self, Entries};
use super::backend::{FileBackend, Files};
use super::disk::{Snapshot, Stamp, failed, is_absent};
use super::lines;
use super::lock;
use super::look::name_of;
use super::lost_updates::{self, FieldWrite, Outcome};
use super::mail::{ARCHIVE_TAIL, names, stored};
use super::teams::{CONFIG, parse, pretty};
use super::update::{self, Fault, Plan};
use super::written_log::{self, INBOX_LOG_KEPT, INBOX_LOG_MOST, InboxLine};
use crate::{Event, JournalEntry, Overwritten, StoreError};

/// Changes of pitcrew that an inbox no longer contains.
#[derive(Debug, Default)]
pub(crate) struct LostMail {
    /// Lost messages that nobody has read. Each has the index of the entry before which it belongs,
    /// or `None` if it belongs at the end.
    messages: Vec<(Option<usize>, Message)>,
    /// Indices of messages that pitcrew marked as read and that are marked as unread again.
    unread: Vec<usize>,
}

impl LostMail {
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.unread.is_empty()
    }

    /// Returns the inbox text with all lost changes restored.
    ///
    /// # Errors
    /// A description of the fault, if the text is not a valid inbox.
    pub(crate) fn put_into(&self, text: &str) -> Result<String, String> {
        let read =
            Entries::parse(text.as_bytes()).map_err(Fault::into_reason)?.with_read(&self.unread)?;
        array::inserted(&read, &self.messages)
    }

    pub(crate) fn told(&self, inbox: &InboxFile) -> Option<Overwritten> {
        if self.messages.is_empty() {
            return None;
        }
        let ids = self.messages.iter().filter_map(|(_, message)| message.id()).map(|id| id.0);
        Some(Overwritten {
            file: format!("inboxes/{inbox}.json"),
            put_back: ids.collect(),
            kept: Vec::new(),
        })
    }
}

/// Returns the log line for an appended message, or `None` if the message has no id.
pub(crate) fn sent(message: &Message) -> Option<InboxLine> {
    Some(InboxLine::Sent { id: message.id()?, message: to_raw_value(message).ok()? })
}

pub(crate) struct MailUpdate<T> {
    pub(crate) value: T,
    pub(crate) is_written: bool,
    /// The changes that other programs had overwritten and that this update restored. `None` if
    /// there were none.
    pub(crate) put_back: Option<Overwritten>,
}

/// How another program has overwritten pitcrew's changes of a task file or the config.
pub(super) enum LostUpdate {
    None,
    /// Fields were overwritten. The value is the content of the file with these fields restored.
    Undone(Value, Outcome),
    /// A task file that pitcrew removed exists again.
    BackAgain,
}

/// Selects when overwritten changes are restored: during any store operation, or only when the
/// caller requests it.
#[derive(Debug, Default)]
pub(crate) struct PutsBack {
    only_when_asked: AtomicBool,
}

impl PutsBack {
    pub(crate) fn at_once(&self) -> bool {
        !self.only_when_asked.load(Ordering::Relaxed)
    }
}

impl FileBackend {
    /// Returns this store, changed for a caller that only reads. From now on the store restores
    /// overwritten changes only on request. It takes no lock when it reads.
    #[must_use]
    pub fn putting_back_when_asked(self) -> Self {
        self.files().puts_back.only_when_asked.store(true, Ordering::Relaxed);
        self
    }

    /// Returns the changes that other programs overwrote in the team's files. This function changes
    /// no file and blocks the thread.
    ///
    /// # Errors
    /// [`StoreError`] if a file cannot be read.
    pub fn overwritten(&self, team: &TeamDir) -> Result<Vec<Overwritten>, StoreError> {
        self.files().must_have_folders(Some(team))?;
        self.files().overwritten(team)
    }

    /// Restores the changes that other programs overwrote in the team's files, and returns them.
    /// This function blocks the thread.
    ///
    /// # Errors
    /// [`StoreError`] if a file cannot be read or written.
    pub fn put_back(&self, team: &TeamDir) -> Result<Vec<Overwritten>, StoreError> {
        let files = self.files();
        files.must_have_folders(Some(team))?;
        // The store may be set to restore changes only on request. This call is such a request, so
        // the setting is switched off until the call ends.
        let was_on_demand = files.puts_back.only_when_asked.swap(false, Ordering::Relaxed);
        let done = files.reapply(team);
        files.puts_back.only_when_asked.store(was_on_demand, Ordering::Relaxed);
        done
    }
}

impl Files {
    /// Returns the path whose lock is taken when a damaged file is read again. Returns `None` if
    /// the store only reads, because taking a lock would change the folder.
    pub(crate) fn lock_to_read<'a>(&self, lock_of: &'a Path) -> Option<&'a Path> {
        self.puts_back.at_once().then_some(lock_of)
    }

    /// Restores the changes that other programs overwrote in the team's files, and returns them.
    pub(crate) fn reapply(&self, team: &TeamDir) -> Result<Vec<Overwritten>, StoreError> {
        let mut found: Vec<Overwritten> = self.verify_config(team)?.into_iter().collect();
        for inbox in &self.readers(team)?.ours {
            found.extend(self.verify_mail(team, inbox)?);
        }
        found.extend(self.verify_tasks(team)?);
        Ok(found)
    }

    fn overwritten(&self, team: &TeamDir) -> Result<Vec<Overwritten>, StoreError> {
        let mut found = Vec::new();
        for inbox in &self.readers(team)?.ours {
            let path = self.paths.inbox(team, inbox);
            let before = Snapshot::read(&path)?;
            let logged = lines::length(&self.paths.inbox_writes(team, inbox));
            let lost = self
                .lost_mail(team, inbox, logged, before.as_ref())
                .map_err(|fault| fault.at(&path))?;
            found.extend(lost.told(inbox));
        }
        let (config, log) = (self.paths.config(team), self.paths.config_writes(team));
        found.extend(self.look_at_fields(&config, &log, true, CONFIG.to_owned())?);
        let (folder, log) = (self.paths.tasks(team), self.paths.task_writes(team));
        let files = self.logs.with_writes(&self.disk, &log, |writes| {
            writes.iter().map(|write| write.file.clone()).collect::<BTreeSet<String>>()
        })?;
        for file in files {
            found.extend(self.look_at_fields(
                &folder.join(&file),
                &log,
                false,
                format!("tasks/{file}"),
            )?);
        }
        Ok(found)
    }

    fn look_at_fields(
        &self,
        path: &Path,
        log: &Path,
        is_config: bool,
        file: String,
    ) -> Result<Option<Overwritten>, StoreError> {
        let Some(snapshot) = Snapshot::read(path)? else { return Ok(None) };
        let damage =
            self.damage(path, log, is_config, &snapshot).map_err(|fault| fault.at(path))?;
        Ok(damage.told(file))
    }

    /// Compares the content of a task file or the config with the log of pitcrew's writes.
    pub(super) fn damage(
        &self,
        path: &Path,
        log: &Path,
        is_config: bool,
        snapshot: &Snapshot,
    ) -> Result<LostUpdate, Fault> {
        let name = name_of(path);
        let mut now: Value = parse(&snapshot.bytes)?;
        let (outcome, logged) = self.logs.with_writes(&self.disk, log, |writes| {
            let writes: Vec<&FieldWrite> =
                writes.iter().filter(|write| write.file == name).collect();
            if !is_config && lost_updates::is_back_again(&writes, &now) {
                return (None, 0);
            }
            (
                Some(lost_updates::put_back(&writes, &snapshot.stamp, is_config, &mut now)),
                writes.len() as u64,
            )
        })?;
        Ok(match outcome {
            None => LostUpdate::BackAgain,
            Some(outcome) if outcome.put_back.is_empty() => {
                self.logs.set_checked(path, snapshot.stamp, logged);
                LostUpdate::None
            }
            Some(outcome) => LostUpdate::Undone(now, outcome),
        })
    }

    /// Records the restored changes in the journal.
    pub(crate) fn tell_overwritten(
        &self,
        team: &TeamDir,
        found: impl IntoIterator<Item = Overwritten>,
    ) {
        let at_ms = jiff::Timestamp::now().as_millisecond();
        let entries: Vec<JournalEntry> = found
            .into_iter()
            .map(|told| JournalEntry { at_ms, event: Event::Overwritten(told) })
            .collect();
        for entry in &entries {
            tracing::warn!(%team, ?entry, "another program undid what we had written; it is put back");
        }
        if let Err(error) = self.record(team, &entries) {
            tracing::warn!(%team, %error, "cannot write the journal");
        }
    }

    /// Changes an inbox. First, messages that other programs removed are restored. `plan` then gets
    /// the inbox text and returns the change, and `lines` returns the log lines for this change.
    pub(crate) fn update_mail<T>(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        mut plan: impl FnMut(Option<&str>) -> Result<Plan<T>, Fault>,
        lines: impl FnOnce(&T) -> Vec<InboxLine>,
    ) -> Result<MailUpdate<T>, StoreError> {
        let (path, log) = (self.paths.inbox(team, inbox), self.paths.inbox_writes(team, inbox));
        let mut since = 0;
        let updated = update::update(&self.disk, &path, &path, |before| {
            since = lines::length(&log);
            let lost = self.lost_mail(team, inbox, since, before)?;
            let text = before.map(|snapshot| self.checked_text(&path, snapshot)).transpose()?;
            let repaired =
                (!lost.is_empty()).then(|| lost.put_into(text.unwrap_or("[]"))).transpose();
            let repaired = repaired.map_err(Fault::Torn)?;
            let told = lost.told(inbox);
            Ok(match (plan(repaired.as_deref().or(text))?, repaired) {
                (Plan::Write(bytes, value), _) => Plan::Write(bytes, (value, told)),
                (Plan::Keep(value), Some(repaired)) => {
                    Plan::Write(repaired.into_bytes(), (value, told))
                }
                (Plan::Keep(value), None) => Plan::Keep((value, None)),
                (Plan::Remove(value), _) => Plan::Remove((value, None)),
            })
        })?;
        let (value, put_back) = updated.value;
        if let Some(stamp) = updated.written {
            self.note_mail(team, inbox, since, stamp, lines(&value))?;
            self.tell_overwritten(team, put_back.clone());
        }
        Ok(MailUpdate { value, is_written: updated.written.is_some(), put_back })
    }

    /// Returns the text of an inbox, after a check that the text is valid. The check is skipped if
    /// this state of the file was checked before.
    fn checked_text<'a>(&self, path: &Path, snapshot: &'a Snapshot) -> Result<&'a str, Fault> {
        if self.logs.was_checked(path, &snapshot.stamp) {
            return std::str::from_utf8(&snapshot.bytes).map_err(|e| Fault::Torn(e.to_string()));
        }
        array::check(&snapshot.bytes)
    }

    /// Adds a change of an inbox to the log of this inbox. `since` is the length that the log had
    /// when the inbox was compared with the log.
    ///
    /// If this process is the only one that has added messages to the log after that comparison,
    /// the log also gets the stamp (metadata) of the inbox file. The stamp means: the inbox
    /// contains everything that the log lists. If another process has added a message to the log,
    /// this message was perhaps overwritten before the comparison. The log then gets no stamp, and
    /// the next reader compares the inbox with the log again.
    fn note_mail(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        since: u64,
        stamp: Stamp,
        lines: Vec<InboxLine>,
    ) -> Result<(), StoreError> {
        let path = self.paths.inbox(team, inbox);
        let readers = self.readers(team)?;
        if !readers.misses_mail(inbox) {
            self.logs.set_checked(&path, stamp, since);
            if readers.keeps_sent(inbox) {
                self.keep_sent(team, inbox, lines);
            }
            return Ok(());
        }
        let mut lines = Some(lines);
        let mut is_alone = false;
        let log = self.paths.inbox_writes(team, inbox);
        let length = written_log::note(&self.disk, &log, since, |others: Option<&[InboxLine]>| {
            is_alone = others.is_some_and(|others| {
                others.iter().all(|line| matches!(line, InboxLine::Stamp(_)))
            });
            let state = is_alone.then_some(InboxLine::Stamp(stamp));
            lines.take().into_iter().flatten().chain(state).collect()
        });
        if let Some(length) = length.filter(|_| is_alone) {
            self.logs.set_checked(&path, stamp, length);
        }
        if let Err(error) = lines::shorten(&self.disk, &log, INBOX_LOG_MOST, unread_only) {
            tracing::warn!(path = %log.display(), %error, "the log cannot be shortened");
        }
        Ok(())
    }

    /// Records messages to a client that removes messages from its inbox after reading them.
    /// [`past_mail`](crate::MailStore::past_mail) returns the recorded messages. They are never
    /// restored in the inbox, because the client may have removed them on purpose.
    fn keep_sent(&self, team: &TeamDir, inbox: &InboxFile, mut lines: Vec<InboxLine>) {
        lines.retain(|line| matches!(line, InboxLine::Sent { .. }));
        if lines.is_empty() {
            return;
        }
        let log = self.paths.inbox_writes(team, inbox);
        let (since, mut lines) = (lines::length(&log), Some(lines));
        let _length = written_log::note(&self.disk, &log, since, |_: Option<&[InboxLine]>| {
            lines.take().unwrap_or_default()
        });
        if let Err(error) = lines::shorten(&self.disk, &log, INBOX_LOG_MOST, unread_only) {
            tracing::warn!(path = %log.display(), %error, "the log cannot be shortened");
        }
    }

    /// Restores the messages and read marks of an inbox that another program has overwritten.
    pub(crate) fn verify_mail(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
    ) -> Result<Option<Overwritten>, StoreError> {
        if !self.puts_back.at_once() || !self.readers(team)?.misses_mail(inbox) {
            return Ok(None);
        }
        let path = self.paths.inbox(team, inbox);
        let now = match fs::symlink_metadata(&path) {
            Ok(meta) => Some(Stamp::of(&meta)),
            Err(error) if is_absent(&error) => None,
            Err(error) => return Err(failed("look at", &path)(error)),
        };
        let logged = lines::length(&self.paths.inbox_writes(team, inbox));
        // A reader does not wait for the lock of the inbox. The holder of the lock is about to
        // write, and after that write the inbox is checked again.
        if self.is_as_left(team, inbox, logged, now.as_ref())? || lock::is_taken(&path) {
            return Ok(None);
        }
        Ok(self.update_mail(team, inbox, |_| Ok(Plan::Keep(())), |()| Vec::new())?.put_back)
    }

    /// Whether an inbox need not be compared with its log. This is true if the inbox is unchanged
    /// since pitcrew's last write. It is also true if this state of the inbox was already compared
    /// with the first `logged` bytes of the log.
    fn is_as_left(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        logged: u64,
        now: Option<&Stamp>,
    ) -> Result<bool, StoreError> {
        let (path, log) = (self.paths.inbox(team, inbox), self.paths.inbox_writes(team, inbox));
        let Some(now) = now else {
            return Ok(fs::symlink_metadata(&log).is_err());
        };
        if self.logs.is_checked(&path, now, logged) {
            return Ok(true);
        }
        let is_last = written_log::last_stamp(&log)?.as_ref() == Some(now);
        if is_last {
            self.logs.set_checked(&path, *now, logged);
        }
        Ok(is_last)
    }

    /// Returns the logged changes that are missing in the inbox. `before` is the inbox as it was
    /// read, and `logged` is the length of the log after that read.
    fn lost_mail(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        logged: u64,
        before: Option<&Snapshot>,
    ) -> Result<LostMail, Fault> {
        let stamp = before.map(|snapshot| snapshot.stamp);
        if !self.readers(team)?.misses_mail(inbox)
            || self.is_as_left(team, inbox, logged, stamp.as_ref())?
        {
            return Ok(LostMail::default());
        }
        let lines = written_log::inbox_lines(&self.paths.inbox_writes(team, inbox))?;
        let entries = Entries::parse(before.map_or(b"[]", |snapshot| &snapshot.bytes))?;
        let mut lost = missing(&lines, &entries);
        if !lost.messages.is_empty() {
            let archived = lines::tail(&self.paths.read_mail(team, inbox), ARCHIVE_TAIL)?;
            lost.messages
                .retain(|(_, message)| message.id().is_some_and(|id| !names(&archived, &id)));
        }
        if let Some(stamp) = stamp.filter(|_| lost.is_empty()) {
            self.logs.set_checked(&self.paths.inbox(team, inbox), stamp, logged);
        }
        Ok(lost)
    }

    /// Restores those fields of a task file or the config that another program has overwritten.
    pub(crate) fn mend_fields<T: Serialize + DeserializeOwned>(
        &self,
        team: &TeamDir,
        path: &Path,
        (lock_of, log): (&Path, &Path),
        told_as: String,
    ) -> Result<Option<Overwritten>, StoreError> {
        // If another process holds the lock of the config, a reader of the config does not wait for
        // it. A reader of the tasks must wait. After a read, the task files count as compared with
        // the log, so nobody would compare them later.
        if lock_of == path && lock::is_taken(path) {
            return Ok(None);
        }
        let mut since = 0;
        let updated = update::update(&self.disk, path, lock_of, |before| {
            let Some(snapshot) = before else { return Ok(Plan::Keep(None)) };
            // The log's length is read after the file. If another process adds a log line later,
            // the line can describe a write that came after this read of the file, so such a line
            // must not be compared with the file.
            since = lines::length(log);
            // If the lock is at the path of the file itself, the file is the config. A task file is
            // protected by the lock of the task list.
            let damage = self.damage(path, log, lock_of == path, snapshot)?;
            let told = damage.told(told_as.clone());
            match damage {
                LostUpdate::None => Ok(Plan::Keep(None)),
                LostUpdate::BackAgain => Ok(Plan::Remove(told)),
                LostUpdate::Undone(repaired, _) => {
                    let repaired: T =
                        serde_json::from_value(repaired).map_err(|e| Fault::Torn(e.to_string()))?;
                    Ok(Plan::Write(pretty(&repaired)?, told))
                }
            }
        })?;
        if let Some(stamp) = updated.written {
            let write = FieldWrite { stamp: Some(stamp), ..FieldWrite::doubt(name_of(path)) };
            written_log::note_fields(&self.disk, log, since, &[write]);
        }
        self.tell_overwritten(team, updated.value.clone());
        Ok(updated.value)
    }
}

impl LostUpdate {
    pub(super) fn told(&self, file: String) -> Option<Overwritten> {
        match self {
            Self::None => None,
            Self::Undone(_, Outcome { put_back, kept }) => {
                // Pitcrew's internal marks mean nothing to users, so they are left out of the
                // report.
                let shown = put_back.iter().filter(|field| !field.starts_with("metadata.pitcrew"));
                Some(Overwritten { file, put_back: shown.cloned().collect(), kept: kept.clone() })
            }
            Self::BackAgain => {
                Some(Overwritten { file, put_back: vec!["removed".into()], kept: Vec::new() })
            }
        }
    }
}

/// Returns the messages and the read marks that are missing in the inbox. A missing message counts
/// only if the log records that it was sent and does not record that it was read.
fn missing(lines: &[InboxLine], entries: &Entries<'_>) -> LostMail {
    // An inbox can have a second, unread entry with the id of a read message. Such an entry is a
    // forgery, which the receiver refuses. It does not show that the read mark was lost.
    let mut there: HashMap<MessageId, (usize, bool)> = HashMap::new();
    for (at, stored) in stored(entries) {
        let is_read = stored.message.is_read();
        there.entry(stored.id).and_modify(|known| known.1 |= is_read).or_insert((at, is_read));
    }
    let mut read = HashSet::new();
    for line in lines {
        match line {
            InboxLine::Read(ids) => read.extend(ids),
            InboxLine::Sent { .. } | InboxLine::Stamp(_) => {}
        }
    }
    let mut lost = LostMail::default();
    let (mut next, mut seen) = (None, HashSet::new());
    for line in lines.iter().rev() {
        let InboxLine::Sent { id, message } = line else { continue };
        match there.get(id) {
            Some((at, _)) => next = Some(*at),
            // If the message was read, somebody may have removed it on purpose. If the log has the
            // same message twice, it is restored only once.
            None if read.contains(id) || !seen.insert(id) => {}
            None => {
                let message = serde_json::from_str(message.get()).ok();
                lost.messages.extend(message.map(|message| (next, message)));
            }
        }
    }
    lost.messages.reverse();
    lost.unread = read
        .iter()
        .filter_map(|id| there.get(*id))
        .filter(|(_, is_read)| !is_read)
        .map(|(at, _)| *at)
        .collect();
    lost.unread.sort_unstable();
    lost
}

/// Selects the lines that stay in a log which became too long: the newest unread messages, the
/// newest read marks and the last stamp.
fn unread_only(lines: Vec<String>) -> Vec<String> {
    let parsed: Vec<(Option<InboxLine>, String)> =
        lines.into_iter().map(|line| (serde_json::from_str(&line).ok(), line)).collect();
    let mut read = HashSet::new();
    for (line, _) in &parsed {
        if let Some(InboxLine::Read(ids)) = line {
            read.extend(ids.iter().cloned());
        }
    }
    let last_stamp = parsed.iter().rposition(|(line, _)| matches!(line, Some(InboxLine::Stamp(_))));
    let kept = parsed.into_iter().enumerate().filter_map(|(at, (line, text))| match line? {
        InboxLine::Sent { id, .. } => (!read.contains(&id)).then_some(text),
        InboxLine::Read(_) => Some(text),
        InboxLine::Stamp(_) => (Some(at) == last_stamp).then_some(text),
    });
    written_log::newest(kept.collect(), INBOX_LOG_KEPT)
}

#[cfg(test)]
mod tests;
