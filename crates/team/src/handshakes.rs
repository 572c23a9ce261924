//! The three handshakes between lead and teammate: shutdown, plan approval and tool permission.
//! Each has its own module below, which decides who is allowed to ask and who is allowed to answer.
//! The module `requests` makes sure that each request gets only one answer.

use pitcrew_protocol::{AgentName, ApiError, Frame, TeamConfig};

use crate::actor::{Rank, Speaker};
use crate::delivery::{Receipt, frame_text};
use crate::requests::{Answer, Outgoing, Reply, Request, RequestKind};
use crate::{Team, refusal};

mod permissions;
mod plan_approval;
mod shutdown;

pub use permissions::{AnswerFound, PermissionAnswer, PermissionAsk};
pub(crate) use plan_approval::PlanAnswer;
pub(crate) use shutdown::ShutdownAsk;

/// A request that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The id of the request.
    pub request_id: String,
    /// The receipt of the message that carries the request.
    pub receipt: Receipt,
    /// Whether the request already has an answer, from an earlier attempt of the same call. If so,
    /// the answer is or was in the inbox of the member that asked.
    pub is_answered: bool,
}

impl Team {
    /// Refuses every caller except the lead. The user is refused too, because readers treat the
    /// answer as the lead's command.
    async fn lead_only(
        &self,
        config: &TeamConfig,
        speaker: &Speaker,
        what: &str,
    ) -> Result<(), ApiError> {
        if speaker.rank != Rank::Lead {
            return Err(refusal::denied(format!("only the lead may {what}")));
        }
        not_signed(config)?;
        self.may_command().await
    }

    fn new_request(
        &self,
        kind: RequestKind,
        from: &Speaker,
        to: AgentName,
        call: Option<&str>,
        frame: impl Into<Frame>,
    ) -> Result<Request, ApiError> {
        Ok(Request {
            kind,
            from: AgentName::foreign(from.frame_name()),
            to,
            at_ms: self.now_ms(),
            tool: None,
            digest: None,
            call: call.map(str::to_owned),
            ask: Some(self.outgoing(from, frame)?),
            answer: None,
            is_parting: false,
            is_void: false,
        })
    }

    fn new_reply(
        &self,
        kind: RequestKind,
        request_id: &str,
        by: &Speaker,
        approved: bool,
        call: Option<&str>,
        frame: impl Into<Frame>,
    ) -> Result<Reply, ApiError> {
        let (at_ms, call) = (self.now_ms(), call.map(str::to_owned));
        let frame = self.outgoing(by, frame)?;
        Ok(Reply {
            kind,
            request_id: request_id.to_owned(),
            by: AgentName::foreign(by.frame_name()),
            asker: None,
            digest: None,
            answer: Answer { approved, at_ms, call, frame },
        })
    }

    fn outgoing(&self, by: &Speaker, frame: impl Into<Frame>) -> Result<Outgoing, ApiError> {
        let message = self.teams().entropy().message_id(self.now_ms())?;
        // A frame of the user names the lead as its sender.
        let author = (by.frame_name() != by.name).then(|| by.name.clone());
        Ok(Outgoing { message, author, unsent: Some(frame_text(frame)?) })
    }
}

/// Refuses to send frames in the name of the lead if a session of another client leads the team.
/// That client signs the lead's frames itself.
fn not_signed(config: &TeamConfig) -> Result<(), ApiError> {
    if config.is_session_dialect() {
        let message =
            format!("team '{}' is led by a session whose lead signs its own frames", config.name);
        return Err(refusal::denied(message));
    }
    Ok(())
}
