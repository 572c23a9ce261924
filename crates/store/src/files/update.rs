//! Changes a file that other programs also change. The new file is built and forced to disk without
//! the lock. Then, under the lock, the old file is checked and replaced.
//!
//! Source: section "The lock, in practice" of the dependencies document. If a reference client
//! finds the lock held, it drops its own message. Therefore the lock is held only for a check and a
//! rename. If the file changed before the lock was taken, the update starts again. From the third
//! try on, the lock is held during the whole try. Other pitcrew processes do not cause such a
//! change, because they wait for their turn.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use pitcrew_process::file_lock;

use super::disk::{Disk, Snapshot, Stamp, is_absent, make_dir};
use super::file_queue::{PATIENCE, Turn};
use super::lock::Lock;
use crate::StoreError;

/// Number of the first try, counted from 0, that holds the lock during the whole try.
const LOCKED_FROM: usize = 2;

/// Number of tries of an update before the update fails. Programs that write without a lock can
/// disturb even a try that holds the lock.
const TRIES: usize = 20;

/// If the folder of the file is missing, the update starts again. After this time, it no longer
/// does, and returns the error. A program that removes the folder needs less time than this.
const FOLDER_PATIENCE: Duration = Duration::from_secs(5);

/// Number of times that a damaged file is read under the lock, and the pause before each read. Some
/// programs write without the lock, and need some time between truncating a file and filling it. On
/// a machine under load 0.25 s was seen, which is much shorter than all pauses together.
const TORN_TRIES: usize = 60;
pub(crate) const TORN_PAUSE: Duration = Duration::from_millis(10);

/// What an update does with the file that was read.
pub(crate) enum Plan<T> {
    /// Replace the file with these bytes.
    Write(Vec<u8>, T),
    /// Remove the file.
    Remove(T),
    /// Leave the file unchanged.
    Keep(T),
}

/// The reason why a file could not be read, or why its change could not be computed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The file is empty, incomplete or invalid. Possibly another program is writing it at this
    /// moment.
    Torn(String),
    /// The file is beyond a limit. Reading it again would not help.
    TooMuch(String),
    /// Any other error of the read or of the change.
    Failed(StoreError),
}

impl<E: Into<StoreError>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Fault {
    /// Converts the fault to the store error for the file at `path`.
    pub(crate) fn at(self, path: &Path) -> StoreError {
        match self {
            Self::Torn(reason) | Self::TooMuch(reason) => {
                StoreError::Corrupt { path: path.to_owned(), reason }
            }
            Self::Failed(error) => error,
        }
    }

    /// Returns the reason as text.
    pub(crate) fn into_reason(self) -> String {
        match self {
            Self::Torn(reason) | Self::TooMuch(reason) => reason,
            Self::Failed(error) => error.to_string(),
        }
    }
}

/// The result of an update. `written` is the stamp of the new file, or `None` if no file was
/// written.
pub(crate) struct Updated<T> {
    pub(crate) value: T,
    pub(crate) written: Option<Stamp>,
}

/// Changes the file at `path` under the lock of the file `lock_of`. `plan` gets the present content
/// and decides what to do.
///
/// # Errors
/// [`StoreError::Corrupt`] if the file is damaged even under the lock. The error of `plan`, and the
/// errors of taking the lock and of the disk, are passed on. After an error, the file is unchanged
/// and no temporary file is left.
pub(crate) fn update<T>(
    disk: &Disk,
    path: &Path,
    lock_of: &Path,
    mut plan: impl FnMut(Option<&Snapshot>) -> Result<Plan<T>, Fault>,
) -> Result<Updated<T>, StoreError> {
    let started = Instant::now();
    loop {
        match update_there(disk, path, lock_of, &mut plan) {
            Err(StoreError::Io { source, .. })
                if is_absent(&source)
                    && started.elapsed() < FOLDER_PATIENCE
                    && remakes_folder(path) => {}
            updated => return updated,
        }
    }
}

/// Creates the folder of a file again if another program removed the folder during the update. Does
/// nothing if the team no longer exists. Returns whether the folder was created.
fn remakes_folder(path: &Path) -> bool {
    let Some(folder) = path.parent() else { return false };
    let is_of_a_team = folder.parent().is_some_and(|team| team.join("config.json").is_file());
    is_of_a_team && make_dir(folder).is_ok()
}

