//! Makes pitcrew processes wait in a queue before they take the lock of a file.
//!
//! Pitcrew processes prepare a change of a file without the lock, and take the lock only to replace
//! the file. If another process changes the file in the meantime, the try fails and starts again.
//! From the third try on, a process keeps the lock during the whole try, including an fsync. That
//! is long. If the reference client finds the lock held, it drops its own message (seen with
//! version 2.1.39, while two pitcrew processes wrote to one inbox).
//!
//! Therefore pitcrew processes first wait for a turn, so that they do not disturb each other's
//! tries. A turn is a lock that no other client uses. The queue is only an optimization: the lock
//! of the file prevents lost changes, and a process that gets no turn continues without one. If a
//! process dies, the kernel ends its turn.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::flock::{self, TELL_AFTER};
use super::lock::LockWait;
use super::plain;

/// Longest wait for a turn. Dozens of forced writes take less time. The wait is also short enough
/// that a stopped process does not delay others for long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Pause between two tries to get a turn. A forced write takes many times longer.
const PAUSE: Duration = Duration::from_millis(1);

/// A turn: its holder changes the file while other pitcrew processes wait. Dropping this value ends
/// the turn.
#[derive(Debug)]
pub(crate) struct Turn {
    _flocked: File,
}

impl Turn {
    /// Waits for a turn to change the file at `path`. Returns `None` in three cases: the file does
    /// not exist, its file system does not support flock, or the wait lasts longer than `patience`.
    /// `tell` is called once if the wait lasts longer than 1 s.
    pub(crate) fn take(path: &Path, patience: Duration, tell: impl Fn(&LockWait)) -> Option<Self> {
        let started = Instant::now();
        let mut is_told = false;
        loop {
            let file = plain::open(path).ok()?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_at(&file, path) => return Some(Self { _flocked: file }),
                Ok(()) => continue,
                Err(Errno::WOULDBLOCK) => {}
                Err(error) => {
                    tracing::debug!(path = %path.display(), %error, "no turns are taken here");
                    return None;
                }
            }
            if started.elapsed() >= patience {
                return None;
            }
            if !is_told && started.elapsed() >= TELL_AFTER {
                is_told = true;
                let left = patience.saturating_sub(started.elapsed());
                tell(&LockWait { lock: path.to_owned(), left, holder: flock::holder(&file) });
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Whether the open file is still the file at `path`. It is not if a previous holder of the lock
/// has renamed a new file to this path, which is how pitcrew replaces files.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(there)) = (file.metadata(), fs::metadata(path)) else { return false };
    (open.dev(), open.ino()) == (there.dev(), there.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_had_by_one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        assert!(Turn::take(&path, PATIENCE, |_| ()).is_none(), "nothing is there to take turns at");
        fs::write(&path, "[]").unwrap();
        let turn = Turn::take(&path, Duration::ZERO, |_| ()).unwrap();
        assert!(Turn::take(&path, Duration::ZERO, |_| ()).is_none());
        drop(turn);
        assert!(Turn::take(&path, Duration::ZERO, |_| ()).is_some());
    }

    #[test]
    fn a_turn_is_at_the_file_that_is_there_now() {
        let dir = tempfile::tempdir().unwrap();
        let (path, new) = (dir.path().join("a.json"), dir.path().join("b.json"));
        fs::write(&path, "[]").unwrap();
        let old = Turn::take(&path, Duration::ZERO, |_| ()).unwrap();
        fs::write(&new, "[1]").unwrap();
        fs::rename(&new, &path).unwrap();
        let turn = Turn::take(&path, Duration::ZERO, |_| ());
        assert!(turn.is_some());
        drop(old);
        assert!(
            Turn::take(&path, Duration::ZERO, |_| ()).is_none(),
            "the new file's turn is still had"
        );
    }
}
