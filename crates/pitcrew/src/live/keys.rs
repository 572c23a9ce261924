//! Keys from the terminal. A thread of its own reads them.
//!
//! When the terminal is gone, crossterm's reader repeats its read forever, and a display that polls
//! the reader never learns of the signal that ends the run. So only this thread may hang.

use std::io;
use std::thread;

use crossterm::event::{Event, read};
use tokio::sync::mpsc;

/// Keys that the display has not handled yet. A person types fewer, and a paste is one event.
const KEYS_WAITING: usize = 64;

/// Receives the keys and size changes of the terminal.
#[derive(Debug)]
pub(crate) struct Keys(mpsc::Receiver<Event>);

impl Keys {
    /// Starts the thread that reads. It ends with the process, or at the first key after the keys
    /// are dropped.
    ///
    /// # Errors
    /// When the system starts no more threads.
    pub(crate) fn open() -> io::Result<Self> {
        let (sender, keys) = mpsc::channel(KEYS_WAITING);
        thread::Builder::new().name("keys".to_owned()).spawn(move || {
            while let Ok(event) = read() {
                if sender.blocking_send(event).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self(keys))
    }

    /// Waits for the next key. Waits forever once the terminal is gone.
    pub(crate) async fn next(&mut self) -> Event {
        match self.0.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }
}
