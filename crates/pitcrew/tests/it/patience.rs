//! Waiting until something is so.
//!
//! A wait that is granted ends at once, so its bound only says how late a failure is told: it is far beyond what the
//! slowest machine takes.

use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// The pause between two looks, so that who looks leaves the machine to who is looked at.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// Waits until `look` finds what it looks for. When that takes too long, it is told what was waited for, and the `scene`.
#[track_caller]
pub(crate) fn until<T>(
    what: &str,
    look: impl FnMut() -> Option<T>,
    scene: impl FnOnce() -> String,
) -> T {
    until_within(PATIENCE, what, look, scene)
}

/// The same, with a bound of its own.
#[track_caller]
pub(crate) fn until_within<T>(
    patience: Duration,
    what: &str,
    mut look: impl FnMut() -> Option<T>,
    scene: impl FnOnce() -> String,
) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < patience, "still not so: {what}\n{}", scene());
        thread::park_timeout(PAUSE);
    }
}
