//! The permission requests that are open in a host. The first answer counts, from whichever user
//! interface it comes.

use std::future::poll_fn;
use std::task::Poll;

use pitcrew_protocol::{ApiError, ErrorCode};
use pitcrew_runtime::question::{Choice, Digest};
use pitcrew_runtime::run::{Answer, Ask, Taken};
use serde_json::json;
use tokio::sync::oneshot;

use super::event::{Closed, OpenQuestion, What};

/// What the run says of an answer.
type Said = oneshot::Receiver<Result<Taken, ApiError>>;

/// The open permission requests of a host, in the order in which they were opened.
#[derive(Debug, Default)]
pub(super) struct OpenQuestions {
    open: Vec<(OpenQuestion, oneshot::Sender<Answer>)>,
    /// How many permission requests were opened so far.
    opened: u64,
}

impl OpenQuestions {
    /// Opens a permission request and gives it an id.
    pub(super) fn open(&mut self, ask: Ask, since_ms: i64) -> OpenQuestion {
        self.opened += 1;
        let Ask { question, input, answer } = ask;
        let id = format!("q{}", self.opened);
        let opened = OpenQuestion { id, since_ms, question, input };
        self.open.push((opened.clone(), answer));
        opened
    }

    /// Returns the open permission requests.
    pub(super) fn all(&self) -> Vec<OpenQuestion> {
        self.open.iter().map(|(question, _)| question.clone()).collect()
    }

    /// Answers a permission request. Returns the event that closes it, and the channel on which the
    /// run says what it did with the answer.
    ///
    /// # Errors
    /// `invalid_status` if the request is not open or has another digest, `invalid_request` if it
    /// does not offer the permission of the answer. The request then stays open.
    pub(super) fn answer(
        &mut self,
        id: &str,
        digest: Digest,
        choice: Choice,
    ) -> Result<(What, Said), ApiError> {
        let is_it = |(question, answer): &(OpenQuestion, oneshot::Sender<Answer>)| {
            question.id == id && !answer.is_closed()
        };
        let at = self.open.iter().position(is_it);
        let Some((at, (asked, _))) = at.and_then(|at| Some((at, self.open.get(at)?))) else {
            return Err(self.refusal(id, format!("the permission request '{id}' is not open")));
        };
        if digest != *asked.question.digest() {
            let says = format!("the permission request '{id}' is about another call");
            return Err(self.refusal(id, format!("{says} than this answer")));
        }
        if let Choice::Always { offer, .. } = &choice
            && !asked.question.offers.contains(offer)
        {
            let says = format!("the permission request '{id}' does not offer this permission");
            return Err(ApiError::new(ErrorCode::InvalidRequest, says)
                .with("question", id)
                .with("offers", json!(asked.question.offers)));
        }
        let (asked, answer) = self.open.remove(at);
        // This fails only if the agent ended since the check above.
        let (given, said) = Answer::with_receipt(digest, choice.clone());
        let _nobody_waits = answer.send(given);
        Ok((What::QuestionClosed { id: asked.id, closed: Closed::Answered(choice) }, said))
    }

    /// Waits until a permission request needs no answer any more. Returns the event that closes it.
    /// If no request is open, this function waits forever. It is cancel-safe.
    pub(super) async fn withdrawn(&mut self) -> What {
        let at = poll_fn(|context| {
            let closed = |(_, answer): &mut (OpenQuestion, oneshot::Sender<Answer>)| {
                answer.poll_closed(context).is_ready()
            };
            self.open.iter_mut().position(closed).map_or(Poll::Pending, Poll::Ready)
        });
        let at = at.await;
        let (asked, _nobody_waits) = self.open.remove(at);
        What::QuestionClosed { id: asked.id, closed: Closed::Withdrawn }
    }

    /// Closes all permission requests at the end of the run. Returns the events that close them.
    pub(super) fn close(&mut self) -> Vec<What> {
        let open = std::mem::take(&mut self.open).into_iter();
        open.map(|(asked, _)| What::QuestionClosed { id: asked.id, closed: Closed::Withdrawn })
            .collect()
    }

    fn refusal(&self, id: &str, says: String) -> ApiError {
        let open: Vec<&str> = self.open.iter().map(|(question, _)| question.id.as_str()).collect();
        ApiError::new(ErrorCode::InvalidStatus, says)
            .with("question", id)
            .with("open_questions", json!(open))
    }
}