fn update_there<T>(
    disk: &Disk,
    path: &Path,
    lock_of: &Path,
    plan: &mut impl FnMut(Option<&Snapshot>) -> Result<Plan<T>, Fault>,
) -> Result<Updated<T>, StoreError> {
    // First wait for a turn among the pitcrew processes. Then no other pitcrew process holds the
    // lock when this update needs it.
    let turn = Turn::take(path, PATIENCE, |wait| disk.tell_wait(wait));
    let mut torn = 0;
    let mut tries = 0;
    while tries < TRIES {
        let mut lock = if tries >= LOCKED_FROM { Some(disk.lock(lock_of)?) } else { None };
        let before = Snapshot::read(path)?;
        let planned = match plan(before.as_ref()) {
            Ok(planned) => planned,
            Err(fault @ (Fault::Failed(_) | Fault::TooMuch(_))) => return Err(fault.at(path)),
            Err(Fault::Torn(reason)) => {
                if lock.is_some() {
                    torn += 1;
                    if torn >= TORN_TRIES || before.is_some_and(|it| it.stamp.is_old()) {
                        return Err(StoreError::Corrupt { path: path.to_owned(), reason });
                    }
                    thread::sleep(TORN_PAUSE);
                }
                // The file may be damaged because a client that holds the lock is still writing it.
                // Therefore the next try waits for the lock.
                tries = LOCKED_FROM;
                continue;
            }
        };
        tries += 1;
        let (temp, value) = match planned {
            Plan::Keep(value) => return Ok(Updated { value, written: None }),
            Plan::Remove(value) => (None, value),
            Plan::Write(bytes, value) => {
                (Some(disk.write_temp(path, &bytes, before.as_ref().map(Snapshot::mode))?), value)
            }
        };
        let mut held = match lock.take() {
            Some(held) => held,
            None => disk.lock(lock_of)?,
        };
        disk.crash_point("locked");
        // If the file changed after the read, or if another process broke the lock, the next try
        // plans with the new content.
        if !Snapshot::still_holds(before.as_ref(), path)? || !held.is_held() {
            continue;
        }
        let written = match temp {
            Some(temp) => Some(temp.rename(path)?),
            None => {
                super::disk::remove_file(path)?;
                None
            }
        };
        disk.crash_point("renamed");
        // The lock is released before the fsync of the folder, so that it is held for a short time.
        // A reference client drops its message if it finds the lock held.
        drop(held);
        drop(turn);
        disk.crash_point("lock given back");
        disk.force_dir(path.parent().unwrap_or(path))?;
        disk.crash_point("folder forced");
        return Ok(Updated { value, written });
    }
    // This line is reached only if other writers disturbed every try.
    Err(StoreError::Locked { path: path.to_owned(), waited_ms: 0, holder: None })
}

/// Reads the file at `path`. A damaged file that changed lately is read again several times before
/// it is reported as corrupt. If `lock_of` is given, the lock of the file `lock_of` is held during each repeated
/// read.
///
/// # Errors
/// [`StoreError::Corrupt`], and the errors of taking the lock and of the disk.
pub(crate) fn read<T>(
    path: &Path,
    lock_of: Option<&Path>,
    mut parse: impl FnMut(Option<&Snapshot>) -> Result<T, Fault>,
) -> Result<T, StoreError> {
    let mut torn = 0;
    loop {
        let lock = match lock_of {
            Some(lock_of) if torn > 0 => take_if_writable(lock_of)?,
            Some(_) | None => None,
        };
        let snapshot = Snapshot::read(path)?;
        let is_damaged =
            || torn >= TORN_TRIES || snapshot.as_ref().is_some_and(|it| it.stamp.is_old());
        match parse(snapshot.as_ref()) {
            Ok(value) => return Ok(value),
            Err(fault @ (Fault::Failed(_) | Fault::TooMuch(_))) => return Err(fault.at(path)),
            Err(Fault::Torn(reason)) if is_damaged() => {
                return Err(StoreError::Corrupt { path: path.to_owned(), reason });
            }
            Err(Fault::Torn(_)) => {
                if lock.is_some() || torn > 0 {
                    thread::sleep(TORN_PAUSE);
                }
                torn += 1;
            }
        }
    }
}

/// Reads the file at `path`. The caller must hold the lock of the file.
///
/// # Errors
/// The errors of [`read`].
pub(crate) fn read_locked<T>(
    path: &Path,
    mut parse: impl FnMut(Option<&Snapshot>) -> Result<T, Fault>,
) -> Result<T, StoreError> {
    for _ in 1..TORN_TRIES {
        let snapshot = Snapshot::read(path)?;
        match parse(snapshot.as_ref()) {
            Ok(value) => return Ok(value),
            Err(fault @ (Fault::Failed(_) | Fault::TooMuch(_))) => return Err(fault.at(path)),
            Err(Fault::Torn(_)) if snapshot.is_some_and(|it| it.stamp.is_old()) => break,
            Err(Fault::Torn(_)) => thread::sleep(TORN_PAUSE),
        }
    }
    parse(Snapshot::read(path)?.as_ref()).map_err(|fault| fault.at(path))
}

/// Takes the lock of the file `lock_of`. Returns `None` if this process is not allowed to create
/// the lock, for example on a read-only file system.
fn take_if_writable(lock_of: &Path) -> Result<Option<Lock>, StoreError> {
    match Lock::take(lock_of, file_lock::report) {
        Ok(lock) => Ok(Some(lock)),
        Err(StoreError::Io { source, .. })
            if matches!(
                source.kind(),
                std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::FileOptions;

    #[test]
    fn two_stores_that_write_to_one_file_at_once_do_nothing_twice() {
        const WRITES: u64 = 20;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        fs::write(&path, "").unwrap();
        let write = || {
            let disk = Disk::new(FileOptions::default());
            for _ in 0..WRITES {
                let longer = |before: Option<&Snapshot>| {
                    let mut bytes = before.map(|s| s.bytes.clone()).unwrap_or_default();
                    bytes.push(b'x');
                    Ok(Plan::Write(bytes, ()))
                };
                update(&disk, &path, &path, longer).unwrap();
            }
            disk.forced()
        };
        let forced: u64 = thread::scope(|s| {
            [s.spawn(write), s.spawn(write)].map(|t| t.join().unwrap()).iter().sum()
        });
        assert_eq!(fs::read(&path).unwrap().len(), 2 * usize::try_from(WRITES).unwrap());
        assert_eq!(forced, 2 * 2 * WRITES, "the file and its folder, once for each write");
    }
}
