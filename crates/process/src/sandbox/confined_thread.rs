//! Threads that give up rights, which they never get back, before they start a command.

use std::io;

use super::capabilities;
use super::landlock::{Bounds, Landlock};
use super::syscalls::Filters;

/// Gives up all rights of this thread, except the rights of the profile *read* that every ruleset
/// in `bounds` allows.
pub(super) fn give_up(landlock: Landlock, filters: &Filters, bounds: &[&Bounds]) -> io::Result<()> {
    capabilities::give_up()?;
    bounds.iter().try_for_each(|bounds| landlock.hold_to(bounds))?;
    filters.apply()
}

/// Marks this thread, and every command it starts, as belonging to an agent. The mark is a system
/// call filter that refuses nothing. On a kernel without filters, a command is still recognized by
/// its job's tag and its parent processes.
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

/// Runs `work` on a new thread that first gives up rights. A separate thread is needed, because a
/// thread can never get rights back.
pub(super) fn apart<T: Send>(
    give_up: impl FnOnce() -> io::Result<()> + Send,
    work: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    let runtime = tokio::runtime::Handle::try_current().ok();
    std::thread::scope(|scope| {
        let confined =
            std::thread::Builder::new().name("confined".to_owned()).spawn_scoped(scope, || {
                // Starting a process with tokio needs the runtime's context on this thread.
                let _inside = runtime.as_ref().map(tokio::runtime::Handle::enter);
                give_up()?;
                Ok(work())
            })?;
        confined
            .join()
            .unwrap_or_else(|_panic| Err(io::Error::other("the confined thread broke down")))
    })
}
