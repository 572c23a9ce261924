//! Log entries about messages and frames.

use pitcrew_protocol::{
    AgentName, Frame, IdleNotification, MessageId, PlanApprovalRequest, PlanApprovalResponse,
    ShutdownApproved, ShutdownRejected, ShutdownRequest, ShutdownResponse, TaskAssignment, TaskId,
};
use pitcrew_team::{Mail, sent_at_ms};

use super::entry::MESSAGE;
use super::{LogEntry, LogKind, TeamLog};
use crate::wording::asks_for;

impl TeamLog {
    /// Returns the entry for a sent message. Returns `None` if the log already has the message.
    pub(super) fn message(
        &mut self,
        at_ms: i64,
        from: &str,
        to: &AgentName,
        (id, frame): (&MessageId, Option<&str>),
    ) -> Option<LogEntry> {
        let key = (to.clone(), id.clone());
        if !self.told.insert(key.clone()) {
            return None;
        }
        let mail = self.mail.get(&key);
        Some(self.sent(at_ms, from, to, frame, mail))
    }

    /// Returns the entry for a message that the journal lacks. Of a permission between other clients it
    /// has nothing else.
    pub(super) fn sent_by_others(&self, to: &AgentName, mail: &Mail) -> LogEntry {
        let (from, at_ms) = (mail.message.from.as_str(), sent_at_ms(mail));
        let of = |word, text: String| {
            LogEntry::new(at_ms, LogKind::Permission, word, &text).by(from).to(to)
        };
        let call = |agent: AgentName, request: &str| self.calls.get(&(agent, request.to_owned()));
        match &mail.frame {
            Some(Frame::PermissionRequest(it)) => {
                let call = call(AgentName::foreign(from), &it.request_id);
                of("permission_request", asks_for(call.unwrap_or(&it.tool_name)))
            }
            Some(Frame::PermissionResponse(it)) => {
                let does = if it.subtype == "success" { "allows" } else { "does not allow" };
                let call = call(to.clone(), &it.request_id).map_or("its call", String::as_str);
                of("permission_response", format!("{does} {to} {call}"))
            }
            frame => {
                let frame = frame.as_ref().map(Frame::kind);
                self.sent(at_ms, from, to, frame, Some(mail))
            }
        }
    }

    /// Returns the entry for a message. `mail` is the message itself, if it is still known.
    fn sent(
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
