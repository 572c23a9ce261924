//! Waits for the kernel's lock (flock) on a file: with a limit, and never without a word.
//!
//! Only pitcrew should lock pitcrew's files. However, any program that is able to open a file is
//! also able to lock it, and to hold it for ever. Therefore each wait has a deadline. A long wait is
//! reported with the process that holds the lock, and the error after the deadline names it too.
//! The kernel ends a wait when its process ends.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Time to wait for a lock before the wait is reported.
pub const TELL_AFTER: Duration = Duration::from_secs(1);

/// Most characters of a process's command that a text about a lock contains.
const COMMAND_CHARS: usize = 80;

/// The kind of access that the holder of a lock has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
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

/// Describes a wait for a lock.
#[derive(Clone, Debug)]
pub struct LockWait {
    /// The path of the lock.
    pub lock: PathBuf,
    /// Longest remaining wait. If the holder refreshes the lock, the wait becomes longer.
    pub left: Duration,
    /// The process that holds the lock, if the operating system reports it.
    pub holder: Option<String>,
}

/// The error for a lock that was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process held the lock for the whole time.
    #[error(
        "{} has been locked for {:.0} s by {}", path.display(), waited.as_secs_f32(),
        holder.as_deref().unwrap_or("an unknown process")
    )]
    Held {
        /// The path of the lock.
        path: PathBuf,
        /// How long the call waited.
        waited: Duration,
        /// The process that holds the lock, if the operating system reports it.
        holder: Option<String>,
    },
    /// The operating system returned an error. Some file systems have no locks.
    #[error("cannot lock {}", path.display())]
    Io {
        /// The path of the lock.
        path: PathBuf,
        /// The underlying error.
        #[source]
        source: io::Error,
    },
}

type Tell = Box<dyn Fn(&LockWait) + Send + Sync>;

/// The function that reports long waits to the user.
static TELL: OnceLock<Tell> = OnceLock::new();

/// Sets the function that reports long waits of this process to the user. The first call counts.
pub fn report_by(tell: impl Fn(&LockWait) + Send + Sync + 'static) {
    let _set_before = TELL.set(Box::new(tell));
}

/// Reports a long wait to the user. For callers of [`lock`] that have no better way.
pub fn report(wait: &LockWait) {
    if let Some(tell) = TELL.get() {
        tell(wait);
    }
}

/// Locks the open file, which is at `path`. The lock ends when the file is closed. The call waits at
/// most `at_most`, and blocks its thread for this time. A wait that is longer than [`TELL_AFTER`] is
/// reported through `tell`.
///
/// # Errors
/// [`LockError::Held`] after `at_most`, and [`LockError::Io`] if the operating system returns an
/// error.
pub fn lock(
    file: &File,
    path: &Path,
    access: Access,
    at_most: Duration,
    tell: impl Fn(&LockWait),
) -> Result<(), LockError> {
    let quiet = TELL_AFTER.min(at_most);
    lock_within(file, path, access, [quiet, at_most.saturating_sub(quiet)], tell)
}

/// Waits for the lock for the duration `quiet`, reports the wait, and then waits for the duration
/// `told_for`.
fn lock_within(
    file: &File,
    path: &Path,
    access: Access,
    [quiet, told_for]: [Duration; 2],
    tell: impl Fn(&LockWait),
) -> Result<(), LockError> {
    let failed = |source| LockError::Io { path: path.to_owned(), source };
    match access.try_on(file) {
        Ok(()) => return Ok(()),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
        Err(TryLockError::WouldBlock) => {}
    }
    // A separate thread waits in the kernel, because the kernel serves waiters in order, which
    // polling would not do. The thread uses a copy of the file handle, and all copies share the
    // lock. If this call gives up, the thread still gets the lock at some time. It then closes its
    // copy, which ends the lock.
    let started = Instant::now();
    let copy = file.try_clone().map_err(failed)?;
    let (done, told) = mpsc::sync_channel(1);
    let waiting = thread::Builder::new().name("lock".to_owned()).spawn(move || {
        // The send fails if the caller has already given up. That is no error.
        let _late = done.send(access.wait_on(&copy));
    });
    waiting.map_err(failed)?;
    let locked = told.recv_timeout(quiet).or_else(|_not_yet| {
        tell(&LockWait { lock: path.to_owned(), left: told_for, holder: holder(file) });
        told.recv_timeout(told_for)
    });
    match locked {
        Ok(locked) => locked.map_err(failed),
        Err(_too_long) => Err(LockError::Held {
            path: path.to_owned(),
            waited: started.elapsed(),
            holder: holder(file),
        }),
    }
}

/// Returns a text with the id and the command of the process that holds the file's lock. Returns
/// `None` if the operating system does not report the process.
pub fn holder(file: &File) -> Option<String> {
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
    let command = command_of(&pid);
    Some(match command.is_empty() {
        true => format!("process {pid}"),
        false => format!("process {pid} ({command})"),
    })
}

/// Returns the command line of a process, or its name if it has none, or an empty text.
fn command_of(pid: &str) -> String {
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&arguments).replace('\0', " ");
    let line = match line.trim().is_empty() {
        true => fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default(),
        false => line,
    };
    // A program chooses its own command line. Therefore control characters are removed, so that
    // they do not reach a terminal.
    let mut shown: String =
        line.trim().chars().filter(|char| !char.is_control()).take(COMMAND_CHARS).collect();
    if line.trim().chars().count() > COMMAND_CHARS {
        shown.push_str("...");
    }
    shown
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
        let quick = Duration::from_secs(60);
        lock(&ours, &path, Access::Shared, quick, |_| panic!("it does not wait")).unwrap();
        ours.unlock().unwrap();
        let told = std::cell::RefCell::new(Vec::new());
        let tell = |wait: &LockWait| told.borrow_mut().extend(wait.holder.clone());
        let error =
            lock_within(&ours, &path, Access::Exclusive, [Duration::from_millis(20); 2], tell)
                .unwrap_err();
        let LockError::Held { holder: Some(holder), .. } = &error else { panic!("{error:?}") };
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
            let quick = Duration::from_secs(60);
            let ours = &ours;
            let path = &path;
            let waiting = scope.spawn(move || lock(ours, path, Access::Exclusive, quick, |_| ()));
            drop(held);
            waiting.join().unwrap().unwrap();
        });
    }
}
