//! Passes the process's warnings to the display that uses the terminal, which draws them above its
//! footer.
//!
//! A line that is printed directly would break the display. In raw mode a line break does not
//! return to the first column, and the display does not know about the extra row.

use std::sync::{Mutex, PoisonError};

use tokio::sync::mpsc;

/// The most remarks that wait for the display. Further ones are printed directly.
const REMARKS_WAITING: usize = 64;

/// The display that uses the terminal now. A process has only one terminal.
static VIEW: Mutex<Option<mpsc::Sender<String>>> = Mutex::new(None);

/// The remarks for a display to draw. After this is dropped, remarks are printed directly again.
#[derive(Debug)]
pub(crate) struct Remarks(mpsc::Receiver<String>);

impl Remarks {
    /// Receives all remarks from now on.
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

    /// The remarks that were not drawn when the display released the terminal.
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
    // Never wait for the display. If its queue is full, the caller prints the remark itself.
    view.as_ref().is_some_and(|view| view.try_send(remark.to_owned()).is_ok())
}
