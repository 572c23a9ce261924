//! Every event that can wake the loop of a team, as one enum.

use std::time::Duration;

use futures_util::future::AbortHandle;
use pitcrew_agent::transcript::ToolCall;
use pitcrew_protocol::{AgentName, MessageId, SpawnInput, TeamCreateInput, TeamDeleteInput};
use pitcrew_team::store::Change;
use pitcrew_tools::ToolOutcome;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::answers::Decided;
use super::plan_questions::PlanDecision;
use super::remote::RemoteReport;
use super::subagents::Sending;
use crate::control_socket::Call;
use crate::driver::Report;
use crate::question::Digest;

/// Capacity of the queue of tool requests. If the queue is full, a tool waits. Each request blocks
/// its caller, so there are never more requests than agents.
pub(super) const REQUESTS_WAITING: usize = 64;

/// Capacity of the queue of agents' reports. If the queue is full, an agent waits until the loop
/// has read a report. The loop never waits for an agent, so the two cannot block each other.
pub(crate) const REPORTS_WAITING: usize = 1024;

/// The event that woke the loop.
#[derive(Debug)]
pub(super) enum Wake {
    /// The team's files changed.
    Changed(Change),
    /// An agent sent a report.
    Reported(Report),
    /// The supervisor of a teammate in another process sent a report.
    Sighted(RemoteReport),
    /// A tool of the lead sent a request.
    Requested(Request),
    /// A permission request was decided.
    Decided(Decision),
    /// The question about a teammate's plan came to its end.
    PlanDecided(PlanDecision),
    /// A permission request or the question about a plan was withdrawn.
    TakenBack,
    /// The user interrupts the lead's turn.
    Interrupted,
    /// Another process of the user sent a request through the control socket.
    Visited(Call),
    /// The user asks for an orderly end of the run.
    StopAsked,
    /// The user ends the run at once.
    Killed,
    /// The locks of a dead process are now old enough to be recognised and broken.
    TidyDue,
    /// It is time to try again to remove the members that could not be removed from the team.
    RemovalDue,
    /// A teammate of another client has not answered a shutdown request in time.
    AnswerOverdue,
    /// A teammate of another client may have begun a turn, and the config has had enough time to
    /// show the turn.
    TurnOverdue,
    /// The disk refused entries of the journal, or it is time to write them again.
    EntriesRefused,
    /// The time limit of a shutdown step has passed.
    GraceOver,
}

/// A request of a tool to the loop. The loop answers with the outcome of the tool call.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) lead_request: LeadRequest,
    pub(crate) answer: oneshot::Sender<ToolOutcome>,
}

/// The action that a request asks for.
#[derive(Debug)]
pub(crate) enum LeadRequest {
    /// Start a teammate.
    Spawn { input: Box<SpawnInput>, call: String },
    /// Start a subagent.
    SendOut(Box<Sending>),
    /// Create a team.
    TeamCreate(TeamCreateInput),
    /// End the team.
    TeamDelete(TeamDeleteInput),
    /// End a teammate.
    Stop { name: String },
}

/// The handle through which tools send requests to the loop.
#[derive(Clone, Debug)]
pub(crate) struct LoopHandle(mpsc::Sender<Request>);

impl LoopHandle {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Request>) {
        let (sender, requests) = mpsc::channel(REQUESTS_WAITING);
        (Self(sender), requests)
    }

    /// Sends a request and waits for the answer.
    pub(super) async fn ask(&self, lead_request: LeadRequest) -> ToolOutcome {
        let (answer, outcome) = oneshot::channel();
        if self.0.send(Request { lead_request, answer }).await.is_err() {
            return ToolOutcome::interrupted();
        }
        outcome.await.unwrap_or_else(|_| ToolOutcome::interrupted())
    }
}

/// An unanswered permission request of a teammate.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) agent: AgentName,
    /// The message that contained the permission request. The message stays unread until the
    /// request is answered.
    pub(super) mail: MessageId,
    pub(super) call: String,
    pub(super) input: Value,
    /// The digest of the call's tool and input.
    pub(super) digest: Digest,
    /// The handle that withdraws the permission request from the person who is being asked.
    pub(super) question: AbortHandle,
}

/// A decision on a permission request. The variant says who receives the decision.
#[derive(Debug)]
pub(super) enum Decision {
    /// The decision goes to the teammate that asked by mail. `pause` is the time since the last
    /// attempt to write the answer, or zero at the first attempt.
    ByMail { request: String, decided: Decided, pause: Duration },
    /// The decision goes directly to the lead or to a subagent.
    AtOnce { agent: AgentName, call: ToolCall, decided: Decided },
}
