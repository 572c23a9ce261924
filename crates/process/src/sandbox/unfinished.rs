//! Stores on disk which places must be checked after a command in the sandbox profile *work*. If
//! this process is killed before the check, the check is done when pitcrew starts the next time, or
//! when the user calls `pitcrew doctor`.
//!
//! The records are in `pitcrew/quarantine` below the configuration root, where no command can
//! write. A record is written before its command starts, but not synced to disk. Therefore the
//! record survives the end of the process, but not always a power failure.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::quarantine::{Appeared, Uncovered};
use crate::identity::ProcessIdentity;
use crate::own_mode;

/// Folder below the configuration root that contains the records.
const BELOW_ROOT: &str = "pitcrew/quarantine";

/// Maximum size of a record that is read, in bytes.
const MOST_BYTES: u64 = 16 << 20;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Places {
    places: Vec<Uncovered>,
}

/// The protected places to check after one command, stored on disk.
#[derive(Debug)]
pub(super) struct Record {
    file: PathBuf,
    places: Vec<Uncovered>,
}

impl Record {
    /// Stores the places to check after a command that this process is about to start.
    ///
    /// # Errors
    /// If the record cannot be written. In this case the caller must not start the command.
    pub(super) fn write(root: &Path, places: Vec<Uncovered>) -> io::Result<Self> {
        let folder = root.join(BELOW_ROOT);
        own_mode::create_folders(&folder)?;
        let ProcessIdentity { pid, start_ticks } = ProcessIdentity::own();
        let name = format!("{pid}.{start_ticks}.{}", uuid::Uuid::new_v4().simple());
        let (part, file) =
            (folder.join(format!("{name}.part")), folder.join(format!("{name}.json")));
        let places = Places { places };
        let mut written = own_mode::file_options().write(true).create_new(true).open(&part)?;
        written.write_all(&serde_json::to_vec(&places)?)?;
        drop(written);
        // The complete file gets its final name only here, so that a reader never sees a part of a
        // record.
        fs::rename(&part, &file)?;
        Ok(Self { file, places: places.places })
    }

    /// Renames the files that the command created at the recorded places. If one of the files
    /// cannot be renamed, the record stays on disk.
    pub(super) fn settle(self) -> Appeared {
        let mut appeared = Appeared::default();
        self.places.iter().for_each(|place| appeared.add(place.restore()));
        if appeared.left.is_empty()
            && let Err(problem) = fs::remove_file(&self.file)
            && problem.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(record = %self.file.display(), %problem, "a record of a command stays");
        }
        appeared
    }
}

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
        let entries = fs::read_dir(root.join(BELOW_ROOT)).into_iter().flatten().flatten();
        entries.filter_map(|entry| Self::of_dead(entry.path())).collect()
    }

    fn of_dead(file: PathBuf) -> Option<Self> {
        let name = file.file_name()?.to_str()?;
        let mut parts = name.split('.');
        let owner = ProcessIdentity {
            pid: parts.next()?.parse().ok()?,
            start_ticks: parts.next()?.parse().ok()?,
        };
        // The record's file name contains the id of the pitcrew process that wrote the record. If
        // that pitcrew process is still running, it will check the protected places itself.
        if owner.is_alive() || !name.ends_with(".json") {
            return None;
        }
        let metadata = fs::symlink_metadata(&file).ok()?;
        if !metadata.is_file() || metadata.len() > MOST_BYTES {
            return None;
        }
        let Places { places } = serde_json::from_slice(&fs::read(&file).ok()?).ok()?;
        Some(Self(Record { file, places }))
    }

    /// Returns the protected places where the command seems to have created something. This
    /// function changes nothing.
    #[must_use]
    pub fn appeared(&self) -> Vec<PathBuf> {
        self.0.places.iter().flat_map(Uncovered::has_appeared).collect()
    }

    /// Renames the files that the command created in protected places.
    #[must_use]
    pub fn put_aside(self) -> Appeared {
        self.0.settle()
    }
}
