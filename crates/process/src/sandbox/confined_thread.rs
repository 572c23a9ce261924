//! Creates threads that permanently give up rights before they start a command.

use std::io;

use super::capabilities;
use super::landlock::{Bounds, Landlock};
use super::syscalls::Filters;

/// Gives up rights of this thread. The thread keeps only rights that the sandbox profile *read*
/// includes and that every ruleset in `bounds` allows.
pub(super) fn give_up(landlock: Landlock, filters: &Filters, bounds: &[&Bounds]) -> io::Result<()> {
    capabilities::give_up()?;
    bounds.iter().try_for_each(|bounds| landlock.hold_to(bounds))?;
    filters.apply()
}

/// Marks this thread, and every command that it starts, as belonging to an agent. The mark is a
/// system call filter (seccomp) that refuses nothing. On a kernel without such filters, a command
/// is still recognized by its job's tag and its parent processes.
#[expect(
    clippy::unnecessary_wraps,
    reason = "it is one of the ways to give rights up, and never fails"
)]
pub(super) fn mark() -> io::Result<()> {
    if let Err(error) = Filters::mark().apply() {
        tracing::debug!(%error, "a command is not marked");
    }
    Ok(())
}

/// Runs `work` on a new thread that first calls `give_up`. A separate thread is needed, because a
/// thread can never get rights back.
pub(super) fn apart<T: Send>(
    give_up: impl FnOnce() -> io::Result<()> + Send,
    work: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    let runtime = tokio::runtime::Handle::try_current().ok();
    std::thread::scope(|scope| {
        let confined =
            std::thread::Builder::new().name("confined".to_owned()).spawn_scoped(scope, || {
                // Tokio can start a process only on a thread that has entered the runtime.
                let _inside = runtime.as_ref().map(tokio::runtime::Handle::enter);
                give_up()?;
                Ok(work())
            })?;
        confined
            .join()
            .unwrap_or_else(|_panic| Err(io::Error::other("the confined thread broke down")))
    })
}
