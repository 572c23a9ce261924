//! Finds out whether a journal is missing or damaged. Readers of a journal skip what they cannot
//! read, so this check is for commands that show the content of a journal to people.

use std::path::Path;

use super::backend::FileBackend;
use super::journal::entry_of;
use super::plain;
use crate::{JournalOf, StoreError};

/// What is wrong with a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalFault {
    /// There is no file.
    Missing,
    /// The file cannot be read. Contains the reason.
    Unreadable(String),
    /// This number of lines cannot be read.
    BadLines(usize),
}

/// How exactly the lines of a journal are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineCheck {
    /// Only the beginning and the end of each line. This is fast.
    Ends,
    /// The whole line.
    Whole,
}

impl FileBackend {
    /// Returns what is wrong with a journal, or `None` if nothing is wrong.
    ///
    /// # Errors
    /// [`StoreError`] if the check itself does not end.
    pub async fn journal_fault(
        &self,
        journal: JournalOf<'_>,
        check: LineCheck,
    ) -> Result<Option<JournalFault>, StoreError> {
        let path = match journal {
            JournalOf::Team(team) => self.paths().journal(team),
            JournalOf::Archive(archive) => self.paths().archived_journal(archive),
        };
        self.run(move |_| Ok(fault_of(&path, check))).await
    }
}

fn fault_of(path: &Path, check: LineCheck) -> Option<JournalFault> {
    let bytes = match plain::read(path, plain::LOG_MOST) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Some(JournalFault::Missing),
        Err(error) => return Some(JournalFault::Unreadable(pitcrew_protocol::chain(&error))),
    };
    // The next append removes an incomplete last line, so such a line is no damage.
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let whole = lines.filter_map(|line| line.strip_suffix(b"\n"));
    let bad = whole.filter(|line| !is_sound(line.trim_ascii(), check)).count();
    (bad > 0).then_some(JournalFault::BadLines(bad))
}

fn is_sound(line: &[u8], check: LineCheck) -> bool {
    // A repair overwrites a bad line with blanks.
    if line.is_empty() {
        return true;
    }
    match check {
        LineCheck::Ends => line.starts_with(b"{\"at_ms\":") && line.ends_with(b"}"),
        LineCheck::Whole => std::str::from_utf8(line).is_ok_and(|line| entry_of(line).is_some()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_missing_a_damaged_and_an_unreadable_journal_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.ndjson");
        let both = |path: &Path| [LineCheck::Ends, LineCheck::Whole].map(|it| fault_of(path, it));
        assert_eq!(both(&path), [Some(JournalFault::Missing), Some(JournalFault::Missing)]);
        let entry = r#"{"at_ms":1,"event":"run_started"}"#;
        fs::write(&path, format!("{entry}\n   \n{entry}\n{{\"at_ms\":2,\"ev")).unwrap();
        assert_eq!(both(&path), [None, None], "blank and incomplete lines are no damage");
        fs::write(&path, format!("{entry}\nnonsense\n{{\"at_ms\":2}}\n{entry}\n")).unwrap();
        let bad = |lines| Some(JournalFault::BadLines(lines));
        assert_eq!(both(&path), [bad(1), bad(2)]);
        assert!(matches!(both(dir.path()), [Some(JournalFault::Unreadable(_)), _]));
    }
}
