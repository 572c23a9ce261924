//! Opens plain files safely. This module never follows a link, never waits for a FIFO, and never
//! reads more than a limit.
//!
//! Other programs can put any kind of entry at the path of a team's file. If the entry is not a
//! plain file, the result is an error that names the path. The command `doctor` moves such an entry
//! aside.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::disk::failed;
use crate::{StoreError, own_mode};

/// Largest length in bytes of a config, inbox, task or document that is read or written. An inbox
/// of this length has about ten thousand messages of the maximum length.
pub(crate) const FILE_MOST: u64 = 128 * 1024 * 1024;

/// Largest length in bytes of a journal or log that is read. A file of this length has some
/// millions of lines. Journals and logs grow for as long as their team exists.
pub(crate) const LOG_MOST: u64 = 512 * 1024 * 1024;

/// Flags with which every file is opened. A link causes an error, and opening a FIFO or a device
/// does not block.
pub(crate) const CAREFUL: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// The reason why a path could not be opened as a plain file.
#[derive(Debug)]
pub(crate) enum Unopened {
    /// The path is a link, a folder, a FIFO or a device.
    NotPlain,
    /// The operating system returned an error.
    Failed(io::Error),
}

impl Unopened {
    /// Converts this reason to the store error for the file at `path`. `action` is the attempted
    /// action, as a verb.
    pub(crate) fn at(self, action: &'static str, path: &Path) -> StoreError {
        match self {
            Self::NotPlain => {
                let reason =
                    "it is a link, a folder or a device, but must be a regular file".to_owned();
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

/// Opens a plain file with these options. If this call creates the file, the file gets the mode
/// [`own_mode::FILE_MODE`].
pub(crate) fn open_with(options: &mut OpenOptions, path: &Path) -> Result<File, Unopened> {
    checked(options.mode(own_mode::FILE_MODE).custom_flags(CAREFUL.bits().cast_signed()).open(path))
}

/// Returns the file if it is a plain file, otherwise the reason why it is not. The caller must have
/// opened the file with the flags [`CAREFUL`].
pub(crate) fn checked(opened: io::Result<File>) -> Result<File, Unopened> {
    let is = |error: &io::Error, errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    let file = opened.map_err(|error| match error {
        // The operating system returns these errors for a link, a folder opened for writing, a
        // socket, or a FIFO without a reader.
        error if is(&error, Errno::LOOP) || is(&error, Errno::ISDIR) || is(&error, Errno::NXIO) => {
            Unopened::NotPlain
        }
        error => Unopened::Failed(error),
    })?;
    // Opening a FIFO or a device can also succeed, because it does not wait. Therefore the kind of
    // the file is checked here.
    match file.metadata() {
        Ok(meta) if meta.is_file() => Ok(file),
        Ok(_) => Err(Unopened::NotPlain),
        Err(error) => Err(Unopened::Failed(error)),
    }
}

/// Returns an error for a file that is longer than `most` bytes.
///
/// # Errors
/// [`StoreError::Corrupt`], which names both lengths.
pub(crate) fn check_length(path: &Path, length: u64, most: u64) -> Result<(), StoreError> {
    if length <= most {
        return Ok(());
    }
    let reason = format!("it is {length} bytes long; at most {most} are read");
    Err(StoreError::Corrupt { path: path.to_owned(), reason })
}

/// Reads a whole plain file that has at most `most` bytes. Returns `None` if the file does not
/// exist.
///
/// # Errors
/// [`StoreError::Corrupt`] if the path is not a plain file, or if the file is too long.
/// [`StoreError::Io`] if the operating system returns an error.
pub(crate) fn read(path: &Path, most: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let file = match open(path) {
        Ok(file) => file,
        Err(Unopened::Failed(error)) if super::disk::is_absent(&error) => return Ok(None),
        Err(error) => return Err(error.at("read", path)),
    };
    let length = file.metadata().map_err(failed("read", path))?.len();
    check_length(path, length, most)?;
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    // One byte more than allowed is read, to detect a file that becomes too long during the read.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(failed("read", path))?;
    check_length(path, bytes.len() as u64, most)?;
    Ok(Some(bytes))
}
