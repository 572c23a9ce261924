//! The report of a teammate that its turn has ended.

use pitcrew_protocol::{AgentName, ApiError, Foreign, IdleNotification};

use crate::Team;
use crate::actor::{Actor, Speaker};
use crate::clock::wire_time;
use crate::delivery::{OutgoingMessage, Receipt};

/// The reason why a teammate is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleReason {
    /// The teammate's turn ended normally.
    Available,
    /// The teammate's turn was interrupted.
    Interrupted,
    /// The teammate's turn failed.
    Failed,
}

impl IdleReason {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

/// The report of a teammate to its lead at the end of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleNotice {
    /// The reason why the teammate is idle.
    pub reason: IdleReason,
    /// A short summary of the teammate's work.
    pub summary: Option<String>,
    /// The task that the teammate completed: its id, and the status in which it ended.
    pub completed: Option<(String, String)>,
    /// The error text of a failed turn.
    pub failure: Option<String>,
    /// The last text of the turn.
    pub result: Option<String>,
}

impl Team {
    /// Informs the lead that the turn of `member` has ended.
    ///
    /// # Errors
    /// `agent_not_found`, `internal_error`.
    pub async fn notify_idle(
        &self,
        member: &AgentName,
        notice: IdleNotice,
    ) -> Result<Receipt, ApiError> {
        let config = self.config().await?;
        let speaker = Speaker::of(&Actor::Member(member.clone()), &config)?;
        let (completed_task_id, completed_status) = notice.completed.unzip();
        let frame = IdleNotification {
            kind: IdleNotification::TYPE.into(),
            from: speaker.name.clone(),
            timestamp: Some(wire_time(self.now_ms())),
            idle_reason: Some(notice.reason.as_str().to_owned()),
            summary: notice.summary,
            completed_task_id,
            completed_status,
            failure_reason: notice.failure,
            result: notice.result,
            foreign: Foreign::default(),
        };
        let id = self.teams().entropy().message_id(self.now_ms())?;
        let letter = OutgoingMessage::of_frame(id, &speaker.name, &AgentName::lead(), frame)?;
        self.deliver(OutgoingMessage { color: speaker.color, ..letter }).await
    }
}
