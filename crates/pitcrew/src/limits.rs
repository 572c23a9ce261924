//! The limits that the system sets a process (`ulimit`): each ends a command with an error that names it.
//!
//! By themselves they end it otherwise: tokio panics where it gets no descriptor or thread, and a file that may not grow
//! kills the process by SIGXFSZ.

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

/// How many descriptors a runtime opens while it starts: its poll, its waker, and two pairs of sockets for signals.
const RUNTIME_DESCRIPTORS: usize = 8;

/// Where the latest panic happened, and why.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Builds a runtime and runs `work` on it.
///
/// # Errors
/// Those of `work`, and when the system has no descriptor or thread left for the runtime.
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

/// Opens as many descriptors as a runtime needs, and starts a thread, and gives all back: tokio panics where we can fail.
fn leave_room() -> io::Result<()> {
    let mut opened = Vec::with_capacity(RUNTIME_DESCRIPTORS);
    for _ in 0..RUNTIME_DESCRIPTORS {
        opened.push(File::open("/dev/null")?);
    }
    let thread = std::thread::Builder::new().stack_size(64 * 1024).spawn(|| ())?;
    thread.join().map_err(|_| io::Error::other("a thread ended before it began"))
}

/// Makes a write past the limit of file sizes fail with EFBIG instead of killing the process. A handler does that, and
/// unlike an ignored signal it is not passed on to the commands of agents.
fn refuse_long_files() -> io::Result<()> {
    // The handler stays when the listener is dropped.
    signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop)
}

/// The same for a command that needs no runtime.
///
/// # Errors
/// When the system has no descriptor left.
pub(crate) fn without_runtime<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    block_on(&mut Builder::new_current_thread(), async { work() })
}

/// Runs `work`; a panic in it is a failure, told like any other.
pub(crate) fn without_panic<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let (usual, ours) = (std::panic::take_hook(), std::thread::current().id());
    std::panic::set_hook(Box::new(move |panic| {
        // Nobody else tells of the panic of another thread.
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
