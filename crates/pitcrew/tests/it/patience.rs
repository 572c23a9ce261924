//! Waits until a condition holds.
//!
//! A wait ends as soon as its condition holds. The time limit only decides how late a failure is
//! reported, so it is far longer than the slowest machine needs.

use std::thread;
use std::time::{Duration, Instant};

/// Time limit of any wait in a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// The pause between two checks of a condition. It leaves the processor to the observed process.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// Waits until `look` returns something. After the time limit it fails with the description `what`
/// and the text of `scene`.
#[track_caller]
pub(crate) fn until<T>(
    what: &str,
    look: impl FnMut() -> Option<T>,
    scene: impl FnOnce() -> String,
) -> T {
    until_within(PATIENCE, what, look, scene)
}

/// Waits like [`until`], with a separate time limit.
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
