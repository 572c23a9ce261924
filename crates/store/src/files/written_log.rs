//! Logs of pitcrew's writes to files that other programs also write: `teams/<dir>/pitcrew/writes/`.
//!
//! A program without a lock is able to write old content back, which overwrites a change of
//! pitcrew. This can happen even after the process that made the change has ended. Therefore every
//! pitcrew process adds its writes to a log. There is one log for each inbox, one for the tasks and
//! one for the config. Every pitcrew process that reads such a file compares it with the log
//! (`lost_updates`, `mail`, `tasks`, `teams`).
//!
//! The logs are not forced to disk. They are needed only while another program has old content in
//! its memory, and a power cut ends that program too. A crash between a write and its log line
//! loses only the line. In that case the caller of the write got no result.

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

/// Length in bytes above which the log of an inbox is shortened.
pub(crate) const INBOX_LOG_MOST: u64 = 2 * 1024 * 1024;

/// Number of bytes of the newest lines that stay in the log of an inbox after the log is shortened.
/// This is enough for a hundred messages of the maximum length.
pub(crate) const INBOX_LOG_KEPT: usize = 1024 * 1024;

/// Length in bytes above which the logs of tasks and config are shortened to half of this length.
/// The limit is small, because every short command reads these logs completely.
const FIELD_LOG_MOST: u64 = 256 * 1024;

/// Number of bytes that are read from the end of an inbox's log to find its last line. Usually the
/// last line is a stamp, and a stamp has fewer bytes than this.
const STAMP_ROOM: u64 = 512;

/// One line of an inbox's log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InboxLine {
    /// A message was appended.
    Sent {
        id: MessageId,
        /// The text of the message as it was written.
        message: Box<RawValue>,
    },
    /// The messages with these ids were marked as read.
    Read(Vec<MessageId>),
    /// The state of the inbox file after all writes that are logged before this line. The process
    /// that wrote this line knew all of these writes.
    Stamp(Stamp),
}

/// Cached knowledge about the logs and about the files that the logs describe.
#[derive(Debug, Default)]
pub(crate) struct WrittenLogs {
    /// The last successful comparison of each file with its log. The file contained all logged
    /// changes at that time. The values are the stamp of the file and the length of the log at that
    /// time. The length is needed because a process adds the log line of a write after the write,
    /// so a line can be added while the file stays the same.
    ///
    /// For an inbox the length is in bytes. For the logs of tasks and config it is the number of
    /// writes to the file.
    checked: Mutex<HashMap<PathBuf, (Stamp, u64)>>,
    /// The parsed logs of tasks and config, up to the position that was read.
    loaded: Mutex<HashMap<PathBuf, Loaded>>,
}

/// A parsed log of tasks or config, up to the position that was read.
#[derive(Debug, Default)]
struct Loaded {
    ino: u64,
    position: u64,
    writes: Vec<FieldWrite>,
}

impl WrittenLogs {
    /// Whether the file in the state `stamp` was compared with its log when the log had the length
    /// `logged`, and contained all logged changes.
    pub(crate) fn is_checked(&self, path: &Path, stamp: &Stamp, logged: u64) -> bool {
        self.checked().get(path) == Some(&(*stamp, logged))
    }

    /// Whether the file in the state `stamp` was already compared with its log. The length of the
    /// log does not matter.
    pub(crate) fn was_checked(&self, path: &Path, stamp: &Stamp) -> bool {
        self.checked().get(path).is_some_and(|(checked, _)| checked == stamp)
    }

    /// Records that the file in the state `stamp` contains all changes of its log up to the length
    /// `logged`.
    pub(crate) fn set_checked(&self, path: &Path, stamp: Stamp, logged: u64) {
        self.checked().insert(path.to_owned(), (stamp, logged));
    }

    /// Removes the cached knowledge about all files below a folder.
    pub(crate) fn forget(&self, folder: &Path) {
        self.checked().retain(|path, _| !path.starts_with(folder));
        self.loaded().retain(|path, _| !path.starts_with(folder));
    }

    /// Calls `look` with all writes in the log at `path`, which is a log of tasks or config. Reads
    /// only the lines that were added since the last call.
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
        // The log is another file or is shorter, because another process has shortened it. Then it
        // is read from its beginning.
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

/// Adds lines about the write of a file to the file's log, and returns the new length of the log.
/// `since` is the length of the log when the file was compared with the log before the write.
/// `lines` returns the lines to add. Its argument has the lines that were added to the log after
/// the length `since`, or `None` if these lines are unknown.
///
/// The write of the file is already done. Therefore a failure to write the log causes a warning and
/// no error.
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

/// Adds writes to a log of tasks or config. If the log has become too long, removes its older half.
///
/// Another process may have written the same file, and this process did not see that write. In that
/// case the stamp (file metadata) of this process's own write proves nothing. Then a line without a
/// stamp is added, so that the next reader compares the file with the log.
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

/// Selects the lines that stay in a log of tasks or config which became too long: the newest
/// changes, and the last line of each file.
fn changes_only(lines: Vec<String>) -> Vec<String> {
    let mut stamped = HashSet::new();
    let mut kept: Vec<String> = Vec::new();
    for line in lines.into_iter().rev() {
        let Ok(write) = serde_json::from_str::<FieldWrite>(&line) else { continue };
        let is_last = stamped.insert(write.file);
        // Other lines have no change and are not the last line of their file, so they are useless.
        if is_last || write.is_removed || !write.fields.is_empty() {
            kept.push(line);
        }
    }
    kept.reverse();
    newest(kept, usize::try_from(FIELD_LOG_MOST / 2).unwrap_or(0))
}

fn warn(path: &Path, error: &StoreError) {
    let error = error as &dyn std::error::Error;
    tracing::warn!(path = %path.display(), error, "cannot record this write; if another program undoes it, pitcrew will not notice");
}

/// Returns the newest lines whose total length, with line breaks, is at most `bytes`.
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

/// Returns the lines of an inbox's log. Skips unreadable lines.
pub(crate) fn inbox_lines(path: &Path) -> Result<Vec<InboxLine>, StoreError> {
    Ok(parsed(&lines::read(path)?))
}

/// Returns the state of the inbox after pitcrew's last write. Returns `None` if the last line of
/// the log does not record this state.
pub(crate) fn last_stamp(path: &Path) -> Result<Option<Stamp>, StoreError> {
    let tail = lines::tail(path, STAMP_ROOM)?;
    // The text after the last line break is an incomplete line, which a crash left.
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
            let batch: Vec<_> = (nth + 1..=nth + 20).map(write).collect();
            nth += 20;
            note_fields(&disk, &path, 0, &batch);
            let (count, newest) = last(&logs);
            assert_eq!(newest, Some(format!("{nth}.json")));
            was_shortened = count < most;
            most = most.max(count);
        }
        assert!(std::fs::metadata(&path).unwrap().len() <= FIELD_LOG_MOST / 2);
    }
}
