//! Turns the system's limits on a process (`ulimit`) into errors that name the limit.
//!
//! Without this the process ends in other ways: tokio panics when it gets no file descriptor or
//! thread, and a file over the size limit kills the process by SIGXFSZ.

use std::any::Any;
use std::fs::File;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use rustix::process::Signal;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Explained, Failure};

/// The number of file descriptors that a tokio runtime opens at its start: its poll, its waker, and
/// two socket pairs for signals.
const RUNTIME_DESCRIPTORS: usize = 8;

/// The place and message of the latest panic.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Builds a tokio runtime and runs `work` on it.
///
/// # Errors
/// The errors of `work`, and an error if the system has no file descriptor or thread left for the
/// runtime.
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
    runtime.block_on(async {
        refuse_long_files().map_err(not_started)?;
        work.await
    })
}

/// Checks that a tokio runtime can start: opens as many file descriptors as it needs, starts a
/// thread, and releases them again. tokio itself would panic where this returns an error.
#[expect(clippy::disallowed_methods, reason = "the device is opened to hold descriptors")]
fn leave_room() -> io::Result<()> {
    let mut opened = Vec::with_capacity(RUNTIME_DESCRIPTORS);
    for _ in 0..RUNTIME_DESCRIPTORS {
        opened.push(File::open("/dev/null")?);
    }
    let thread = std::thread::Builder::new().stack_size(64 * 1024).spawn(|| ())?;
    thread.join().map_err(|_| io::Error::other("a thread ended before it began"))
}

/// Makes a write over the file size limit fail with EFBIG instead of killing the process. It
/// installs a signal handler, because an ignored signal would stay ignored in the commands of
/// agents.
fn refuse_long_files() -> io::Result<()> {
    // tokio's handler stays installed after the listener is dropped.
    signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop)
}

/// Runs a command that needs no async runtime.
///
/// # Errors
/// The errors of `work`, and an error if the system has no file descriptor left.
pub(crate) fn without_runtime<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    block_on(&mut Builder::new_current_thread(), async { work() })
}

/// Runs `work` and turns a panic in it into a failure like any other.
pub(crate) fn without_panic<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let (usual, ours) = (std::panic::take_hook(), std::thread::current().id());
    std::panic::set_hook(Box::new(move |panic| {
        // A panic of another thread is printed by the usual hook, because nothing else reports it.
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
        // The payload does not contain the place of the panic, so the text that the hook stored is
        // used.
        let noted = PANIC.lock().unwrap_or_else(PoisonError::into_inner).take();
        let said = noted.unwrap_or_else(|| panic_text(&*payload).to_owned());
        Err(Failure::internal(format!("pitcrew stopped at a fault of its own: {said}")))
    })
}

fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a text")
}
