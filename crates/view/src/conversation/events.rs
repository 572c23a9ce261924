//! Adds the events of a run to a conversation. A user interface shows them until it has read the
//! transcript again.

use pitcrew_runtime::events::{Answered, RunEvent, ToolEnded};

use super::Conversation;

impl Conversation {
    /// Adds an answer of the model: its texts, thoughts and tool calls.
    pub fn add_answer(&mut self, answered: &Answered) {
        answered.blocks.iter().for_each(|block| self.answer(block));
    }

    /// Adds the result of a tool call. The result of a call that is not in this conversation is
    /// ignored.
    pub fn add_result(&mut self, ended: &ToolEnded) {
        self.result(&ended.call, ended.text.clone(), ended.is_error);
    }
}

/// Returns whether all earlier steps of the agent are in its transcript when this event arrives.
/// The event of an answer comes before the answer is written, so such an event is not one of them.
#[must_use]
pub fn follows_written_steps(event: &RunEvent) -> bool {
    match event {
        RunEvent::ToolStarted { .. }
        | RunEvent::ToolEnded(_)
        | RunEvent::PermissionAsked { .. }
        | RunEvent::PermissionAnswered { .. }
        | RunEvent::MailDelivered { .. }
        | RunEvent::AgentChanged { .. }
        | RunEvent::TurnEnded { .. }
        | RunEvent::TaskChanged { .. }
        | RunEvent::PlanHandedIn { .. }
        | RunEvent::Compacted(_) => true,
        RunEvent::Started(_)
        | RunEvent::AgentStarted(_)
        | RunEvent::AgentLaunched { .. }
        | RunEvent::Answered(_)
        | RunEvent::TextDelta { .. }
        | RunEvent::ModelWaits { .. }
        | RunEvent::ModelSilent { .. }
        | RunEvent::AllowedAlways { .. }
        | RunEvent::ModeChanged { .. }
        | RunEvent::ModelChanged { .. }
        | RunEvent::ModeRecorded { .. }
        | RunEvent::ShuttingDown { .. }
        | RunEvent::Warning { .. } => false,
    }
}
