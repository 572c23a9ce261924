//! The kernel's file lock (flock) on pitcrew's own files, with a limited wait.
//! [`pitcrew_process::file_lock`] does the waiting.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use pitcrew_process::file_lock::{self, LockError};
pub(crate) use pitcrew_process::file_lock::{Access, TELL_AFTER, holder};

use super::disk::failed;
use super::lock::LockWait;
use crate::StoreError;

/// Longest wait for a lock. A pitcrew process that writes holds the lock only during one forced
/// write.
pub(crate) const WAIT_AT_MOST: Duration = Duration::from_secs(10);

/// Locks the open file, which is at `path`. The lock ends when the file is closed. Reports a long
/// wait through `tell`.
///
/// # Errors
/// [`StoreError::Locked`] after 10 s, and [`StoreError::Io`] if the operating system returns an
/// error.
pub(crate) fn lock(
    file: &File,
    path: &Path,
    access: Access,
    tell: impl Fn(&LockWait),
) -> Result<(), StoreError> {
    file_lock::lock(file, path, access, WAIT_AT_MOST, tell).map_err(|error| match error {
        LockError::Held { path, waited, holder } => {
            let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
            StoreError::Locked { path, waited_ms, holder }
        }
        LockError::Io { path, source } => failed("lock", &path)(source),
    })
}
