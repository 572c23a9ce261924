//! Reads the keys of the terminal in a thread of its own.
//!
//! When the terminal is gone, crossterm's `read` never returns. A display that called `read` itself
//! would hang and would not notice the signal that ends the run. Only the thread for keys can hang.

use std::io;
use std::thread;

use crossterm::event::{Event, read};
use tokio::sync::mpsc;

/// The size of the queue for keys that the display has not handled yet. A person does not type so
/// many keys in advance, and a paste counts as one event.
const KEYS_WAITING: usize = 64;

/// Receives the keys and size changes of the terminal.
#[derive(Debug)]
pub struct Keys(mpsc::Receiver<Event>);

impl Keys {
    /// Starts the thread that reads keys. When [`Keys`] is dropped, the thread ends at the next
    /// key, and otherwise it ends with the process.
    ///
    /// # Errors
    /// Returns an error if the system cannot start another thread.
    pub fn open() -> io::Result<Self> {
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

    /// Waits for the next key. If the terminal is gone, this function waits forever.
    pub async fn next(&mut self) -> Event {
        match self.0.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }
}
