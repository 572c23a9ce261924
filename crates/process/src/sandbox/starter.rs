//! The thread that starts commands in bubblewrap.
//!
//! With `--die-with-parent`, bubblewrap ends when its parent ends. For the kernel, the parent is
//! the thread that started bubblewrap. Threads of an async runtime may end at any time, but this
//! thread runs as long as the process. As a result, a command keeps running as long as this process
//! runs, and the command ends with this process even if this process is killed.

use std::io;
use std::sync::{OnceLock, mpsc};

use tokio::process::Command;
use tokio::runtime::Handle;

use crate::job::Job;

struct StartRequest {
    command: Command,
    runtime: Handle,
    answer: mpsc::SyncSender<io::Result<Job>>,
}

/// Starts a command that ends together with this process.
///
/// # Errors
/// If the command cannot be started.
pub(super) fn start(command: Command) -> io::Result<Job> {
    static STARTER: OnceLock<Option<mpsc::Sender<StartRequest>>> = OnceLock::new();
    let gone = || io::Error::other("the thread that starts commands is gone");
    let starter = STARTER.get_or_init(|| run().ok()).as_ref().ok_or_else(gone)?;
    let runtime = Handle::try_current().map_err(io::Error::other)?;
    let (answer, started) = mpsc::sync_channel(1);
    starter.send(StartRequest { command, runtime, answer }).map_err(|_closed| gone())?;
    started.recv().map_err(|_closed| gone())?
}

fn run() -> io::Result<mpsc::Sender<StartRequest>> {
    let (orders, taken) = mpsc::channel::<StartRequest>();
    let work = move || {
        for StartRequest { mut command, runtime, answer } in taken {
            let _inside = runtime.enter();
            // Sending fails only if this process is ending. Ignore that error.
            let _told = answer.send(Job::spawn(&mut command));
        }
    };
    std::thread::Builder::new().name("starter".to_owned()).spawn(work)?;
    Ok(orders)
}
