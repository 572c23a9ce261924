//! Notifications for the user: input is needed, or the team has ended. The host makes each of them
//! once, however many user interfaces follow it, and says which of them shows it.

use pitcrew_permission::settings::TerminalSignal;
use pitcrew_protocol::{CallEffect, ToolTraits};
use pitcrew_runtime::run::{RunEnd, RunOutcome};
use serde::{Deserialize, Serialize};

use crate::host::OpenQuestion;
use crate::text::in_one_line;

/// Maximum number of characters of a title or a text. Desktops cut longer texts anyway.
const TEXT_CHARS: usize = 200;

/// A notification for the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// The reason for the notification.
    #[serde(flatten)]
    pub reason: Reason,
    /// The name of the team.
    pub team: String,
    /// A title of one line.
    pub title: String,
    /// A text of one line.
    pub text: String,
    /// The number of the follower that shows the notification on its terminal. If this is `None`,
    /// the host shows it on its own terminal, if it has one.
    pub follower: Option<u64>,
}

/// The reason for a notification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reason {
    /// An agent waits for the answer of a person.
    InputNeeded {
        /// The id of the permission request.
        question: String,
        /// The agent that asks.
        agent: String,
        /// The tool for which the agent asks permission.
        tool: String,
    },
    /// The run of the team has ended.
    Ended {
        /// How the run ended, such as `completed`.
        end: String,
    },
}

/// The place of a terminal. It decides how a control sequence reaches the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalPlace {
    /// The process writes to the terminal itself.
    Plain,
    /// The process writes to tmux, which passes marked sequences on if its user allows that.
    InTmux,
}

impl Notification {
    /// Returns the notification about a permission request.
    #[must_use]
    pub fn of_question(team: &str, question: &OpenQuestion) -> Self {
        let (agent, tool) = (&question.question.asker, &question.question.tool);
        let text = match ToolTraits::of(tool).effect == CallEffect::SubmitsPlan {
            true => format!("{agent} hands in a plan"),
            false => format!("{agent} asks permission for {tool}"),
        };
        let reason = Reason::InputNeeded {
            question: question.id.clone(),
            agent: agent.to_string(),
            tool: short(tool),
        };
        Self::new(team, reason, &text)
    }

    /// Returns the notification about the end of a run. Returns `None` if the user ended the run,
    /// and therefore knows it.
    #[must_use]
    pub fn of_end(team: &str, outcome: &RunOutcome) -> Option<Self> {
        let text = match &outcome.end {
            RunEnd::Interrupted | RunEnd::ShutDown => return None,
            RunEnd::Success { .. } => "the team is done".to_owned(),
            RunEnd::Unfinished { .. }
            | RunEnd::Failed { .. }
            | RunEnd::Broken { .. }
            | RunEnd::Parked { .. }
            | RunEnd::LimitReached { .. } => {
                let end = outcome.end.as_str().replace('_', " ");
                let reason = outcome.end.reason().unwrap_or_default();
                format!("the run has ended ({end}): {reason}")
            }
        };
        let reason = Reason::Ended { end: outcome.end.as_str().to_owned() };
        Some(Self::new(team, reason, &text))
    }

    fn new(team: &str, reason: Reason, text: &str) -> Self {
        Self {
            reason,
            team: team.to_owned(),
            title: short(&format!("pitcrew: {team}")),
            text: short(text),
            follower: None,
        }
    }

    /// Returns the characters that make a terminal show the notification. The texts in them cannot
    /// end a control sequence.
    #[must_use]
    pub fn for_terminal(&self, signals: &[TerminalSignal], place: TerminalPlace) -> String {
        // The host may have another version, so the texts are made harmless here again.
        let (title, text) = (short(&self.title).replace(';', ","), short(&self.text));
        let one = |signal: &TerminalSignal| match signal {
            TerminalSignal::Bell => "\u{7}".to_owned(),
            TerminalSignal::Osc9 => sequence(&format!("9;{title}: {text}"), place),
            TerminalSignal::Osc777 => sequence(&format!("777;notify;{title};{text}"), place),
        };
        signals.iter().map(one).collect()
    }
}

/// Returns an operating system command (OSC) for a terminal.
fn sequence(content: &str, place: TerminalPlace) -> String {
    match place {
        TerminalPlace::Plain => format!("\u{1b}]{content}\u{7}"),
        // tmux removes this cover. Inside it, each escape character is written twice.
        TerminalPlace::InTmux => format!("\u{1b}Ptmux;\u{1b}\u{1b}]{content}\u{7}\u{1b}\\"),
    }
}

/// Returns the text in one line without control characters, shortened to [`TEXT_CHARS`].
fn short(text: &str) -> String {
    crate::text::first_line(&in_one_line(text).replace('\t', " "), TEXT_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(tool: &str) -> Notification {
        let question = serde_json::json!({
            "id": "q1", "since_ms": 5, "input": {},
            "question": {"asker": "bob", "tool": tool, "folder": "/work", "reason": "", "lines": [], "offers": [], "digest": "d"},
        });
        Notification::of_question("work", &serde_json::from_value(question).unwrap())
    }

    #[test]
    fn each_signal_has_its_sequence() {
        let bash = asking("Bash");
        assert_eq!(bash.for_terminal(&[TerminalSignal::Bell], TerminalPlace::Plain), "\u{7}");
        let both = [TerminalSignal::Osc9, TerminalSignal::Osc777];
        assert_eq!(
            bash.for_terminal(&both, TerminalPlace::Plain),
            "\u{1b}]9;pitcrew: work: bob asks permission for Bash\u{7}\
             \u{1b}]777;notify;pitcrew: work;bob asks permission for Bash\u{7}"
        );
        assert_eq!(
            bash.for_terminal(&[TerminalSignal::Osc9], TerminalPlace::InTmux),
            "\u{1b}Ptmux;\u{1b}\u{1b}]9;pitcrew: work: bob asks permission for Bash\u{7}\u{1b}\\"
        );
        assert_eq!(bash.for_terminal(&[], TerminalPlace::Plain), "");
        assert_eq!(asking("ExitPlanMode").text, "bob hands in a plan");
    }

    #[test]
    fn no_text_of_an_agent_or_of_a_host_ends_a_sequence() {
        let mut forged = asking("Bash\u{7}\u{1b}]52;c;AAAA\u{7}\nmore");
        assert_eq!(forged.text.matches(char::is_control).count(), 0, "{forged:?}");
        forged.title = "a;b\u{9c}\u{1b}\\c".to_owned();
        forged.text = format!("\u{7}{}", "x".repeat(5_000));
        let shown = forged.for_terminal(&[TerminalSignal::Osc777], TerminalPlace::Plain);
        assert_eq!(shown.matches(char::is_control).count(), 2, "{shown:?}");
        assert!(shown.starts_with("\u{1b}]777;notify;a,b"), "{shown:?}");
        assert!(shown.chars().count() < 450, "{shown:?}");
    }

    #[test]
    fn a_notification_is_one_object_on_the_wire() {
        let written = serde_json::json!({
            "kind": "input_needed", "question": "q1", "agent": "bob", "tool": "Bash", "team": "work",
            "title": "pitcrew: work", "text": "bob asks permission for Bash", "follower": null,
        });
        assert_eq!(serde_json::to_value(asking("Bash")).unwrap(), written);
        assert_eq!(serde_json::from_value::<Notification>(written).unwrap(), asking("Bash"));
    }
}
