//! The file with the output of a host process, `host.log` in pitcrew's own folder of the team.
//!
//! The standard output and the standard error of the host process lead to this file, so that it also
//! contains warnings, the lines of a logger and a panic.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use pitcrew_process::handle::{Folder, Unopened};
use pitcrew_team::Team;

use crate::failure::{Explained, Failure};

const NAME: &str = "host.log";

/// The name of the previous part of the log. Only one previous part is kept.
const PREVIOUS: &str = "host.log.1";

/// The length in bytes at which a new part of the log begins.
const PART_BYTES: u64 = 2 * 1024 * 1024;

/// Only the user may read the log, because it contains what the agents say.
const MODE: u32 = 0o600;

/// The log of this process.
#[derive(Debug)]
pub(crate) struct HostLog {
    /// The team's folder stays open, because the folder moves to the archive at the end of the run.
    folder: Folder,
    path: PathBuf,
    file: File,
    /// Whether the standard output of this process leads to the log.
    has_stdout: bool,
}

impl HostLog {
    /// Opens the log of the process that runs this team. A log of an earlier run is continued.
    ///
    /// # Errors
    /// Returns an error if the team has no folder, or if the file cannot be opened.
    pub(super) fn open(team: &Team) -> Result<Self, Failure> {
        let own = team.own_folder().ok_or_else(|| {
            Failure::usage("teams are switched off, and a detached run needs a team on disk")
        })?;
        let opened = || -> Result<Self, Unopened> {
            // The root may be a link, so the real path is opened. The store has already refused a
            // link in place of a folder below the root.
            let folder = Folder::open(&fs::canonicalize(&own)?)?;
            let file = folder.file_to_append(OsStr::new(NAME), MODE)?;
            Ok(Self { folder, path: own.join(NAME), file, has_stdout: false })
        };
        opened().map_err(|error| {
            let said = format!("the log {} cannot be opened", own.join(NAME).display());
            Failure::internal(Explained::new(said, error))
        })
    }

    /// The path of the log while the team is not in the archive.
    pub(super) fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Leads the standard error of this process to the log.
    ///
    /// # Errors
    /// Returns the error of the system call.
    pub(super) fn take_stderr(&self) -> io::Result<()> {
        Ok(rustix::stdio::dup2_stderr(&self.file)?)
    }

    /// Leads the standard output of this process to the log, as its standard error.
    ///
    /// # Errors
    /// Returns the error of the system call.
    pub(super) fn take_stdout(&mut self) -> io::Result<()> {
        rustix::stdio::dup2_stdout(&self.file)?;
        self.has_stdout = true;
        Ok(())
    }

    /// Begins a new part of the log if the current part is long enough. If that fails, the current
    /// part grows, because a run must not end because of its log.
    pub(crate) fn keep_bounded(&mut self) {
        let length = self.file.metadata().map_or(0, |data| data.len());
        if length < PART_BYTES {
            return;
        }
        let (now, previous) = (OsStr::new(NAME), OsStr::new(PREVIOUS));
        let next = self.folder.rename(now, previous).map_err(Unopened::from);
        if let Ok(file) = next.and_then(|()| self.folder.file_to_append(now, MODE)) {
            self.file = file;
            // If this fails, the output stays in the previous part.
            let _either = self.take_stderr();
            if self.has_stdout {
                let _either = self.take_stdout();
            }
        }
    }
}
