//! Waits until a condition is met.
//!
//! A wait ends as soon as its condition is met. The time limit only decides how late a failure is
//! reported. It is therefore far longer than the slowest machine needs.

use std::thread;
use std::time::{Duration, Instant};

/// The time limit of each wait in a test, if the wait has no limit of its own.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// The pause between two checks of a condition. The observed process is able to use the processor
/// during this pause.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// Waits until `look` returns a value, and returns this value. After the time limit, this function
/// panics with the description `what` and the text of `scene`.
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
    within(patience, &mut look).unwrap_or_else(|| panic!("still not so: {what}\n{}", scene()))
}

/// Waits until `look` returns a value, and returns this value. Returns `None` after the time limit.
pub(crate) fn within<T>(patience: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        let found = look();
        if found.is_some() || started.elapsed() >= patience {
            return found;
        }
        thread::park_timeout(PAUSE);
    }
}
