//! Sends a message or creates a task once for a caller who may repeat its request, such as a program that lost the
//! answer. The caller names its request by a key of its own choice.
//!
//! The key and the receipts of the first request are stored with the team, so a repeated request
//! makes no second message, whichever process it reaches. If the first process was killed between
//! the message and the receipts, the repeated request finds the message by its id, which is computed
//! from the key.

use std::collections::BTreeMap;

use pitcrew_protocol::{ApiError, SendMessageInput, Task, TaskCreateInput};
use serde::{Deserialize, Serialize};

use crate::Team;
use crate::actor::Actor;
use crate::delivery::Receipt;
use crate::document::Document;
use crate::entropy::made_id;

/// The maximum number of keys that are stored for a team. The oldest are forgotten first.
const KEYS_MOST: usize = 1_000;

/// The stored document: the latest keys with their requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SentOnce {
    sent: BTreeMap<String, KeyedRequest>,
}

/// The request that first had a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KeyedRequest {
    /// The id that is computed from the content of the request.
    request: String,
    /// The time of the request, in milliseconds since 1970.
    at_ms: i64,
    /// The receipts of the message. `None` while the message is being sent.
    receipts: Option<Vec<Receipt>>,
}

impl Document for SentOnce {
    const NAME: &'static str = "sent-once";
}

/// The result of [`Team::send_once`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Once {
    /// The message is sent, by this request or by an earlier one with the same key. The receipts
    /// are those of the first request.
    Sent(Vec<Receipt>),
    /// The key belongs to another request, so nothing was sent.
    KeyReused,
}

/// The result of [`Team::create_task_once`].
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum OnceTask {
    /// The task exists, made by this request or by an earlier one with the same key.
    Made(Box<Task>),
    /// The key belongs to another request, so no task was made.
    KeyReused,
}

/// What is known of a key before a message is sent.
enum Known {
    New,
    Sent(Vec<Receipt>),
    Other,
}

impl SentOnce {
    /// Looks a key up. A new key is added, with the request that has it.
    fn begin(&mut self, key: &str, request: &str, at_ms: i64) -> Known {
        match self.sent.get(key) {
            Some(known) if known.request != request => return Known::Other,
            Some(KeyedRequest { receipts: Some(receipts), .. }) => {
                return Known::Sent(receipts.clone());
            }
            // The first process is still sending, or was killed.
            Some(KeyedRequest { receipts: None, .. }) => return Known::New,
            None => {}
        }
        let added = KeyedRequest { request: request.to_owned(), at_ms, receipts: None };
        self.sent.insert(key.to_owned(), added);
        while self.sent.len() > KEYS_MOST {
            let oldest = self.sent.iter().min_by_key(|(_, request)| request.at_ms);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            self.sent.remove(&oldest);
        }
        Known::New
    }
}

impl Team {
    /// Sends a text or a broadcast, unless a request with the same key did so before.
    ///
    /// # Errors
    /// The errors of [`Team::send`]. After an error the key is free again, unless a broadcast
    /// reached a part of the members.
    pub async fn send_once(
        &self,
        actor: &Actor,
        input: SendMessageInput,
        key: &str,
    ) -> Result<Once, ApiError> {
        let request = made_id(&["request", &format!("{actor:?}"), &format!("{input:?}")]).0;
        let (given, wanted, at_ms) = (key.to_owned(), request.clone(), self.now_ms());
        let begin = move |all: &mut SentOnce| Ok(all.begin(&given, &wanted, at_ms));
        match self.edit_document(begin).await? {
            Known::Sent(receipts) => return Ok(Once::Sent(receipts)),
            Known::Other => return Ok(Once::KeyReused),
            Known::New => {}
        }
        let sent = self.send(actor, input, Some(&format!("once {key}"))).await;
        let receipts = match sent {
            Ok(sent) => sent.receipts,
            Err(error) => {
                // Members that the message reached keep it, so the key stays bound to it.
                if !error.details.contains_key("delivered") {
                    self.forget_unsent(key).await?;
                }
                return Err(error);
            }
        };
        self.keep_receipts(key, request, receipts.clone()).await?;
        Ok(Once::Sent(receipts))
    }

    /// Creates a task, unless a request with the same key did so before.
    ///
    /// # Errors
    /// The errors of [`Team::create_task`]. After an error the key is free again, unless an earlier
    /// request with it made the task.
    pub async fn create_task_once(
        &self,
        actor: &Actor,
        input: TaskCreateInput,
        key: &str,
    ) -> Result<OnceTask, ApiError> {
        let request = made_id(&["task", &format!("{actor:?}"), &format!("{input:?}")]).0;
        let (given, wanted, at_ms) = (key.to_owned(), request.clone(), self.now_ms());
        let begin = move |all: &mut SentOnce| Ok(all.begin(&given, &wanted, at_ms));
        if matches!(self.edit_document(begin).await?, Known::Other) {
            return Ok(OnceTask::KeyReused);
        }
        // The task itself holds the key, so a repeated request finds it, also after changes of it.
        match self.create_task(actor, input, Some(key)).await {
            Ok(task) => {
                // A task has no receipts. The empty list says that the request succeeded.
                self.keep_receipts(key, request, Vec::new()).await?;
                Ok(OnceTask::Made(Box::new(task)))
            }
            Err(error) => {
                self.forget_unsent(key).await?;
                Err(error)
            }
        }
    }

    async fn keep_receipts(
        &self,
        key: &str,
        request: String,
        receipts: Vec<Receipt>,
    ) -> Result<(), ApiError> {
        let key = key.to_owned();
        self.edit_document(move |all: &mut SentOnce| {
            if let Some(keyed) = all.sent.get_mut(&key).filter(|it| it.request == request) {
                keyed.receipts.get_or_insert_with(|| receipts.clone());
            }
            Ok(())
        })
        .await
    }

    async fn forget_unsent(&self, key: &str) -> Result<(), ApiError> {
        let key = key.to_owned();
        self.edit_document(move |all: &mut SentOnce| {
            if all.sent.get(&key).is_some_and(|keyed| keyed.receipts.is_none()) {
                all.sent.remove(&key);
            }
            Ok(())
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_keys_are_forgotten() {
        let mut all = SentOnce::default();
        for at in 0..=KEYS_MOST {
            let at_ms = i64::try_from(at).unwrap();
            assert!(matches!(all.begin(&format!("key-{at}"), "request", at_ms), Known::New));
        }
        assert_eq!(all.sent.len(), KEYS_MOST);
        assert!(!all.sent.contains_key("key-0"));
        assert!(matches!(all.begin("key-1", "other", 0), Known::Other));
    }
}
