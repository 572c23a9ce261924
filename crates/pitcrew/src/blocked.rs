//! Ends a process that has got SIGTERM while a thread waits in a system call that does not return,
//! such as a read from a disk that does not answer.
//!
//! If it is the main thread, nobody would answer the signal. If it is another one, the orderly end
//! would wait for that thread. So a thread of its own gets the signal too. It asks the main thread
//! whether it lives, and asks the kernel which threads wait for a disk.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::sleep;

/// The time between two looks at the threads.
const PAUSE: Duration = Duration::from_millis(200);

/// The number of looks in which the same thread waits for a disk, until it counts as blocked. A slow
/// disk answers in this time. Whatever is cut off, the next run recovers, as after SIGKILL.
const LOOKS: usize = 8;

/// The exit code of a program that SIGTERM has ended.
const TERMINATED: i32 = 143;

static ASKED: Notify = Notify::const_new();
static IS_ALIVE: AtomicBool = AtomicBool::new(false);
static WATCH: Once = Once::new();

/// Answers each question whether the main thread lives. The main thread polls this beside its work.
pub(crate) async fn answers() -> Infallible {
    loop {
        ASKED.notified().await;
        IS_ALIVE.store(true, Ordering::SeqCst);
    }
}

/// Starts the thread that ends this process if it gets SIGTERM and its main thread is blocked. Only
/// a process that handles the signal needs it.
pub(crate) fn watch() {
    WATCH.call_once(|| {
        // Without a thread for it, the process still ends by SIGKILL.
        let _started = thread::Builder::new().name("term".to_owned()).spawn(|| {
            if let Ok(runtime) = Builder::new_current_thread().enable_all().build() {
                runtime.block_on(end_when_blocked());
            }
        });
    });
}

#[expect(clippy::exit, reason = "no other thread can end the process then")]
async fn end_when_blocked() {
    let Ok(mut term) = signal(SignalKind::terminate()) else { return };
    if term.recv().await.is_none() {
        return;
    }
    loop {
        IS_ALIVE.store(false, Ordering::SeqCst);
        ASKED.notify_one();
        let mut blocked = threads_at_a_disk();
        for _ in 0..LOOKS {
            sleep(PAUSE).await;
            let still = threads_at_a_disk();
            blocked.retain(|thread| still.contains(thread));
        }
        if !IS_ALIVE.load(Ordering::SeqCst) || !blocked.is_empty() {
            std::process::exit(TERMINATED);
        }
    }
}

/// Returns the threads of this process that wait for a disk right now, by their folders below `/proc`.
#[expect(clippy::disallowed_methods, reason = "these files of the kernel belong to this process")]
fn threads_at_a_disk() -> BTreeSet<PathBuf> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let is_at_a_disk = |thread: &PathBuf| {
        let read = |name| std::fs::read_to_string(thread.join(name)).unwrap_or_default();
        // The name of the thread is in brackets, and can contain any character.
        let is_uninterruptible =
            read("stat").rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('D'));
        // A signal interrupts the wait for a file system of another program (FUSE), so the kernel
        // shows that thread as one that sleeps.
        is_uninterruptible || read("wchan") == "request_wait_answer"
    };
    threads.map(|thread| thread.path()).filter(is_at_a_disk).collect()
}
