//! The log of what our processes wrote into files that other programs write too: `teams/<dir>/pitcrew/writes/`.
//!
//! A program that holds no lock can write back an older reading and so undo our write, also after the process that made
//! it has ended. Every process of ours therefore adds its writes to one log for each inbox, one for the tasks and one for
//! the config, and every process that meets such a file compares it with the log (`reapply`, `mail`, `tasks`, `teams`).
//!
//! The logs are not forced to disk. They matter only while another program holds an older reading in memory, and a power
//! cut ends that program too. A crash between a write and its line loses the line only: that write never returned.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pitcrew_protocol::MessageId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::disk::{Disk, Stamp, is_absent, make_dir};
use super::lines;
use super::lost_updates::FieldWrite;
use crate::StoreError;

/// A log of an inbox is shortened when it is longer than this.
pub(crate) const INBOX_LOG_MOST: u64 = 2 * 1024 * 1024;

/// So many bytes of unread messages stay in the log of an inbox, the newest: a hundred of the longest.
pub(crate) const INBOX_LOG_KEPT: usize = 1024 * 1024;

/// The logs of tasks and config are shortened to half of this when they are longer. A one-shot command reads them whole.
const FIELD_LOG_MOST: u64 = 256 * 1024;

/// Room for the last line of an inbox's log, which is always a stamp.
const STAMP_ROOM: u64 = 512;

/// One line of an inbox's log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InboxLine {
    /// A message was appended.
    Sent {
        /// Its id.
        id: MessageId,
        /// The message as it was written.
        message: Box<RawValue>,
    },
    /// Messages were marked as read.
    Read(Vec<MessageId>),
    /// The inbox's state after the writes before this line, all of which its writer knew.
    Stamp(Stamp),
}

/// What one store knows of the logs and of the files they are about.
#[derive(Debug, Default)]
pub(crate) struct WrittenLogs {
    /// The last state of each file that was compared with its log and lacked nothing, and how much of the log there was:
    /// bytes of an inbox's, writes to the file in one of fields. A line may come later than the write it is about.
    checked: Mutex<HashMap<PathBuf, (Stamp, u64)>>,
    /// The field logs as far as they were read.
    loaded: Mutex<HashMap<PathBuf, Loaded>>,
}

/// A field log as far as it was read.
#[derive(Debug, Default)]
struct Loaded {
    ino: u64,
    position: u64,
    writes: Vec<FieldWrite>,
}

impl WrittenLogs {
    /// Whether the file, in this state, was compared with so much of its log already, and lacked nothing.
    pub(crate) fn is_checked(&self, path: &Path, stamp: &Stamp, logged: u64) -> bool {
        self.checked().get(path) == Some(&(*stamp, logged))
    }

    /// Whether the file, in this state, was compared with its log at some time.
    pub(crate) fn was_checked(&self, path: &Path, stamp: &Stamp) -> bool {
        self.checked().get(path).is_some_and(|(checked, _)| checked == stamp)
    }

    /// Remembers that the file, in this state, holds all that so much of its log tells.
    pub(crate) fn set_checked(&self, path: &Path, stamp: Stamp, logged: u64) {
        self.checked().insert(path.to_owned(), (stamp, logged));
    }

    /// Forgets all files below a folder.
    pub(crate) fn forget(&self, folder: &Path) {
        self.checked().retain(|path, _| !path.starts_with(folder));
        self.loaded().retain(|path, _| !path.starts_with(folder));
    }

    /// Calls `look` with the writes of a field log; only what was added since the last call is read.
    pub(crate) fn with_writes<T>(
        &self,
        disk: &Disk,
        path: &Path,
        look: impl FnOnce(&[FieldWrite]) -> T,
    ) -> Result<T, StoreError> {
        let mut loaded = self.loaded();
        let meta = match std::fs::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(error) if is_absent(&error) => {
                loaded.remove(path);
                return Ok(look(&[]));
            }
            Err(error) => return Err(super::disk::failed("look at", path)(error)),
        };
        let log = loaded.entry(path.to_owned()).or_default();
        if log.ino != meta.ino() || meta.len() < log.position {
            *log = Loaded { ino: meta.ino(), ..Loaded::default() };
        }
        if meta.len() > log.position {
            let (lines, position) = lines::read_since(disk, path, log.position)?;
            log.position = position;
            log.writes.extend(parsed(&lines));
        }
        Ok(look(&log.writes))
    }

    fn checked(&self) -> MutexGuard<'_, HashMap<PathBuf, (Stamp, u64)>> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn loaded(&self) -> MutexGuard<'_, HashMap<PathBuf, Loaded>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes a write in a log that was `since` bytes long when the file was compared with it, before the write. `lines` is
