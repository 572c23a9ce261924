//! Opens plain files safely: never follows a link, never waits for a FIFO, and never reads more
//! than a limit.
//!
//! Other programs can put anything at the path of a team's file. Anything but a plain file causes
//! an error with its path, and `doctor` moves it aside.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::disk::failed;
use crate::{StoreError, own_mode};

/// Largest config, inbox, task or document that is read or written. This is about ten thousand
/// messages of the maximum length.
pub(crate) const FILE_MOST: u64 = 128 * 1024 * 1024;

/// Largest journal or log that is read, which is some millions of lines. Journals and logs grow for
/// as long as a team exists.
pub(crate) const LOG_MOST: u64 = 512 * 1024 * 1024;

/// Flags for opening every file: links are refused, and opening a FIFO or device does not block.
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
    /// Converts this reason to the store error for the file at `path`.
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

/// Opens a plain file with these options. A file that this creates gets pitcrew's file mode.
pub(crate) fn open_with(options: &mut OpenOptions, path: &Path) -> Result<File, Unopened> {
    checked(options.mode(own_mode::FILE_MODE).custom_flags(CAREFUL.bits().cast_signed()).open(path))
}

/// Accepts a file that was opened with [`CAREFUL`] if it is a plain file.
pub(crate) fn checked(opened: io::Result<File>) -> Result<File, Unopened> {
    let is = |error: &io::Error, errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    let file = opened.map_err(|error| match error {
        // The path is a link, a folder opened for writing, a socket, or a FIFO without a reader.
        error if is(&error, Errno::LOOP) || is(&error, Errno::ISDIR) || is(&error, Errno::NXIO) => {
            Unopened::NotPlain
        }
        error => Unopened::Failed(error),
    })?;
    // Opening a FIFO or a device succeeds without waiting, so the kind of the file is checked
    // afterwards.
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

/// Reads a whole plain file of at most `most` bytes. Returns `None` if it does not exist.
///
/// # Errors
/// [`StoreError::Corrupt`] if it is no plain file or too long, [`StoreError::Io`].
pub(crate) fn read(path: &Path, most: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let file = match open(path) {
        Ok(file) => file,
        Err(Unopened::Failed(error)) if super::disk::is_absent(&error) => return Ok(None),
        Err(error) => return Err(error.at("read", path)),
    };
    let length = file.metadata().map_err(failed("read", path))?.len();
    check_length(path, length, most)?;
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    // Reads one byte more than allowed, to notice a file that grows during the read.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(failed("read", path))?;
    check_length(path, bytes.len() as u64, most)?;
    Ok(Some(bytes))
}
