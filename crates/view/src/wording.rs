//! Short texts that describe what an agent is doing. All user interfaces use these texts.

pub use pitcrew_model::in_dollars;
use pitcrew_runtime::events::{RunEvent, waiting_for_model};
use pitcrew_runtime::question::visible;
use serde_json::Value;

use crate::text::first_line;

/// Maximum number of characters in the description of a tool call.
const CALL_CHARS: usize = 60;

/// The fields of a tool's input that say most about a call, the most informative first.
pub(crate) const TELLING: [&str; 10] = [
    "command",
    "file_path",
    "pattern",
    "recipient",
    "to",
    "name",
    "subject",
    "taskId",
    "team_name",
    "request_id",
];

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
        | RunEvent::ModeRecorded { .. }
        | RunEvent::ShuttingDown { .. }
        | RunEvent::Warning { .. } => None,
    }
}

pub(crate) fn asks_for(tool: &str) -> String {
    format!("asks permission for {tool}")
}

/// Returns a tool call as one line: the tool, and the most informative field of the tool's input.
#[must_use]
pub fn brief(tool: &str, input: &Value) -> String {
    let told = TELLING.iter().find_map(|field| input.get(*field).and_then(Value::as_str));
    match told {
        Some(text) => format!("{tool}({})", first_line(&visible(text), CALL_CHARS)),
        None => tool.to_owned(),
    }
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
    fn counts_are_short() {
        for (count, text) in [(0, "0"), (999, "999"), (1_250, "1.2k"), (2_345_678, "2.3M")] {
            assert_eq!(short(count), text);
        }
    }
}