/// given what others have noted after that, `None` when that cannot be told. Gives the length of the log.
///
/// The write is done, so a log that cannot be written is a warning and no error.
pub(crate) fn note<L: Serialize + DeserializeOwned>(
    disk: &Disk,
    path: &Path,
    since: u64,
    mut lines: impl FnMut(Option<&[L]>) -> Vec<L>,
) -> Option<u64> {
    let mut make = |added: Option<Vec<String>>| {
        let others: Option<Vec<L>> = added.map(|added| parsed(&added));
        lines(others.as_deref())
            .iter()
            .filter_map(|line| serde_json::to_string(line).ok())
            .collect()
    };
    let noted = match lines::append_since(disk, path, since, &mut make) {
        Err(StoreError::Io { source, .. }) if is_absent(&source) => {
            make_dir(path.parent().unwrap_or(path))
                .and_then(|()| lines::append_since(disk, path, since, make))
        }
        other => other,
    };
    match noted {
        Ok(length) => Some(length),
        Err(error) => {
            warn(path, &error);
            None
        }
    }
}

/// Notes writes of fields, and drops the older half of a log that has become too long.
///
/// A write whose file others have written too, unseen by its writer, says nothing of the file's state: a line without a
/// stamp follows it, so that the file is compared with the log.
pub(crate) fn note_fields(disk: &Disk, path: &Path, since: u64, writes: &[FieldWrite]) {
    note(disk, path, since, |others: Option<&[FieldWrite]>| {
        let is_alone =
            |file: &str| others.is_some_and(|others| others.iter().all(|other| other.file != file));
        let doubts = writes
            .iter()
            .filter(|write| !is_alone(&write.file))
            .map(|write| FieldWrite::doubt(&write.file));
        writes.iter().cloned().chain(doubts).collect()
    });
    if let Err(error) = lines::shorten(disk, path, FIELD_LOG_MOST, changes_only) {
        warn(path, &error);
    }
}

/// The lines that a field log which became too long keeps: the newest changes, and the last stamp of each file.
fn changes_only(lines: Vec<String>) -> Vec<String> {
    let mut stamped = HashSet::new();
    let mut kept: Vec<String> = Vec::new();
    for line in lines.into_iter().rev() {
        let Ok(write) = serde_json::from_str::<FieldWrite>(&line) else { continue };
        let is_last = stamped.insert(write.file);
        if is_last || write.is_removed || !write.fields.is_empty() {
            kept.push(line);
        }
    }
    kept.reverse();
    newest(kept, usize::try_from(FIELD_LOG_MOST / 2).unwrap_or(0))
}

fn warn(path: &Path, error: &StoreError) {
    let error = error as &dyn std::error::Error;
    tracing::warn!(path = %path.display(), error, "cannot note what was written; if another program undoes it, nobody sees it");
}

/// The newest lines that fit into so many bytes.
pub(crate) fn newest(mut lines: Vec<String>, bytes: usize) -> Vec<String> {
    let mut room = bytes;
    let kept = lines.iter().rev().take_while(|line| match room.checked_sub(line.len() + 1) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    });
    let first = lines.len() - kept.count();
    lines.split_off(first)
}

/// The lines of an inbox's log; one that cannot be read is passed over.
pub(crate) fn inbox_lines(path: &Path) -> Result<Vec<InboxLine>, StoreError> {
    Ok(parsed(&lines::read(path)?))
}

/// The state in which our last write left the inbox of this log.
pub(crate) fn last_stamp(path: &Path) -> Result<Option<Stamp>, StoreError> {
    let tail = lines::tail(path, STAMP_ROOM)?;
    let Some((whole, _torn)) = tail.rsplit_once('\n') else { return Ok(None) };
    let last = whole.rsplit('\n').next().unwrap_or_default();
    match serde_json::from_str(last) {
        Ok(InboxLine::Stamp(stamp)) => Ok(Some(stamp)),
        Ok(InboxLine::Sent { .. } | InboxLine::Read(_)) | Err(_) => Ok(None),
    }
}

pub(crate) fn parsed<L: DeserializeOwned>(lines: &[String]) -> Vec<L> {
    lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::disk::FileOptions;

    #[test]
    fn the_newest_lines_that_fit_are_kept() {
        let lines: Vec<String> = ["one", "two", "three"].map(str::to_owned).into();
        assert_eq!(newest(lines.clone(), 10), ["two", "three"]);
        assert_eq!(newest(lines.clone(), 100), lines);
        assert_eq!(newest(lines, 3), Vec::<String>::new());
    }

    #[test]
    fn a_log_that_became_too_long_keeps_its_newer_half_and_is_read_on() {
        let dir = tempfile::tempdir().unwrap();
        let (disk, path) =
            (Disk::new(FileOptions::default()), dir.path().join("writes/tasks.ndjson"));
        let logs = WrittenLogs::default();
        let last = |logs: &WrittenLogs| {
            logs.with_writes(&disk, &path, |writes| {
                (writes.len(), writes.last().map(|w| w.file.clone()))
            })
            .unwrap()
        };
        let write = |nth: u64| FieldWrite {
            file: format!("{nth}.json"),
            stamp: None,
            fields: Vec::new(),
            is_removed: true,
        };
        let mut nth = 0;
        let mut most = 0;
        let mut was_shortened = false;
        while !was_shortened {
            nth += 1;
            note_fields(&disk, &path, 0, &[write(nth)]);
            let (count, newest) = last(&logs);
            assert_eq!(newest, Some(format!("{nth}.json")));
            was_shortened = count < most;
            most = most.max(count);
        }
        assert!(std::fs::metadata(&path).unwrap().len() <= FIELD_LOG_MOST / 2);
    }
}
