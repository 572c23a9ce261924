//! The lock that every writer of a team's files takes: the folder `<file>.lock`, in the form of
//! npm's proper-lockfile.
//!
//! Source: section "Locks" of the wire format document. Pitcrew creates only folders, and puts
//! nothing into them. It removes stale locks that are folders or files. The kernel does not wake a
//! process when another program removes a folder, so pitcrew waits by short sleeps of random
//! length.
//!
//! Pitcrew marks its own locks with a mode bit. The holder of such a lock also holds the kernel's
//! lock (flock) on the folder, and this flock ends with the process. If another process is able to
//! flock a marked lock, the holder is dead, and the process need not wait.

use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{CWD, FlockOperation, Timespec, Timestamps, UTIME_OMIT, flock, utimensat};

pub use pitcrew_process::file_lock::LockWait;

use super::disk::failed;
use super::flock::{self as file_lock, TELL_AFTER};
use super::look::is_free;
use super::rename;
use crate::{StoreError, own_mode};

/// If a lock was not refreshed for this time, it is stale: nobody holds it any more.
pub(crate) const STALE_AFTER: Duration = Duration::from_secs(10);

/// Time after which a holder refreshes its lock.
const REFRESH_AFTER: Duration = Duration::from_secs(5);

/// Longest total wait for a lock. A dead holder delays other processes for at most [`STALE_AFTER`],
/// which is a third of this time.
const WAIT_AT_MOST: Duration = Duration::from_secs(30);

/// Mode of pitcrew's lock folders: pitcrew's folder mode plus the sticky bit. No other client sets
/// the sticky bit. The bit does not prevent other users of the folder from removing the lock.
const OUR_MODE: u32 = OUR_MARK | own_mode::FOLDER_MODE;

/// The mode bit that identifies pitcrew's locks.
const OUR_MARK: u32 = 0o1000;

/// If a pitcrew lock has no living holder for this time, the lock counts as left by a dead process.
/// A new holder needs a moment between creating the folder and taking the flock.
const DEAD_AFTER: Duration = Duration::from_millis(300);

/// Shortest and longest sleep between two tries, in milliseconds.
const BACK_OFF_MS: std::ops::Range<u64> = 1..20;

/// Time that a holder waits for its lock to come back. Another process may have moved the lock away
/// because it mistook the lock for a stale one. That process then moves the lock back.
const MISTAKEN_FOR: Duration = Duration::from_millis(5);

/// A held lock. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    ours: Sign,
    refreshed: Instant,
    /// The folder, opened with a flock on it. The flock ends with the process, so it shows other
    /// processes that the holder is alive. `None` if the file system does not support flock.
    _alive: Option<File>,
}

/// Inode number and time stamp of a lock folder. These values differ between a lock and the next
/// lock at the same path. Each refresh of a lock changes its time stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sign {
    ino: u64,
    mtime_ns: i128,
}

impl Sign {
    fn at(path: &Path) -> io::Result<Self> {
        let meta = fs::symlink_metadata(path)?;
        Ok(Self::of(&meta))
    }

    fn of(meta: &fs::Metadata) -> Self {
        Self {
            ino: meta.ino(),
            mtime_ns: i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec()),
        }
    }

    /// Returns the age of the lock, computed from its time stamp.
    fn age(&self) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let age_ns = i128::try_from(now.as_nanos()).unwrap_or(0) - self.mtime_ns;
        Duration::from_nanos(u64::try_from(age_ns).unwrap_or(0))
    }

    /// Whether the lock is stale according to its time stamp. A time stamp in the future is not
    /// stale, because other clients set a time up to 1 s ahead to test the clock.
    fn is_old(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let age_ns = i128::try_from(now.as_nanos()).unwrap_or(0) - self.mtime_ns;
        age_ns > i128::try_from(STALE_AFTER.as_nanos()).unwrap_or(i128::MAX)
    }
}

pub(crate) fn lock_path(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(".lock");
    PathBuf::from(path)
}

/// Whether a living process holds the lock of `file`. If the holder is dead, the lock counts as
/// free, because any process that needs the lock removes it.
pub(crate) fn is_taken(file: &Path) -> bool {
    let path = lock_path(file);
    let Ok(sign) = Sign::at(&path) else { return false };
    !sign.is_old() && !is_of_the_dead(&path, sign)
}

/// Whether a dead pitcrew process left the lock. If the lock is too young to decide this, waits for
/// at most [`DEAD_AFTER`]. Returns false for a lock of another client. This function blocks the
/// thread.
pub(crate) fn will_be_of_the_dead(path: &Path) -> bool {
    let Ok(sign) = Sign::at(path) else { return false };
    if is_marked_as_ours(path) && sign.age() <= DEAD_AFTER {
        thread::sleep(DEAD_AFTER.saturating_sub(sign.age()) + Duration::from_millis(1));
    }
    Sign::at(path).ok() == Some(sign) && is_of_the_dead(path, sign)
}

