//! Opening what must be a plain file: never through a link, never waiting for a FIFO, and read up to a bound only.
//!
//! Others can put anything where a file of a team should stand. What is no plain file is an error that names it, and
//! `doctor` moves it aside.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::disk::failed;
use crate::{StoreError, own_mode};

/// The longest config, inbox, task or document that is read or written: some ten thousand messages of the longest content.
pub(crate) const FILE_MOST: u64 = 128 * 1024 * 1024;

/// The longest journal or log that is read: some millions of lines. They grow for as long as a team lives.
pub(crate) const LOG_MOST: u64 = 512 * 1024 * 1024;

/// How every file is opened: links are refused, and a FIFO or device does not make us wait.
pub(crate) const CAREFUL: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Why something could not be opened as a plain file.
#[derive(Debug)]
pub(crate) enum Unopened {
    /// It is there, and is a link, a folder, a FIFO or a device.
    NotPlain,
    /// The system said no.
    Failed(io::Error),
}

impl Unopened {
    /// The error about the file at `path`.
    pub(crate) fn at(self, action: &'static str, path: &Path) -> StoreError {
        match self {
            Self::NotPlain => {
                let reason =
                    "a link, a folder or a device stands where a plain file should".to_owned();
                StoreError::Corrupt { path: path.to_owned(), reason }
            }
            Self::Failed(error) => failed(action, path)(error),
        }
    }
}

/// Opens a plain file for reading.
pub(crate) fn open(path: &Path) -> Result<File, Unopened> {
    open_with(OpenOptions::new().read(true), path)
}

/// Opens, and perhaps makes, a plain file, which gets our mode.
pub(crate) fn open_with(options: &mut OpenOptions, path: &Path) -> Result<File, Unopened> {
    checked(options.mode(own_mode::FILE_MODE).custom_flags(CAREFUL.bits().cast_signed()).open(path))
}

/// Takes what was opened with [`CAREFUL`] when it is a plain file.
pub(crate) fn checked(opened: io::Result<File>) -> Result<File, Unopened> {
    let is = |error: &io::Error, errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    let file = opened.map_err(|error| match error {
        // A link; a folder that was to be written; a socket, or a FIFO nobody reads.
        error if is(&error, Errno::LOOP) || is(&error, Errno::ISDIR) || is(&error, Errno::NXIO) => {
            Unopened::NotPlain
        }
        error => Unopened::Failed(error),
    })?;
    match file.metadata() {
        Ok(meta) if meta.is_file() => Ok(file),
        Ok(_) => Err(Unopened::NotPlain),
        Err(error) => Err(Unopened::Failed(error)),
    }
}

/// Refuses a file longer than `most`.
///
/// # Errors
/// [`StoreError::Corrupt`] with both lengths.
pub(crate) fn check_length(path: &Path, length: u64, most: u64) -> Result<(), StoreError> {
    if length <= most {
        return Ok(());
    }
    let reason = format!("it is {length} bytes long; at most {most} are read");
    Err(StoreError::Corrupt { path: path.to_owned(), reason })
}

/// Reads a plain file of at most `most` bytes whole; `None` when it is not there.
///
/// # Errors
/// [`StoreError::Corrupt`] for what is no plain file or is too long, [`StoreError::Io`].
pub(crate) fn read(path: &Path, most: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let file = match open(path) {
        Ok(file) => file,
        Err(Unopened::Failed(error)) if super::disk::is_absent(&error) => return Ok(None),
        Err(error) => return Err(error.at("read", path)),
    };
    let length = file.metadata().map_err(failed("read", path))?.len();
    check_length(path, length, most)?;
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    // One more than allowed, so that a file that grows meanwhile is noticed.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(failed("read", path))?;
    check_length(path, bytes.len() as u64, most)?;
    Ok(Some(bytes))
}
