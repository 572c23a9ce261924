//! Converts failures at the system's process limits (`ulimit`) into errors that name the limit.
//!
//! Without this module such a failure ends the process. tokio panics when it gets no file
//! descriptor or no thread. When a file exceeds the size limit, the signal SIGXFSZ kills the
//! process.

use std::any::Any;
use std::fs::File;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::blocked;
use crate::failure::{Explained, Failure, FailureKind};

/// The number of file descriptors that a tokio runtime opens at most when it starts, for its poll,
/// its waker and its signals.
const RUNTIME_DESCRIPTORS: usize = 8;

/// Longest wait for threads that are still at work when a signal has ended the command.
const SIGNAL_GRACE: Duration = Duration::from_millis(500);

/// The source location and the message of the latest panic.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Builds a tokio runtime and runs `work` on the runtime.
///
/// # Errors
/// Returns the errors of `work`. Also returns an error if the system has no file descriptor or
/// thread left for the runtime.
pub(crate) fn block_on<T>(
    builder: &mut Builder,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let not_started = |error| {
        let said = "the system lets pitcrew open no more files, or start no more threads";
        Failure::internal(Explained::new(said, error))
    };
    leave_room().map_err(not_started)?;
    let runtime = builder.enable_all().build().map_err(not_started)?;
    let done = runtime.block_on(async {
        refuse_long_files().map_err(not_started)?;
        tokio::select! {
            biased;
            result = work => result,
            never = blocked::answers() => match never {},
        }
    });
    let is_signalled = |failure: &Failure| {
        matches!(failure.kind, FailureKind::Interrupted | FailureKind::Terminated)
    };
    // A thread can still wait for a lock or a slow disk. A signal must end the command nevertheless.
    if done.as_ref().err().is_some_and(is_signalled) {
        runtime.shutdown_timeout(SIGNAL_GRACE);
    }
    done
}

/// Checks that a tokio runtime can start, because tokio panics if it cannot. The check opens as
/// many file descriptors as the runtime needs and starts a thread. It then closes the descriptors
/// and ends the thread.
#[expect(clippy::disallowed_methods, reason = "the device is opened to hold descriptors")]
fn leave_room() -> io::Result<()> {
    let mut opened = Vec::with_capacity(RUNTIME_DESCRIPTORS);
    for _ in 0..RUNTIME_DESCRIPTORS {
        opened.push(File::open("/dev/null")?);
    }
    let thread = std::thread::Builder::new().stack_size(64 * 1024).spawn(|| ())?;
    thread.join().map_err(|_| io::Error::other("a thread ended before it began"))
}

/// Makes a write over the file size limit fail with EFBIG, so that SIGXFSZ does not kill the
/// process. SIGXFSZ gets a handler and is not ignored, because agents' commands would inherit an
/// ignored signal.
fn refuse_long_files() -> io::Result<()> {
    // tokio's handler for the signal stays installed. The value that `signal` returns is therefore
    // not needed and can be dropped.
    signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop)
}

/// Runs a command that needs no async runtime.
///
/// # Errors
/// Returns the errors of `work`. Also returns an error if the system has no file descriptor left.
pub(crate) fn without_runtime<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    block_on(&mut Builder::new_current_thread(), async { work() })
}

/// Runs `work`. If `work` panics, returns the panic as a failure.
pub(crate) fn without_panic<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let (usual, ours) = (std::panic::take_hook(), std::thread::current().id());
    std::panic::set_hook(Box::new(move |panic| {
        // The default hook prints a panic of another thread, because nothing else reports such a
        // panic.
        if std::thread::current().id() != ours {
            usual(panic);
        }
        let place = panic
            .location()
            .map(|at| format!(" at {}:{}", at.file(), at.line()))
            .unwrap_or_default();
        let said = format!("{}{place}", panic_text(panic.payload()));
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
    }));
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        // The payload of the panic does not contain its source location. The panic hook above
        // stored a text that contains the location.
        let noted = PANIC.lock().unwrap_or_else(PoisonError::into_inner).take();
        let said = noted.unwrap_or_else(|| panic_text(&*payload).to_owned());
        Err(Failure::internal(format!("pitcrew stopped because of an internal error: {said}")))
    })
}

fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a text")
}
