//! Everything that can wake the loop of a team: one closed enum.

use futures_util::future::AbortHandle;
use pitcrew_protocol::{AgentName, MessageId, SpawnInput, TeamCreateInput, TeamDeleteInput};
use pitcrew_team::store::Change;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::answers::Decided;
use super::remote::RemoteReport;
use super::subagents::Sending;
use crate::control_socket::Call;
use crate::driver::Report;
use crate::question::Digest;
use crate::tools::ToolOutcome;
use crate::transcript::ToolCall;

/// Requests of tools that wait for the loop. Each blocks its caller, so there are never more than agents.
pub(super) const REQUESTS_WAITING: usize = 64;

/// Reports of agents that wait for the loop; an agent that finds it full waits, and the loop never waits for an agent.
pub(crate) const REPORTS_WAITING: usize = 1024;

/// What woke the loop.
#[derive(Debug)]
pub(super) enum Wake {
    /// Something changed in the team's files.
    Changed(Change),
    /// An agent reports.
    Reported(Report),
    /// The minder of a teammate elsewhere reports.
    Sighted(RemoteReport),
    /// A tool of the lead asks for something.
    Requested(Request),
    /// A permission was decided.
    Decided(Decision),
    /// A question was taken back.
    TakenBack,
    /// The user cuts the lead's turn off.
    Interrupted,
    /// Another process of the user's asks for something.
    Visited(Call),
    /// The user wants an orderly end.
    StopAsked,
    /// The user wants an end.
    Killed,
    /// What a death may have left can be told from what lives.
    TidyDue,
    /// It is tried again to take out of the team who could not be.
    RemovalDue,
    /// A client that is not ours has not answered in time.
    AnswerOverdue,
    /// A client that is not ours has had time to show a turn.
    TurnOverdue,
    /// The time for a step of the shutdown is over.
    GraceOver,
}

/// What a tool of the lead asks the loop for; each is answered with the tool's outcome.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) lead_request: LeadRequest,
    pub(crate) answer: oneshot::Sender<ToolOutcome>,
}

/// What it asks for.
#[derive(Debug)]
pub(crate) enum LeadRequest {
    /// A teammate.
    Spawn { input: Box<SpawnInput>, call: String },
    /// A subagent.
    SendOut(Box<Sending>),
    /// To lead a team.
    TeamCreate(TeamCreateInput),
    /// To end the team.
    TeamDelete(TeamDeleteInput),
    /// To end a teammate.
    Stop { name: String },
}

/// Where tools send their requests.
#[derive(Clone, Debug)]
pub(crate) struct LoopHandle(mpsc::Sender<Request>);

impl LoopHandle {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Request>) {
        let (sender, requests) = mpsc::channel(REQUESTS_WAITING);
        (Self(sender), requests)
    }

    /// Asks, and waits for the answer.
    pub(super) async fn ask(&self, lead_request: LeadRequest) -> ToolOutcome {
        let (answer, outcome) = oneshot::channel();
        if self.0.send(Request { lead_request, answer }).await.is_err() {
            return ToolOutcome::interrupted();
        }
        outcome.await.unwrap_or_else(|_| ToolOutcome::interrupted())
    }
}

/// A permission request of a teammate that nobody has answered yet.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) agent: AgentName,
    /// The message it came in; unread until it is answered.
    pub(super) mail: MessageId,
    pub(super) call: String,
    pub(super) input: Value,
    /// The digest of its tool and input.
    pub(super) digest: Digest,
    /// Takes the question back.
    pub(super) question: AbortHandle,
}

/// A decision on a call, and to whom it goes.
#[derive(Debug)]
pub(super) enum Decision {
    /// To the teammate that asked by mail.
    ByMail { request: String, decided: Decided },
    /// To the lead or a subagent, at once.
    AtOnce { agent: AgentName, call: ToolCall, decided: Decided },
}