/// Whether a dead pitcrew process left the lock. Returns false for a very young lock: its holder is
/// about to take the flock. If this function took the flock to test it, the holder could not take
/// it.
fn is_of_the_dead(path: &Path, sign: Sign) -> bool {
    sign.age() > DEAD_AFTER && was_left_by_the_dead(path)
}

impl Lock {
    /// Takes the lock of `file`. The file itself need not exist.
    ///
    /// # Errors
    /// [`StoreError::Locked`] after 30 s, and [`StoreError::Io`] if the lock folder cannot be
    /// created.
    pub(crate) fn take(file: &Path, tell: impl Fn(&LockWait)) -> Result<Self, StoreError> {
        let path = lock_path(file);
        let started = Instant::now();
        let mut is_told = false;
        let mut seen: Option<(Sign, Instant)> = None;
        loop {
            match DirBuilder::new().mode(OUR_MODE).create(&path) {
                Ok(()) => {
                    let alive = flocked(&path);
                    let ours = Sign::at(&path).map_err(failed("look at", &path))?;
                    return Ok(Self { path, ours, refreshed: Instant::now(), _alive: alive });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed("lock", file)(error)),
            }
            // If `Sign::at` finds no lock, the holder has released the lock after `create` failed.
            // The loop then tries to create the lock again.
            let Ok(sign) = Sign::at(&path) else { continue };
            let since = match seen {
                Some((last, since)) if last == sign => since,
                Some(_) | None => Instant::now(),
            };
            seen = Some((sign, since));
            let is_dead = since.elapsed() > DEAD_AFTER && was_left_by_the_dead(&path);
            // The last condition does not depend on the lock's time stamp. Even a lock with a time
            // in the future is stale if it does not change for 10 s.
            if is_dead || sign.is_old() || since.elapsed() > STALE_AFTER {
                break_stale(&path, sign)?;
                continue;
            }
            if started.elapsed() > WAIT_AT_MOST {
                let waited_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                let holder = holder(&path);
                return Err(StoreError::Locked { path: file.to_owned(), waited_ms, holder });
            }
            if !is_told && started.elapsed() > TELL_AFTER {
                is_told = true;
                let left = STALE_AFTER.saturating_sub(since.elapsed().max(sign.age()));
                tracing::info!(lock = %path.display(), ?left, "waiting for a lock");
                tell(&LockWait { lock: path.clone(), left, holder: holder(&path) });
            }
            thread::sleep(back_off());
        }
    }

    /// Whether this process still holds the lock. Also refreshes the lock if a refresh is due. If
    /// this returns false, the caller must not write.
    pub(crate) fn is_held(&mut self) -> bool {
        let started = Instant::now();
        while Sign::at(&self.path).ok() != Some(self.ours) {
            if started.elapsed() > MISTAKEN_FOR {
                tracing::warn!(lock = %self.path.display(), "lost the lock");
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        if self.refreshed.elapsed() < REFRESH_AFTER {
            return true;
        }
        match self.refresh() {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(lock = %self.path.display(), %error, "cannot refresh the lock");
                false
            }
        }
    }

    fn refresh(&mut self) -> io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec: seconds, tv_nsec: i64::from(now.subsec_nanos()) },
        };
        utimensat(CWD, &self.path, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
        // The time stamp is read back, because some file systems store it with less precision.
        self.ours = Sign::at(&self.path)?;
        self.refreshed = Instant::now();
        Ok(())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // If the lock at the path is not ours, another process broke our lock and took a new one.
        // That new lock must stay.
        if Sign::at(&self.path).ok() != Some(self.ours) {
            return;
        }
        if let Err(error) = fs::remove_dir(&self.path) {
            tracing::warn!(lock = %self.path.display(), %error, "cannot give the lock back");
        }
    }
}

/// Opens the folder and takes the kernel's lock (flock) on it. Returns `None` if another process
/// holds that flock.
fn flocked(path: &Path) -> Option<File> {
    let folder = File::open(path).ok()?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(folder)
}

/// Returns the process that holds a pitcrew lock. Returns `None` for a lock of another client,
/// because the kernel does not know its holder.
fn holder(path: &Path) -> Option<String> {
    file_lock::holder(&File::open(path).ok()?)
}

/// Whether the lock is a pitcrew lock whose holder is dead. Returns false for a lock of another
/// client, because nobody knows the holder of such a lock.
fn was_left_by_the_dead(path: &Path) -> bool {
    is_marked_as_ours(path) && flocked(path).is_some()
}

fn is_marked_as_ours(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir() && meta.mode() & OUR_MARK != 0)
}

/// Returns a random sleep time within `BACK_OFF_MS`. The random keys of the standard hasher are
/// random enough for this.
fn back_off() -> Duration {
    let jitter = RandomState::new().hash_one(Instant::now());
    Duration::from_millis(BACK_OFF_MS.start + jitter % (BACK_OFF_MS.end - BACK_OFF_MS.start))
}

