//! Log entries about messages and frames.

use pitcrew_protocol::{
    AgentName, Frame, IdleNotification, MessageId, PlanApprovalRequest, PlanApprovalResponse,
    ShutdownApproved, ShutdownRejected, ShutdownRequest, ShutdownResponse, TaskAssignment, TaskId,
};
use pitcrew_team::Mail;

use super::entry::MESSAGE;
use super::{LogEntry, LogKind, TeamLog};

impl TeamLog {
    /// Returns the entry for a sent message. Returns `None` if the log already has the message.
    pub(super) fn message(
        &mut self,
        at_ms: i64,
        from: &str,
        to: &AgentName,
        (id, frame): (&MessageId, Option<&str>),
    ) -> Option<LogEntry> {
        if !self.told.insert(id.clone()) {
            return None;
        }
        let mail = self.mail.get(id).map(|(_, mail)| mail);
        Some(self.sent(at_ms, from, to, frame, mail))
    }

    /// Returns the entry for a message. `mail` is the message itself, if it is still known.
    pub(super) fn sent(
        &self,
        at_ms: i64,
        from: &str,
        to: &AgentName,
        frame: Option<&str>,
        mail: Option<&Mail>,
    ) -> LogEntry {
        let entry = match (frame, mail.and_then(|mail| mail.frame.as_ref())) {
            (None, _) => text_message(at_ms, to, mail),
            // An agent that takes a task gets a message about it from itself.
            (Some(word), _) if from == to.as_str() => {
                LogEntry { kind: LogKind::Delivery, ..bare_frame(at_ms, to, word) }
            }
            (Some(_), Some(frame)) => self.frame(at_ms, to, frame),
            (Some(word), None) => bare_frame(at_ms, to, word),
        };
        entry.by(from).to(to)
    }

    fn frame(&self, at_ms: i64, to: &AgentName, frame: &Frame) -> LogEntry {
        let word = frame.kind();
        let plain = |kind, text: String| LogEntry::new(at_ms, kind, word, &text);
        match frame {
            Frame::TaskAssignment(it) => {
                let Some(task) = TaskId::parse(&it.task_id) else {
                    return bare_frame(at_ms, to, word);
                };
                let text = format!("assigns {} to {to}", self.task_in_words(&task));
                plain(LogKind::Task, text).with_task(task)
            }
            Frame::ShutdownRequest(it) => plain(LogKind::Member, format!("asks {to} to shut down"))
                .saying(it.reason.as_deref()),
            Frame::ShutdownApproved(_) => plain(LogKind::Member, AGREES.to_owned()),
            Frame::ShutdownRejected(it) => {
                plain(LogKind::Member, REFUSES.to_owned()).saying(it.reason.as_deref())
            }
            Frame::ShutdownResponse(it) => {
                let said = if it.approved { AGREES } else { REFUSES };
                plain(LogKind::Member, said.to_owned()).saying(it.content.as_deref())
            }
            Frame::PlanApprovalRequest(it) => {
                let plan = it.plan_content.as_ref().or(it.plan.as_ref());
                plain(LogKind::Plan, "hands in a plan".to_owned()).saying(plan.map(String::as_str))
            }
            Frame::PlanApprovalResponse(it) => {
                let text = match it.approved {
                    true => format!("approves the plan of {to}"),
                    false => format!("sends the plan of {to} back"),
                };
                plain(LogKind::Plan, text).saying(it.feedback.as_deref())
            }
            Frame::IdleNotification(it) => {
                let said = it.failure_reason.as_ref().or(it.summary.as_ref());
                plain(LogKind::State, "reports the end of its turn".to_owned())
                    .saying(said.map(String::as_str))
            }
            Frame::TaskCompleted(_)
            | Frame::PermissionRequest(_)
            | Frame::PermissionResponse(_)
            | Frame::TeammateTerminated(_) => bare_frame(at_ms, to, word),
        }
    }
}

const AGREES: &str = "agrees to shut down";
const REFUSES: &str = "does not shut down";

fn text_message(at_ms: i64, to: &AgentName, mail: Option<&Mail>) -> LogEntry {
    let said = mail.map(|mail| mail.message.text.as_str());
    LogEntry::new(at_ms, LogKind::Mail, MESSAGE, &format!("writes to {to}")).saying(said)
}

/// Returns the entry for a frame of which only the type is known.
fn bare_frame(at_ms: i64, to: &AgentName, word: &str) -> LogEntry {
    let kind = match word {
        TaskAssignment::TYPE => LogKind::Task,
        PlanApprovalRequest::TYPE | PlanApprovalResponse::TYPE => LogKind::Plan,
        ShutdownRequest::TYPE
        | ShutdownApproved::TYPE
        | ShutdownRejected::TYPE
        | ShutdownResponse::TYPE => LogKind::Member,
        IdleNotification::TYPE => LogKind::State,
        // The remaining types are told by other entries of the journal. A later version may know
        // more types, and their words are no better known here.
        _ => LogKind::Delivery,
    };
    let words = word.replace('_', " ");
    LogEntry::new(at_ms, kind, word, &format!("sends a {words} to {to}"))
}
