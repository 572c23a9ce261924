//! Passes the warnings and other remarks of this process to the display that uses the terminal. The
//! display draws these remarks above its footer.
//!
//! Without this module a printed line would damage the display: in raw mode a line break does not
//! return to the first column, and the display does not know about the extra row.

use std::sync::{Mutex, PoisonError};

use tokio::sync::mpsc;

/// The maximum number of remarks that wait for the display. When the queue is full, remarks are
/// printed directly.
const REMARKS_WAITING: usize = 64;

/// The channel to the display that uses the terminal now. One display is enough, because a process
/// has only one terminal.
static VIEW: Mutex<Option<mpsc::Sender<String>>> = Mutex::new(None);

/// Receives the remarks that the display must draw. After this value is dropped, remarks are
/// printed directly again.
#[derive(Debug)]
pub(crate) struct Remarks(mpsc::Receiver<String>);

impl Remarks {
    /// Opens the queue between this process's code and the display. From now on all remarks, such
    /// as warnings, go into the queue.
    pub(crate) fn open() -> Self {
        let (sender, receiver) = mpsc::channel(REMARKS_WAITING);
        *VIEW.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        Self(receiver)
    }

    /// Waits for the next remark.
    pub(crate) async fn next(&mut self) -> String {
        match self.0.recv().await {
            Some(remark) => remark,
            None => std::future::pending().await,
        }
    }

    /// Closes the queue and returns the remarks that the display has not drawn.
    pub(crate) fn left(mut self) -> Vec<String> {
        *VIEW.lock().unwrap_or_else(PoisonError::into_inner) = None;
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }
}

impl Drop for Remarks {
    fn drop(&mut self) {
        *VIEW.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Passes a remark to the display that uses the terminal. Returns whether a display accepted it.
pub(crate) fn taken_by_view(remark: &str) -> bool {
    let view = VIEW.lock().unwrap_or_else(PoisonError::into_inner);
    // This function never waits for the display. If the queue is full, the caller prints the
    // remark.
    view.as_ref().is_some_and(|view| view.try_send(remark.to_owned()).is_ok())
}
