//! Group commit: if one process sends several messages to one inbox at the same time, the messages
//! share one lock, one write and one fsync.
//!
//! The first caller becomes the leader. The leader writes the messages of all callers that arrive
//! meanwhile, and repeats this until no message waits. If a caller stops waiting for its result,
//! its message is written nevertheless.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pitcrew_protocol::Message;
use tokio::sync::oneshot;

use crate::{Appended, StoreError, UnreadLimit};

/// Highest number of messages in one write. This bounds how long the first message of a batch
/// waits.
const BATCH: usize = 256;

/// A message, with the limit of unread messages that applies to it.
pub(crate) type Limited = (Message, UnreadLimit);

/// A message that waits to be written, with the channel that takes its result.
pub(crate) struct Waiting {
    pub(crate) letter: Limited,
    pub(crate) done: oneshot::Sender<Result<Appended, StoreError>>,
}

/// The queues of the inboxes that are being written now.
#[derive(Default)]
pub(crate) struct Queues {
    queues: Mutex<HashMap<PathBuf, Vec<Waiting>>>,
}

impl std::fmt::Debug for Queues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queues").field("inboxes", &self.queues().len()).finish()
    }
}

impl Queues {
    /// Adds a message to the queue of the inbox. Returns true if the queue is new, because then the
    /// caller is the leader and must call `lead`.
    pub(crate) fn join(&self, inbox: &Path, waiting: Waiting) -> bool {
        let mut queues = self.queues();
        if let Some(queue) = queues.get_mut(inbox) {
            queue.push(waiting);
            return false;
        }
        queues.insert(inbox.to_owned(), vec![waiting]);
        true
    }

    /// Writes all waiting messages of an inbox in order. `write` gets a batch of messages and
    /// returns the result of each message.
    pub(crate) fn lead(
        &self,
        inbox: &Path,
        mut write: impl FnMut(&[Limited]) -> Result<Vec<Appended>, StoreError>,
    ) {
        let _given_up_with_us = Leader { queues: self, inbox };
        while let Some(batch) = self.next_batch(inbox) {
            let (messages, callers): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|w| (w.letter, w.done)).unzip();
            let mut done = match write(&messages) {
                Ok(done) => done.into_iter().map(Ok).collect::<Vec<_>>(),
                Err(error) => messages.iter().map(|_| Err(error.again())).collect(),
            };
            for (caller, done) in callers.into_iter().zip(done.drain(..)) {
                // `send` returns an error if the caller no longer waits for its result. The error
                // is ignored, because the caller's message was processed like all other messages of
                // the batch.
                let _told = caller.send(done);
            }
        }
    }

    fn next_batch(&self, inbox: &Path) -> Option<Vec<Waiting>> {
        let mut queues = self.queues();
        let queue = queues.get_mut(inbox)?;
        // The check and the removal of the queue happen under the same lock. A message that comes
        // later therefore finds no queue, and its caller becomes the leader.
        if queue.is_empty() {
            queues.remove(inbox);
            return None;
        }
        let rest = queue.split_off(queue.len().min(BATCH));
        Some(std::mem::replace(queue, rest))
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<PathBuf, Vec<Waiting>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A guard that removes the queue if a write panics. Otherwise the queue would stay without a
/// leader, and later messages would wait for ever.
struct Leader<'a> {
    queues: &'a Queues,
    inbox: &'a Path,
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.queues.queues().remove(self.inbox);
        }
    }
}
