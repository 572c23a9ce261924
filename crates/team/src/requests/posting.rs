//! Sends the recorded frames of requests, also after a crash.

use pitcrew_protocol::{ApiError, MessageId};
use pitcrew_store::UnreadLimit;

use super::log::RequestLog;
use super::request::{Half, Request, RequestKind};
use crate::delivery::{DeliveryState, OutgoingMessage, Receipt, is_undeliverable};
use crate::{Team, refusal};

impl Team {
    /// Sends every request and answer that was recorded before a crash but not sent. Returns the
    /// ids of the messages.
    ///
    /// # Errors
    /// `internal_error` when the store fails. Messages that were sent before the failure are
    /// recorded as sent.
    pub async fn finish_answers(&self) -> Result<Vec<MessageId>, ApiError> {
        let mut finished = Vec::new();
        for (id, mut request) in self.requests().await? {
            for half in [Half::Ask, Half::Answer] {
                let unsent = request.outgoing(half).filter(|frame| frame.unsent.is_some());
                let Some(message) = unsent.map(|frame| frame.message.clone()) else { continue };
                match self.post(&id, request.clone(), half).await {
                    Ok(receipt) => finished.push(receipt.id),
                    Err(error) if is_undeliverable(&error) => finished.push(message),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(finished)
    }

    /// Sends one frame of a request, if the frame is not sent yet, and records that the frame is
    /// sent.
    pub(super) async fn post(
        &self,
        id: &str,
        mut request: Request,
        half: Half,
    ) -> Result<Receipt, ApiError> {
        let Some(frame) = request.outgoing(half).cloned() else {
            return Err(refusal::internal(format!("request '{id}' has no frame to send")));
        };
        let (from, to) = request.way(half);
        let Some(text) = frame.unsent else {
            return Ok(Receipt {
                id: frame.message,
                to: to.clone(),
                state: DeliveryState::Persisted,
            });
        };
        // In the reference client's recordings, a plan request has no color. All other frames in
        // these recordings have a color.
        let color = match (request.kind, half) {
            (RequestKind::Plan, Half::Ask) => None,
            (RequestKind::Shutdown | RequestKind::Permission, _)
            | (RequestKind::Plan, Half::Answer) => {
                self.config().await?.member(from.as_str()).and_then(|m| m.color.clone())
            }
        };
        let letter = OutgoingMessage {
            id: frame.message,
            from: from.to_string(),
            author: frame.author,
            color,
            to: to.clone(),
            text,
            summary: None,
            limit: UnreadLimit::None,
        };
        let delivered = self.deliver(letter).await;
        // A frame to an ended member counts as sent too. Otherwise crash recovery would try to send
        // it forever.
        if delivered.as_ref().err().is_none_or(is_undeliverable) {
            let id = id.to_owned();
            self.edit_document(move |ledger: &mut RequestLog| {
                if let Some(frame) = ledger.requests.get_mut(&id).and_then(|r| r.outgoing(half)) {
                    frame.unsent = None;
                }
                Ok(())
            })
            .await?;
        }
        delivered
    }
}