/// Removes a stale lock, which is an empty folder or a file. If the folder has content, the content
/// may belong to somebody. Then nothing is removed, and the error asks a person to look at the
/// folder.
fn break_stale(path: &Path, seen: Sign) -> Result<(), StoreError> {
    if !is_free(path)? {
        let reason =
            "a lock is an empty folder, and there is something in this one; see whose it is"
                .to_owned();
        return Err(StoreError::Corrupt { path: path.to_owned(), reason });
    }
    // The lock is moved aside before it is removed. A removal at its path could remove a new lock
    // that another process has just taken.
    let aside = path.with_extension(format!("stale-{}", uuid::Uuid::new_v4().simple()));
    if !move_seen(path, &aside, seen)? {
        return Ok(());
    }
    tracing::info!(lock = %path.display(), "broke a stale lock");
    let removed = match fs::symlink_metadata(&aside) {
        Ok(meta) if meta.is_dir() => fs::remove_dir(&aside),
        Ok(_) => fs::remove_file(&aside),
        Err(error) => Err(error),
    };
    removed.map_err(failed("remove the stale lock", &aside))
}

/// Moves the present lock at `path` to `aside`. Returns false if there was no lock. Also returns
/// false if another process replaced the lock before the move; the new lock stays at `path`.
pub(crate) fn set_aside(path: &Path, aside: &Path) -> Result<bool, StoreError> {
    match Sign::at(path) {
        Ok(seen) => move_seen(path, aside, seen),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed("look at", path)(error)),
    }
}

/// Moves the lock at `path` to `aside` if it is still the lock `seen`. This is checked after the
/// move. If another process has taken a new lock meanwhile, that new lock is moved back to `path`.
/// Returns false if there was no lock at `path`, or if a lock was moved back.
fn move_seen(path: &Path, aside: &Path, seen: Sign) -> Result<bool, StoreError> {
    match fs::rename(path, aside) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed("break the stale lock", path)(error)),
    }
    // Just before the rename, another process may have broken the stale lock and taken a new one.
    let is_another = Sign::at(aside).ok() != Some(seen);
    Ok(!(is_another && rename::lock_to_its_place(aside, path).is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn age(path: &Path, seconds: u64) {
        let time = SystemTime::now() - Duration::from_secs(seconds);
        let file = fs::File::open(path).unwrap();
        file.set_modified(time).unwrap();
    }

    #[test]
    fn a_lock_is_a_folder_that_is_gone_when_it_is_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.json");
        let mut lock = Lock::take(&file, |_| ()).unwrap();
        assert!(dir.path().join("a.json.lock").is_dir());
        assert!(lock.is_held());
        drop(lock);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_stale_lock_is_broken_whether_it_is_a_folder_or_a_file() {
        for make in
            [|p: &Path| fs::create_dir(p).unwrap(), |p: &Path| fs::write(p, "4711").unwrap()]
        {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("a.json");
            make(&lock_path(&file));
            age(&lock_path(&file), 11);
            let lock = Lock::take(&file, |_| ()).unwrap();
            assert!(lock_path(&file).is_dir());
            drop(lock);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_lock_taken_by_somebody_else_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.json");
        let mut lock = Lock::take(&file, |_| ()).unwrap();
        age(&lock_path(&file), 3);
        assert!(!lock.is_held());
        drop(lock);
        assert!(lock_path(&file).is_dir(), "a lock that is not ours stays");
    }

    #[test]
    fn a_stale_lock_that_turns_out_to_be_fresh_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.json");
        let mut lock = Lock::take(&file, |_| ()).unwrap();
        break_stale(&lock_path(&file), Sign { ino: 0, mtime_ns: 0 }).unwrap();
        assert!(lock.is_held());
    }

    #[test]
    fn a_long_hold_gives_signs() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.json");
        let mut lock = Lock::take(&file, |_| ()).unwrap();
        let first = lock.ours;
        lock.refreshed = Instant::now() - REFRESH_AFTER;
        assert!(lock.is_held());
        assert!(lock.ours.mtime_ns > first.mtime_ns);
    }

    #[test]
    fn the_lock_of_a_dead_process_of_ours_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.json");
        // This is a lock that a killed process leaves behind: it has pitcrew's mark but no flock.
        DirBuilder::new().mode(OUR_MODE).create(lock_path(&file)).unwrap();
        let told = std::cell::Cell::new(false);
        let lock = Lock::take(&file, |_| told.set(true)).unwrap();
        assert!(!told.get(), "it was waited for");
        assert!(!was_left_by_the_dead(&lock.path), "its holder lives");
        fs::remove_dir(&lock.path).unwrap();
        fs::create_dir(&lock.path).unwrap();
        assert!(!was_left_by_the_dead(&lock.path), "another client's may be held");
    }

    #[test]
    fn waiting_for_a_lock_of_another_client_is_told_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.json");
        fs::create_dir(lock_path(&file)).unwrap();
        age(&lock_path(&file), 7);
        let told = std::cell::RefCell::new(Vec::new());
        let _lock = Lock::take(&file, |wait| told.borrow_mut().push(wait.clone())).unwrap();
        let told = told.into_inner();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].lock, lock_path(&file));
        assert!(told[0].left <= Duration::from_secs(3), "{told:?}");
    }
}
