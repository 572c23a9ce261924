//! Short texts that describe what an agent is doing. All user interfaces use these texts.

use std::borrow::Cow;

pub use pitcrew_model::in_dollars;
use pitcrew_protocol::{
    CallEffect, IdleNotification, PermissionMode, PlanApprovalRequest, PlanApprovalResponse,
    ShutdownApproved, ShutdownRejected, ShutdownRequest, Status, TELLING, TaskAssignment,
    TeammateTerminated, ToolTraits,
};
use pitcrew_runtime::events::{RunEvent, waiting_for_model};
use pitcrew_runtime::question::visible;
use serde_json::Value;

use crate::text::first_line;

/// Maximum number of characters in the description of a tool call.
const CALL_CHARS: usize = 60;

/// Maximum number of characters that are shown of a permission mode that is not known.
const MODE_CHARS: usize = 40;

/// Returns the text for a permission mode of the config, which every program of the user can change.
/// Returns `None` for an empty one.
pub(crate) fn mode_in_words(mode: &str) -> Option<String> {
    let unknown = || format!("unknown: {}", first_line(mode, MODE_CHARS));
    let known = PermissionMode::named(mode).map(|mode| mode.to_string());
    (!mode.is_empty()).then(|| known.unwrap_or_else(unknown))
}

/// Returns a text for what the agent does after this event. Returns `None` if the event says
/// nothing about this.
#[must_use]
pub fn doing(event: &RunEvent) -> Option<String> {
    match event {
        RunEvent::TextDelta { .. } => Some("writes".to_owned()),
        RunEvent::ModelWaits { reason, delay, .. } => Some(waiting_for_model(reason, *delay)),
        RunEvent::ModelSilent { silent_for, .. } => {
            Some(format!("no answer from the model for {} s, still waiting", silent_for.as_secs()))
        }
        RunEvent::ToolStarted { tool, input, .. } => Some(brief(tool, input)),
        RunEvent::PermissionAsked { tool, .. } => Some(asks_for(tool)),
        RunEvent::Started(_)
        | RunEvent::AgentStarted(_)
        | RunEvent::AgentLaunched { .. }
        | RunEvent::TurnEnded { .. }
        | RunEvent::TaskChanged { .. }
        | RunEvent::PlanHandedIn { .. }
        | RunEvent::AgentChanged { .. }
        | RunEvent::Answered(_)
        | RunEvent::Compacted(_)
        | RunEvent::ToolEnded(_)
        | RunEvent::MailDelivered { .. }
        | RunEvent::PermissionAnswered { .. }
        | RunEvent::AllowedAlways { .. }
        | RunEvent::ModeChanged { .. }
        | RunEvent::ModelChanged { .. }
        | RunEvent::ModeRecorded { .. }
        | RunEvent::ShuttingDown { .. }
        | RunEvent::Warning { .. } => None,
    }
}

/// The news of an agent that got a shutdown request.
pub(crate) const ASKED_TO_SHUT_DOWN: &str = "was asked to shut down";

/// The request of an agent that has submitted a plan.
pub(crate) const ASKS_FOR_PLAN: &str = "asks to approve its plan";

/// Returns the text for an agent that waits for a permission to call this tool.
pub(crate) fn asks(tool: &str) -> String {
    match ToolTraits::of(tool).effect == CallEffect::SubmitsPlan {
        true => ASKS_FOR_PLAN.to_owned(),
        false => asks_for(tool),
    }
}

/// Returns the text for the state that an agent is in.
pub(crate) fn state_in_words(status: Status) -> String {
    match status {
        Status::Completed => "ended".to_owned(),
        Status::ShutdownRequested => "shutting down".to_owned(),
        Status::Pending
        | Status::Active
        | Status::Idle
        | Status::AwaitingPlanApproval
        | Status::Parked
        | Status::Failed => status.as_str().replace('_', " "),
        Status::Killed => STOPPED.to_owned(),
    }
}

