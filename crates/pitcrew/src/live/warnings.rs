//! Remarks of the process while a view has the terminal: they are drawn by the view, above its foot.
//!
//! A line that is written past the view tears it: on a terminal whose keys come one by one a line break does not return to the
//! first column, and the view does not know of the row.

use std::sync::{Mutex, PoisonError};

use tokio::sync::mpsc;

/// How many remarks may wait for the view; more are written past it.
const REMARKS_WAITING: usize = 64;

/// The view that has the terminal now. A process has one terminal.
static VIEW: Mutex<Option<mpsc::Sender<String>>> = Mutex::new(None);

/// The remarks that a view draws. Dropping it lets later ones be written by themselves again.
#[derive(Debug)]
pub(crate) struct Remarks(mpsc::Receiver<String>);

impl Remarks {
    /// Takes in all remarks from now on.
    pub(crate) fn open() -> Self {
        let (sender, receiver) = mpsc::channel(REMARKS_WAITING);
        *VIEW.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        Self(receiver)
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> String {
        match self.0.recv().await {
            Some(remark) => remark,
            None => std::future::pending().await,
        }
    }

    /// Those that are left when the view has given the terminal back.
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

/// Gives a remark to the view that has the terminal; says whether one took it.
pub(crate) fn taken_by_view(remark: &str) -> bool {
    let view = VIEW.lock().unwrap_or_else(PoisonError::into_inner);
    view.as_ref().is_some_and(|view| view.try_send(remark.to_owned()).is_ok())
}
