//! The check of protected places after commands whose pitcrew process was killed. It is done when
//! pitcrew starts the next time, or when the user calls `pitcrew doctor`.
//!
//! The records are in `pitcrew/quarantine` below the configuration root, where no command can
//! write. A record is written before its command starts, but not synced to disk. Therefore the
//! record survives the end of the process, but not always a power failure.

use std::path::{Path, PathBuf};

use super::quarantine::Appeared;
use super::records::Record;

/// Renames the files that sandboxed commands created in protected places, if the pitcrew process
/// that ran the commands was killed. Returns a description of each file as a sentence.
///
/// Call this function before any settings, definitions or instructions of a project are read.
/// Otherwise the created files would take effect.
#[must_use]
pub fn put_aside_unfinished(root: &Path) -> Vec<String> {
    let mut appeared = Appeared::default();
    Unfinished::below(root).into_iter().for_each(|command| appeared.add(command.put_aside()));
    let Appeared { aside, left } = appeared;
    let aside = aside.into_iter().map(|words| {
        format!(
            "a sandboxed command of a run that was killed had made what decides rights or runs by itself; it was put \
             aside: {words}"
        )
    });
    let left = left.into_iter().map(|words| {
        format!(
            "a sandboxed command of a run that was killed had made what decides rights or runs by itself, and it could \
             not be put aside. Remove it before you work there: {words}"
        )
    });
    aside.chain(left).collect()
}

/// The record of a command whose pitcrew process was killed before it could check the protected
/// places.
#[derive(Debug)]
pub struct Unfinished(Record);

impl Unfinished {
    /// Returns the unfinished records below a configuration root.
    #[must_use]
    pub fn below(root: &Path) -> Vec<Self> {
        Record::of_killed(root).into_iter().map(Self).collect()
    }

    /// Returns the protected places where the command seems to have created something. This
    /// function changes nothing.
    #[must_use]
    pub fn appeared(&self) -> Vec<PathBuf> {
        self.0.appeared()
    }

    /// Renames the files that the command created in protected places.
    #[must_use]
    pub fn put_aside(self) -> Appeared {
        self.0.settle()
    }
}
