//! The requests that the host of a run carries out, and the connections of their callers.

use std::io;

use pitcrew_protocol::ApiError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;

use super::request::{ControlRequest, Notifies};
use super::server::Call;
use super::{PATIENCE, write_line};
use crate::question::{Choice, Digest};

/// Capacity of the queue of requests for the host. The host takes them at once, so a full queue
/// means that the host does not run any more.
pub(crate) const VISITORS_WAITING: usize = 16;

/// A permitted request that the host of the run carries out. The run itself does not know which
/// permission requests a person sees, and keeps no events.
#[derive(Debug)]
pub enum Visitor {
    /// Follow the run.
    Follow {
        /// The number of the first event that the follower does not have.
        since: Option<u64>,
        /// The id of the run that counted `since`.
        run: Option<String>,
        /// Whether the follower can notify the user on its terminal.
        notifies: Notifies,
        /// The follower.
        caller: Caller,
    },
    /// Answer a permission request.
    Answer {
        /// The id of the permission request.
        question: String,
        /// The digest of the permission request that the person saw.
        digest: Digest,
        /// What the person decided.
        choice: Choice,
        /// The process that sent the answer.
        caller: Caller,
    },
}

/// A request, by its receiver.
#[derive(Debug)]
pub(super) enum Addressed {
    /// The host of the run.
    Host(Visitor),
    /// The run.
    Run(Call),
}

impl Addressed {
    /// Decides who carries out a request.
    pub(super) fn of(call: Call) -> Self {
        let Call { control_request, caller } = call;
        match control_request {
            ControlRequest::Follow { since, run, notifies } => {
                Self::Host(Visitor::Follow { since, run, notifies, caller })
            }
            ControlRequest::Answer { question, digest, choice } => {
                Self::Host(Visitor::Answer { question, digest, choice, caller })
            }
            control_request @ (ControlRequest::EndTeam { .. }
            | ControlRequest::StopRun
            | ControlRequest::StopMember { .. }
            | ControlRequest::Shutdown { .. }
            | ControlRequest::Mode { .. }
            | ControlRequest::Model { .. }
            | ControlRequest::Compact { .. }
            | ControlRequest::HidePane { .. }
            | ControlRequest::ShowPane { .. }
            | ControlRequest::Permissions
            | ControlRequest::Permission { .. }
            | ControlRequest::Plan { .. }
            | ControlRequest::Spawn { .. }
            | ControlRequest::Interrupt { .. }) => Self::Run(Call { control_request, caller }),
        }
    }
}

impl Visitor {
    /// Returns the connection of the caller.
    pub(super) fn into_caller(self) -> Caller {
        match self {
            Self::Follow { caller, .. } | Self::Answer { caller, .. } => caller,
        }
    }
}

/// The connection of a permitted process whose request was read.
#[derive(Debug)]
pub struct Caller(pub(super) UnixStream);

impl Caller {
    /// Sends the answer and closes the connection. Gives up after the time limit if the caller does
    /// not read the answer.
    pub async fn answer(mut self, answer: Result<Value, ApiError>) {
        let written = match &answer {
            Ok(value) => tokio::time::timeout(PATIENCE, write_line(&mut self.0, value)).await,
            Err(error) => tokio::time::timeout(PATIENCE, write_line(&mut self.0, error)).await,
        };
        if !matches!(written, Ok(Ok(()))) {
            tracing::debug!("the caller did not wait for the answer");
        }
    }

    /// Whether the caller has closed the connection. It has given up then and says that nothing was
    /// done, so its request must have no effect any more: this process may have been suspended in
    /// between.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        let mut polled = [PollFd::new(&self.0, PollFlags::empty())];
        let closed = PollFlags::HUP | PollFlags::ERR;
        poll(&mut polled, Some(&Timespec::default())).is_ok()
            && polled.iter().any(|it| it.revents().intersects(closed))
    }

    /// Sends bytes and keeps the connection open. Waits for as long as the caller does not read.
    ///
    /// # Errors
    /// If the caller has closed the connection.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).await
    }

    /// Completes when the caller closes the connection. A caller that sends more than its request
    /// counts as gone too, because a connection carries one request.
    pub async fn gone(&mut self) {
        loop {
            if self.0.readable().await.is_err() {
                return;
            }
            match self.0.try_read(&mut [0; 1]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(_) | Err(_) => return,
            }
        }
    }
}
