//! The host of a run: the one process that runs a team, as user interfaces see it.
//!
//! A host numbers everything that happens in its run. Each [`HostEvent`] has a number, and a
//! [`HostState`] is the state before the event with the number `next_seq`. The process that started
//! the run receives the events from its [`Host`]. Other processes of the same user receive them
//! over the control socket, through [`client`](crate::client).
//!
//! - `event` contains the types that go over the control socket.
//! - `event_log` keeps the latest events, up to a limit of memory.
//! - `follower` writes the events to one other process.
//! - `host_loop` owns the state of a host, and is the only writer of that state.

mod event;
mod event_log;
mod follower;
mod host_loop;
mod open_questions;

use std::sync::Arc;

use pitcrew_protocol::ApiError;
use pitcrew_runtime::question::Digest;
use pitcrew_runtime::run::{Ask, RunHandle, RunOutcome, Stopper};
use pitcrew_team::Team;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

pub use event::{Closed, HostEvent, HostState, OpenQuestion, What};

use crate::asking::Chosen;

/// The handle of a host for the user interface in the same process.
///
/// Dropping the handle kills the run.
#[derive(Debug)]
pub struct Host {
    events: mpsc::Receiver<Arc<HostEvent>>,
    answers: mpsc::Sender<AnswerHere>,
    stopper: Stopper,
    interrupt: Arc<tokio::sync::Notify>,
    task: JoinHandle<RunOutcome>,
}

impl Host {
    /// Becomes the host of a run. `asked` receives the permission requests of the run. It is `None`
    /// if no person is asked.
    pub fn open(handle: RunHandle, team: Team, asked: Option<mpsc::Receiver<Ask>>) -> Self;

    /// Waits for the next event. Returns `None` after [`What::Ended`]. No event is lost: if this
    /// function is not called, the run waits. It is cancel-safe.
    pub async fn next(&mut self) -> Option<Arc<HostEvent>>;

    /// Answers a permission request.
    ///
    /// # Errors
    /// `invalid_status` if the request is not open any more or is about another call than the
    /// answer. The error detail `open_questions` has the ids of the open requests.
    pub async fn answer(&self, chosen: &Chosen) -> Result<(), ApiError>;

    /// Returns the switch that ends the run.
    pub fn stopper(&self) -> Stopper;

    /// Interrupts the current turn of the lead, or of the member that runs alone.
    pub fn interrupt(&self);

    /// Waits for the end of the run, and discards all events that were not read.
    pub async fn outcome(self) -> RunOutcome;
}
