//! The kernel's file lock (flock) on pitcrew's own files, with a limited wait.
//!
//! Only pitcrew should take these locks. However, any user who is able to read a file is also able
//! to lock it. If the wait is too long, the error names the process that holds the lock.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::disk::failed;
use super::lock::LockWait;
use crate::StoreError;

/// Longest wait for a lock. A pitcrew process that writes holds the lock only during one forced
/// write.
const WAIT_AT_MOST: Duration = Duration::from_secs(10);

/// Time to wait for a lock before the wait is reported.
pub(crate) const TELL_AFTER: Duration = Duration::from_secs(1);

/// The kind of access that the holder of a lock has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The holder reads, and other processes are also able to read.
    Shared,
    /// The holder writes, and no other process reads or writes.
    Exclusive,
}

impl Access {
    fn try_on(self, file: &File) -> Result<(), TryLockError> {
        match self {
            Self::Shared => file.try_lock_shared(),
            Self::Exclusive => file.try_lock(),
        }
    }

    fn wait_on(self, file: &File) -> io::Result<()> {
        match self {
            Self::Shared => file.lock_shared(),
            Self::Exclusive => file.lock(),
        }
    }
}

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
    lock_within(file, path, access, [TELL_AFTER, WAIT_AT_MOST.saturating_sub(TELL_AFTER)], tell)
}

/// Waits for the lock for the duration `quiet`, reports the wait, and then waits for the duration
/// `told_for`.
fn lock_within(
    file: &File,
    path: &Path,
    access: Access,
    [quiet, told_for]: [Duration; 2],
    tell: impl Fn(&LockWait),
) -> Result<(), StoreError> {
    match access.try_on(file) {
        Ok(()) => return Ok(()),
        Err(TryLockError::Error(error)) => return Err(failed("lock", path)(error)),
        Err(TryLockError::WouldBlock) => {}
    }
    // A separate thread waits in the kernel, because the kernel serves waiters in order, which
    // polling would not do. The thread uses a copy of the file handle, and all copies share the
    // lock. If this call gives up, the thread still gets the lock at some time. It then closes its
    // copy, which ends the lock.
    let started = Instant::now();
    let copy = file.try_clone().map_err(failed("lock", path))?;
    let (done, told) = mpsc::sync_channel(1);
    let waiting = thread::Builder::new().name("lock".to_owned()).spawn(move || {
        // The send fails if the caller has already given up. That is no error.
        let _late = done.send(access.wait_on(&copy));
    });
    waiting.map_err(failed("lock", path))?;
    let locked = told.recv_timeout(quiet).or_else(|_not_yet| {
        tell(&LockWait { lock: path.to_owned(), left: told_for, holder: holder(file) });
        told.recv_timeout(told_for)
    });
    match locked {
        Ok(locked) => locked.map_err(failed("lock", path)),
        Err(_too_long) => Err(StoreError::Locked {
            path: path.to_owned(),
            waited_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            holder: holder(file),
        }),
    }
}

/// Returns a text with the id and the name of the process that holds the file's lock. Returns
/// `None` if the operating system does not report the process.
pub(crate) fn holder(file: &File) -> Option<String> {
    let inode = file.metadata().ok()?.ino().to_string();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let pid = locks.lines().find_map(|line| {
        // A line of `/proc/locks` looks like `1: FLOCK  ADVISORY  WRITE 4711 fe:00:12345 0 EOF`,
        // where 4711 is the process id and 12345 is the inode. If the process still waits for the
        // lock, its line has an arrow after the first number. The arrow shifts the fields, so such
        // a line does not match.
        let mut fields = line.split_whitespace().skip(1);
        let is_flock = fields.next() == Some("FLOCK");
        let pid = fields.nth(2)?;
        let is_this = fields.next()?.rsplit(':').next() == Some(&inode);
        (is_flock && is_this).then(|| pid.to_owned())
    })?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    // A program chooses its own name. Therefore control characters are removed, so that they do not
    // reach a terminal.
    let name: String = name.trim().chars().filter(|char| !char.is_control()).collect();
    Some(if name.is_empty() { format!("process {pid}") } else { format!("process {pid} ({name})") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_another_holds_is_waited_for_with_a_bound_and_its_holder_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let (held, ours) = (File::create(&path).unwrap(), File::open(&path).unwrap());
        held.lock_shared().unwrap();
        lock(&ours, &path, Access::Shared, |_| panic!("it does not wait")).unwrap();
        ours.unlock().unwrap();
        let told = std::cell::RefCell::new(Vec::new());
        let tell = |wait: &LockWait| told.borrow_mut().extend(wait.holder.clone());
        let error =
            lock_within(&ours, &path, Access::Exclusive, [Duration::from_millis(20); 2], tell)
                .unwrap_err();
        let StoreError::Locked { holder: Some(holder), .. } = &error else { panic!("{error:?}") };
        assert!(holder.starts_with(&format!("process {} (", std::process::id())), "{holder}");
        assert!(error.to_string().contains(holder), "{error}");
        assert_eq!(&told.into_inner(), std::slice::from_ref(holder));
    }

    #[test]
    fn a_lock_is_had_when_it_is_given_back_also_after_one_gave_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let held = File::create(&path).unwrap();
        held.lock().unwrap();
        for _ in 0..3 {
            let ours = File::open(&path).unwrap();
            lock_within(&ours, &path, Access::Exclusive, [Duration::ZERO; 2], |_| ()).unwrap_err();
        }
        let ours = File::open(&path).unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| lock(&ours, &path, Access::Exclusive, |_| ()));
            drop(held);
            waiting.join().unwrap().unwrap();
        });
    }
}
