//! The record of all requests and their answers. A request gets only one answer, and only from the
//! agent that was asked. Each request and each answer is sent as a frame. The frame is recorded
//! before it is sent, so that a crash before the sending loses no frame.
//!
//! This file makes and answers requests. The modules below send their frames, make them void, and
//! record the requests of other clients.

use std::collections::BTreeMap;

use pitcrew_protocol::{AgentName, ApiError};

use crate::Team;
use crate::delivery::Receipt;

mod foreign;
mod log;
mod posting;
mod request;
mod void;

use log::unknown;
use request::Half;

pub(crate) use log::{Reply, RequestLog};
pub(crate) use request::Outgoing;
pub use request::{Answer, Request, RequestKind};

impl Team {
    /// Returns every recorded request, by id.
    ///
    /// # Errors
    /// `internal_error` when the record cannot be read.
    pub async fn requests(&self) -> Result<BTreeMap<String, Request>, ApiError> {
        Ok(self.read_document::<RequestLog>().await?.requests)
    }

    /// Records a request and sends it. If an earlier attempt of the same call recorded the request,
    /// the recorded request is used. The boolean says whether the request was answered and the
    /// answer was sent. `draft` gets a time in milliseconds, and builds the request and its id.
    pub(crate) async fn ask_for(
        &self,
        draft: impl Fn(i64) -> Result<(String, Request), ApiError> + Send + 'static,
    ) -> Result<(String, Receipt, bool), ApiError> {
        let now_ms = self.now_ms();
        let (id, request) = self
            .edit_document(move |ledger: &mut RequestLog| {
                let (_, request) = draft(now_ms)?;
                ledger.again(&request).map_or_else(|| ledger.make(now_ms, &draft), Ok)
            })
            .await?;
        let is_answered =
            request.answer.as_ref().is_some_and(|answer| answer.frame.unsent.is_none());
        let receipt = self.post(&id, request, Half::Ask).await?;
        Ok((id, receipt, is_answered))
    }

    /// Opens a recorded request again and sends it with the frame of `request`. This is for an
    /// asker that lost the answer.
    pub(crate) async fn ask_again(&self, id: &str, request: Request) -> Result<Receipt, ApiError> {
        let (key, again) = (id.to_owned(), request.clone());
        self.edit_document(move |ledger: &mut RequestLog| {
            ledger.requests.insert(key.clone(), again.clone());
            Ok(())
        })
        .await?;
        self.post(id, request, Half::Ask).await
    }

    /// Records an answer and sends it. If another client sent the request, this function first
    /// reads the request from the inbox of the agent that answers.
    pub(crate) async fn reply(&self, reply: Reply) -> Result<(Request, Receipt), ApiError> {
        let first = reply.clone();
        let known = self.edit_document(move |ledger: &mut RequestLog| ledger.reply(&first)).await?;
        let id = reply.request_id.clone();
        let request = match known {
            Some(request) => request,
            None => {
                let foreign = self.foreign_request(&reply).await?;
                self.edit_document(move |ledger: &mut RequestLog| {
                    let Some(foreign) = &foreign else { return Err(unknown(ledger, &reply)) };
                    ledger
                        .requests
                        .entry(reply.request_id.clone())
                        .or_insert_with(|| foreign.clone());
                    ledger.reply(&reply)?.ok_or_else(|| unknown(ledger, &reply))
                })
                .await?
            }
        };
        let receipt = self.post(&id, request.clone(), Half::Answer).await?;
        Ok((request, receipt))
    }

    /// Records that `asker` got its answer in another way than a frame. Marks the request as read
    /// in the inbox of the agent that was asked. Returns the request if it was still open.
    pub(crate) async fn spend(
        &self,
        asker: &AgentName,
        id: &str,
        answer: Answer,
    ) -> Result<Option<Request>, ApiError> {
        let (name, request_id) = (asker.clone(), id.to_owned());
        let spent = self
            .edit_document(move |ledger: &mut RequestLog| {
                Ok(ledger.settle(&name, &request_id, &answer))
            })
            .await?;
        if let Some(Request { to, ask: Some(ask), .. }) = &spent {
            self.ask(self.backend().acknowledge(
                self.dir(),
                &to.inbox_file(),
                std::slice::from_ref(&ask.message),
            ))
            .await?;
        }
        Ok(spent)
    }
}
