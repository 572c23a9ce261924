//! The host of a run: the one process that runs a team, as user interfaces see it.
//!
//! A host numbers everything that happens in its run. Each [`HostEvent`] has a number, and a
//! [`HostState`] is the state before the event with the number `next_seq`. The process that started
//! the run receives the events from its [`Host`]. Other processes of the same user receive them
//! over the control socket, through [`client`](crate::client).
//!
//! - `event` contains the types that go over the control socket.
//! - `event_log` keeps the latest events, up to a limit of memory.
//! - `follower` writes the events to other processes.
//! - `open_questions` takes the first answer to each permission request.
//! - `host_loop` owns the state of a host.

mod event;
mod event_log;
mod follower;
mod host_loop;
mod open_questions;

use std::sync::Arc;

use pitcrew_protocol::{ApiError, ErrorCode};
use pitcrew_runtime::question::{Choice, Digest};
use pitcrew_runtime::run::{Ask, RunHandle, RunOutcome, Stopper};
use pitcrew_team::Team;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

pub use event::{Closed, HostEvent, HostState, OpenQuestion, What};
pub(crate) use event::{Line, read_line};

use crate::asking::Chosen;
use host_loop::{HostLoop, Sources};

/// Capacity of the queue of events for the user interface in this process. The run has a larger
/// queue of its own.
const EVENTS_WAITING: usize = 64;

/// Capacity of the queue of answers from the user interface in this process. It sends one answer at
/// a time.
const ANSWERS_WAITING: usize = 4;

/// The handle of a host for the user interface in the same process.
///
/// Dropping the handle kills the run.
#[derive(Debug)]
pub struct Host {
    team: String,
    events: mpsc::Receiver<Arc<HostEvent>>,
    answers: mpsc::Sender<AnswerHere>,
    stopper: Stopper,
    task: JoinHandle<RunOutcome>,
}

/// An answer of the user interface in this process.
#[derive(Debug)]
struct AnswerHere {
    question: String,
    digest: Digest,
    choice: Choice,
    reply: oneshot::Sender<Result<(), ApiError>>,
}

impl Host {
    /// Becomes the host of a run. `asked` receives the permission requests of the run. It is `None`
    /// if no person is asked.
    #[must_use]
    pub fn open(handle: RunHandle, team: Team, asked: Option<mpsc::Receiver<Ask>>) -> Self {
        let (face, events) = mpsc::channel(EVENTS_WAITING);
        let (answers, answered) = mpsc::channel(ANSWERS_WAITING);
        let (name, stopper) = (handle.team.clone(), handle.stopper());
        let sources = Sources { handle, asked, answers: answered };
        let task = tokio::spawn(HostLoop::new(team, face).run(sources));
        Self { team: name, events, answers, stopper, task }
    }

    /// Waits for the next event. Returns `None` after [`What::Ended`]. No event is lost: if this
    /// function is not called, the run waits. It is cancel-safe.
    pub async fn next(&mut self) -> Option<Arc<HostEvent>> {
        self.events.recv().await
    }

    /// Answers a permission request.
    ///
    /// # Errors
    /// `invalid_status` if the request is not open any more or is about another call than the
    /// answer. The error detail `open_questions` has the ids of the open requests.
    pub async fn answer(&self, chosen: &Chosen) -> Result<(), ApiError> {
        let (reply, answered) = oneshot::channel();
        let Chosen { question, choice } = chosen;
        let digest = question.question.digest().clone();
        let answer =
            AnswerHere { question: question.id.clone(), digest, choice: choice.clone(), reply };
        let is_sent = self.answers.send(answer).await.is_ok();
        match answered.await {
            Ok(answered) if is_sent => answered,
            Ok(_) | Err(_) => Err(ApiError::new(ErrorCode::InvalidStatus, "the run has ended")),
        }
    }

    /// Returns the switch that ends the run.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Interrupts the current turn of the lead, or of the member that runs alone.
    pub fn interrupt(&self) {
        self.stopper.interrupt();
    }

    /// Waits for the end of the run, and discards all events that were not read.
    pub async fn outcome(mut self) -> RunOutcome {
        self.events.close();
        // A panic of the task is reported in the outcome.
        let ended = (&mut self.task).await;
        ended.unwrap_or_else(|_panicked| RunOutcome::broken(&self.team))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // This drops the run's handle too, which kills the run.
        self.task.abort();
    }
}
