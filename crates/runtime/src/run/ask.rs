//! The permission requests of a run to a person, and the person's answers.

use pitcrew_protocol::ApiError;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::question::{Choice, Digest, PermissionQuestion};

/// Who answers when a call needs permission.
#[derive(Debug, Clone)]
pub enum Asks {
    /// A person answers through the user interface. If an [`Ask`] or the channel is dropped without
    /// an answer, the call is denied.
    Person(mpsc::Sender<Ask>),
    /// No person is asked. The call is denied, and the model receives the reason.
    Deny,
    /// No person is asked. The call is allowed.
    Allow,
}

/// A permission request to a person.
#[derive(Debug)]
pub struct Ask {
    /// The permission request in the form in which it is shown.
    pub question: PermissionQuestion,
    /// The unchanged input of the call, for programs that need the data and not the shown text.
    pub input: Value,
    /// The channel on which the answer must be sent.
    pub answer: oneshot::Sender<Answer>,
}

impl Ask {
    /// Answers the permission request. If the agent was stopped in the meantime, the answer has no
    /// effect.
    pub fn reply(self, choice: Choice) {
        let digest = self.question.digest().clone();
        let _nobody_waits = self.answer.send(Answer::new(digest, choice));
    }
}

/// A person's answer to a permission request.
#[derive(Debug)]
pub struct Answer {
    /// The digest of the permission request that was shown. If the answer belongs to a different
    /// request, the answer is rejected and the current request is shown again.
    pub digest: Digest,
    /// What the person decided.
    pub choice: Choice,
    /// Learns what the run did with the answer.
    pub(crate) receipt: AnswerReceipt,
}

impl Answer {
    /// Creates an answer of which nobody needs to know what the run did with it.
    #[must_use]
    pub fn new(digest: Digest, choice: Choice) -> Self {
        Self { digest, choice, receipt: AnswerReceipt::default() }
    }

    /// Creates an answer, and the channel on which the run says what it did with the answer. The
    /// channel closes without a word if the permission request ended before the run came to that.
    #[must_use]
    pub fn with_receipt(
        digest: Digest,
        choice: Choice,
    ) -> (Self, oneshot::Receiver<Result<Taken, ApiError>>) {
        let (receipt, said) = AnswerReceipt::new();
        (Self { digest, choice, receipt }, said)
    }
}

/// How a run has taken a person's answer to a permission request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// The answer is in the team's files.
    Written,
    /// The disk refused the answer, for this reason. The run writes the answer when the disk takes
    /// it. If the run dies before that, the permission request is asked again.
    Unwritten {
        /// Why the disk refused the answer.
        reason: String,
    },
}

impl Taken {
    /// Adds to `answer`, a JSON object, whether the person's answer is written.
    #[must_use]
    pub fn told(self, mut answer: Value) -> Value {
        if let Some(fields) = answer.as_object_mut() {
            fields.insert("is_written".to_owned(), (self == Self::Written).into());
            if let Self::Unwritten { reason } = self {
                let warning = format!(
                    "the answer counts, but it is not written yet: {reason}; it is written when the \
                     disk takes it, and asked for again if the run dies before that"
                );
                fields.insert("warning".to_owned(), warning.into());
            }
        }
        answer
    }
}

/// Tells the giver of an answer what the run did with it.
#[derive(Debug, Default)]
pub(crate) struct AnswerReceipt(Option<oneshot::Sender<Result<Taken, ApiError>>>);

impl AnswerReceipt {
    /// Creates a receipt, and the channel on which its word arrives.
    pub(crate) fn new() -> (Self, oneshot::Receiver<Result<Taken, ApiError>>) {
        let (says, said) = oneshot::channel();
        (Self(Some(says)), said)
    }

    /// Says what the run did with the answer. Only the first call has an effect.
    pub(crate) fn give(&mut self, taken: Result<Taken, ApiError>) {
        if let Some(says) = self.0.take() {
            let _nobody_waits = says.send(taken);
        }
    }
}