/// The state of an agent that was ended without its consent. Files and JSON call it `killed`.
const STOPPED: &str = "stopped";

/// Returns the text for the state in which an agent's conversation ended.
#[must_use]
pub fn end_in_words(status: Status) -> String {
    match status {
        Status::Completed => status.as_str().to_owned(),
        Status::Pending
        | Status::Active
        | Status::Idle
        | Status::AwaitingPlanApproval
        | Status::ShutdownRequested
        | Status::Parked
        | Status::Failed
        | Status::Killed => state_in_words(status),
    }
}

/// Returns a text for a frame of this type. It follows the name of the sender.
#[must_use]
pub fn frame_in_words(kind: &str) -> Cow<'static, str> {
    Cow::Borrowed(match kind {
        IdleNotification::TYPE => "has ended its turn",
        ShutdownRequest::TYPE => "asks to shut down",
        ShutdownApproved::TYPE => "agrees to shut down",
        ShutdownRejected::TYPE => "does not shut down",
        PlanApprovalRequest::TYPE => "hands in a plan",
        // A person may have answered. The frame comes from the lead in any case.
        PlanApprovalResponse::TYPE => "sends the answer to the plan",
        TaskAssignment::TYPE => "assigns a task",
        TeammateTerminated::TYPE => "reports the end of a teammate",
        // The other types name what they are.
        other => return Cow::Owned(format!("sends a {}", other.replace('_', " "))),
    })
}

pub(crate) fn asks_for(tool: &str) -> String {
    format!("asks permission for {tool}")
}

/// Returns a tool call as one line: the tool, and the most informative field of the tool's input.
#[must_use]
pub fn brief(tool: &str, input: &Value) -> String {
    brief_with(tool, TELLING.iter().find_map(|field| input.get(*field).and_then(Value::as_str)))
}

/// Returns a tool call as one line. `telling` is the most informative field of its input.
pub(crate) fn brief_with(tool: &str, telling: Option<&str>) -> String {
    let Some(text) = telling else { return tool.to_owned() };
    let line = text.split('\n').next().unwrap_or_default();
    // `visible` never makes a text shorter. So the rest of a long command need not be read.
    let end = line.char_indices().nth(CALL_CHARS + 1).map_or(line.len(), |(at, _)| at);
    let begin = line.get(..end).unwrap_or(line);
    let shown = if begin.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        Cow::Borrowed(begin)
    } else {
        Cow::Owned(visible(begin))
    };
    format!("{tool}({})", first_line(&shown, CALL_CHARS))
}

/// Formats a number in a short form. From one thousand on, it is written in thousands (`1.2k`) or
/// millions (`2.3M`).
#[must_use]
pub fn short(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}.{}k", count / 1_000, count % 1_000 / 100),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_of_a_model_cannot_steer_the_terminal() {
        assert_eq!(brief("Bash", &json!({"command": "ls \u{1b}[2J"})), "Bash(ls <U+001B>[2J)");
    }

    #[test]
    fn a_long_call_is_described_by_its_beginning() {
        let described = |command: &str| brief("Bash", &json!({"command": command}));
        for part in ["x", "ä", "\u{1b}", "\t", "👍🏽"] {
            let long = part.repeat(500);
            let shown: String = visible(&long).chars().take(59).collect();
            assert_eq!(described(&long), format!("Bash({}…)", shown.trim_end()));
        }
        assert_eq!(described(&"x".repeat(60)), format!("Bash({})", "x".repeat(60)));
        assert_eq!(described(&format!("ls {}\nrm", " ".repeat(500))), "Bash(ls…)");
    }

    #[test]
    fn counts_are_short() {
        for (count, text) in [(0, "0"), (999, "999"), (1_250, "1.2k"), (2_345_678, "2.3M")] {
            assert_eq!(short(count), text);
        }
    }
}
