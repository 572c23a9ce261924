//! The journal as a file. Lines are appended, read from a position, and searched from the end.

use std::ops::{ControlFlow, Range};
use std::path::Path;

use pitcrew_protocol::{MessageId, TeamDir};

use super::backend::Files;
use super::checkpoint::{CHECKPOINT, Checkpoint};
use super::disk::{Disk, failed, is_absent};
use super::lines::{self, Force};
use crate::journal::{is_on_way_of, texts_on_way_of};
use crate::{Event, JournalEntry, JournalSummary, StoreError};

impl Files {
    fn checkpoint(&self, team: &TeamDir) -> Checkpoint<'_> {
        Checkpoint::new(&self.disk, self.paths.journal(team), self.paths.document(team, CHECKPOINT))
    }

    pub(crate) fn record(
        &self,
        team: &TeamDir,
        entries: &[JournalEntry],
    ) -> Result<(), StoreError> {
        let path = self.paths.journal(team);
        let lines = entries.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>();
        let lines = lines.map_err(|e| failed("write", &path)(e.into()))?;
        // A dead message is one that cannot be delivered any more. After its entry is recorded, the
        // message is marked as read. From then on, only this entry shows what happened to the
        // message, so the entry must be on disk.
        let is_last_word =
            entries.iter().any(|entry| matches!(entry.event, Event::MessageDead { .. }));
        let force = if is_last_word { Force::Now } else { Force::Later };
        let appended = self.append_lines(team, &path, &lines, force);
        let appended = appended.inspect_err(|error| {
            // If the team no longer exists, its journal was archived. This is no error of the
            // journal.
            if !matches!(error, StoreError::NoTeam { .. }) {
                self.disk.tell_unrecorded(error);
            }
        })?;
        self.checkpoint(team).follow(&appended);
        Ok(())
    }

    pub(crate) fn journal_since(
        &self,
        team: &TeamDir,
        position: u64,
    ) -> Result<(Vec<JournalEntry>, u64), StoreError> {
        self.must_exist(team)?;
        let (lines, end) = lines::read_since(&self.disk, &self.paths.journal(team), position)?;
        Ok((entries(&lines), end))
    }

    pub(crate) fn message_journal(
        &self,
        team: &TeamDir,
        id: &MessageId,
    ) -> Result<Vec<JournalEntry>, StoreError> {
        self.must_exist(team)?;
        about(&self.disk, &self.paths.journal(team), id)
    }

    pub(crate) fn journal_summary(
        &self,
        team: &TeamDir,
    ) -> Result<(JournalSummary, u64), StoreError> {
        self.must_exist(team)?;
        self.checkpoint(team).summary()
    }

    pub(crate) fn append_lines(
        &self,
        team: &TeamDir,
        path: &Path,
        lines: &[String],
        force: Force,
    ) -> Result<Range<u64>, StoreError> {
        match lines::append(&self.disk, path, lines, force) {
            Err(StoreError::Io { source, .. }) if is_absent(&source) => {
                self.must_exist(team)?;
                self.make_ours(team)?;
                lines::append(&self.disk, path, lines, force)
            }
            other => other,
        }
    }
}

/// Returns the entries about one message from the journal file at `path`.
pub(crate) fn about(
    disk: &Disk,
    path: &Path,
    id: &MessageId,
) -> Result<Vec<JournalEntry>, StoreError> {
    let mut found = Vec::new();
    let mut is_sent = false;
    lines::search_back(disk, path, &texts_on_way_of(id), |step| {
        let was_sent = is_sent;
        for line in step {
            let Some(entry) = entry_of(line) else { continue };
            if is_on_way_of(id, &entry.event) {
                is_sent |= matches!(entry.event, Event::MessagePersisted { .. });
                found.push(entry);
            }
        }
        // The search reads the file backwards in steps of a fixed size. The receiver can write its
        // entry slightly before the sender writes the sender's entry, so the receiver's entry can
        // be in the step before. Therefore the search reads one more step after it has found the
        // sender's entry.
        if was_sent { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    found.reverse();
    Ok(found)
}

/// Parses the entries of a journal. Skips lines that cannot be parsed: incomplete lines and lines
/// of a later version. This is acceptable, because the journal is evidence and not the source of
/// truth.
pub(super) fn entries(lines: &[String]) -> Vec<JournalEntry> {
    lines.iter().filter_map(|line| entry_of(line)).collect()
}

/// Parses a journal line in two passes: first the time, then the event. If one pass parsed both,
/// serde would buffer every field of the line, which is slower.
pub(super) fn entry_of(line: &str) -> Option<JournalEntry> {
    #[derive(serde::Deserialize)]
    struct At {
        at_ms: i64,
    }
    let At { at_ms } = serde_json::from_str(line).ok()?;
    Some(JournalEntry { at_ms, event: serde_json::from_str(line).ok()? })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::files::FileOptions;

    #[test]
    fn a_receiver_s_entry_just_before_the_last_searched_step_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (disk, path) = (Disk::new(FileOptions::default()), dir.path().join("journal"));
        let received = r#"{"at_ms":1,"event":"message_injected","id":"m-1","to":"bob"}"#;
        let sent = r#"{"at_ms":2,"event":"message_persisted","id":"m-1","from":"ann","to":"bob"}"#;
        let later = r#"{"at_ms":3,"event":"run_started"}"#;
        // The search reads backwards in steps of a fixed size. The number of lines after the two
        // entries about `m-1` decides where the steps begin. With some of these numbers, a step
        // begins between the two entries.
        for lines in 7_400..7_900 {
            let text = format!("{received}\n{sent}\n{}", format!("{later}\n").repeat(lines));
            fs::write(&path, text).unwrap();
            let found = about(&disk, &path, &MessageId("m-1".to_owned())).unwrap();
            assert_eq!(found.len(), 2, "{lines} later lines");
        }
    }
}
