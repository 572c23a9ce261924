//! Interprets the exit code and the output of a hook. Their meaning depends on the event for which
//! the hook ran.

use pitcrew_protocol::neutralised;
use serde::Deserialize;

use super::event::{HookKind, Refusal};
use crate::user_program::{Finished, ProgramError};

/// The joined answers of all hooks of one event.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookOutcome {
    /// Text for the model: why the action was refused, or why the agent must continue.
    pub feedback: Option<String>,
    /// Texts to insert into the conversation.
    pub additional_context: Vec<String>,
    /// The decision of the hooks. If several hooks decide, this is the strictest decision.
    pub decision: Option<Decision>,
    /// The reason given with `continue: false`. If it is set, the agent must stop completely.
    pub stop: Option<String>,
    /// Problems of the hooks, and messages that are meant for the user and not for the model.
    pub warnings: Vec<String>,
}

/// A hook's decision about a planned action. The variants are in order of strictness, and the last
/// one is the strictest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// The action happens, and nobody is asked for permission.
    Allow {
        /// Why the hook allows the action.
        reason: String,
    },
    /// The user must decide whether the action is allowed.
    Ask {
        /// Why the hook wants the user to decide.
        reason: String,
    },
    /// The action does not happen.
    Deny {
        /// Why the hook denies the action.
        reason: String,
    },
}

/// Wraps the text of a hook in the form in which the reference client (Claude Code) inserts it into
/// the conversation.
#[must_use]
pub fn reminder(kind: &HookKind, text: &str) -> String {
    // The text may come from any source. Escape it, so that it can neither close the
    // `system-reminder` tag around it nor open another tag.
    let text = neutralised(text);
    format!(
        "<system-reminder>\n{} hook additional context: {text}\n</system-reminder>",
        kind.label()
    )
}

/// A hook's answer in JSON. Fields that are meant only for other clients are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Answer {
    #[serde(rename = "continue")]
    goes_on: Option<bool>,
    stop_reason: Option<String>,
    system_message: Option<String>,
    decision: Option<String>,
    permission_decision: Option<String>,
    reason: Option<String>,
    hook_specific_output: Specific,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Specific {
    additional_context: Option<String>,
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
}

impl HookOutcome {
    pub(super) fn warning(text: String) -> Self {
        Self { warnings: vec![text], ..Self::default() }
    }

    /// Interprets the result of one hook.
    pub(super) fn of(kind: &HookKind, command: &str, run: Result<Finished, ProgramError>) -> Self {
        let finished = match run {
            Ok(finished) => finished,
            Err(error) => {
                return Self::warning(format!("the {} hook `{command}` {error}", kind.name()));
            }
        };
        match finished.code {
            Some(0) => Self::of_output(kind, command, finished.stdout.trim()),
            Some(2) => Self::refused(
                kind,
                or_default(finished.stderr.trim(), "a hook refused and gave no reason"),
            ),
            code => {
                let end = code.map_or_else(
                    || "was killed".to_owned(),
                    |code| format!("failed with code {code}"),
                );
                let said = finished.stderr.trim();
                let colon = if said.is_empty() { "" } else { ": " };
                Self::warning(format!("the {} hook `{command}` {end}{colon}{said}", kind.name()))
            }
        }
    }

    fn of_output(kind: &HookKind, command: &str, stdout: &str) -> Self {
        // Output that is not a JSON object is plain text.
        if !stdout.starts_with('{') {
            let is_context = kind.takes_plain_text() && !stdout.is_empty();
            return Self {
                additional_context: is_context.then(|| stdout.to_owned()).into_iter().collect(),
                ..Self::default()
            };
        }
        let answer: Answer = match serde_json::from_str(stdout) {
            Ok(answer) => answer,
            Err(error) => {
                return Self::warning(format!(
                    "the {} hook `{command}` answered bad json: {error}",
                    kind.name()
                ));
            }
        };
        Self::of_answer(kind, answer)
    }

    fn of_answer(kind: &HookKind, answer: Answer) -> Self {
        let specific = answer.hook_specific_output;
        let reason = specific.permission_decision_reason.or(answer.reason).unwrap_or_default();
        // A hook can write its decision in three fields: `permissionDecision` in
        // `hookSpecificOutput`, `permissionDecision`, or `decision`. If it writes several of them,
        // the first in this order counts.
        let word = specific.permission_decision.or(answer.permission_decision).or(answer.decision);
        let mut outcome = match word.as_deref() {
            Some("block" | "deny") => {
                Self::refused(kind, or_default(&reason, "a hook refused and gave no reason"))
            }
            Some("allow" | "approve") => Self::decided(Decision::Allow { reason }),
            Some("ask") => Self::decided(Decision::Ask { reason }),
            Some(other) => Self::warning(format!(
                "a {} hook decided `{other}`, which means nothing",
                kind.name()
            )),
            None => Self::default(),
        };
        outcome.additional_context.extend(specific.additional_context);
        outcome.warnings.extend(answer.system_message);
        if answer.goes_on == Some(false) {
            outcome.stop = Some(or_default(
                &answer.stop_reason.unwrap_or_default(),
                "a hook stopped the agent",
            ));
        }
        outcome
    }

    fn decided(decision: Decision) -> Self {
        Self { decision: Some(decision), ..Self::default() }
    }

    fn refused(kind: &HookKind, reason: String) -> Self {
        match kind.refusal() {
            Refusal::Blocks => {
                Self { feedback: Some(reason.clone()), ..Self::decided(Decision::Deny { reason }) }
            }
            Refusal::Tells => Self { feedback: Some(reason), ..Self::default() },
            Refusal::Warns => Self::warning(reason),
        }
    }

    /// Joins two outcomes. Keeps all texts in order, and the stricter of the two decisions.
    pub(super) fn join(mut self, other: Self) -> Self {
        self.feedback = match (self.feedback, other.feedback) {
            (Some(first), Some(second)) => Some(format!("{first}\n{second}")),
            (first, second) => first.or(second),
        };
        self.additional_context.extend(other.additional_context);
        // The variants are ordered by strictness, so the maximum is the strictest decision.
        self.decision = self.decision.max(other.decision);
        self.stop = self.stop.or(other.stop);
        self.warnings.extend(other.warnings);
        self
    }
}

fn or_default(text: &str, default: &str) -> String {
    if text.is_empty() { default.to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pre() -> HookKind {
        HookKind::PreToolUse {
            tool_name: "Bash".to_owned(),
            tool_input: json!({}),
            tool_use_id: "t".to_owned(),
        }
    }

    fn of(kind: &HookKind, code: i32, stdout: &str, stderr: &str) -> HookOutcome {
        let finished =
            Finished { code: Some(code), stdout: stdout.to_owned(), stderr: stderr.to_owned() };
        HookOutcome::of(kind, "h", Ok(finished))
    }

    fn answered(kind: &HookKind, answer: &Value) -> HookOutcome {
        of(kind, 0, &answer.to_string(), "")
    }

    fn deny(reason: &str) -> Option<Decision> {
        Some(Decision::Deny { reason: reason.to_owned() })
    }

    #[test]
    fn exit_code_two_refuses_tells_or_warns() {
        let refused = of(&pre(), 2, "", "not now\n");
        assert_eq!(
            (refused.feedback.as_deref(), refused.decision),
            (Some("not now"), deny("not now"))
        );
        let post = HookKind::PostToolUse {
            tool_name: "Bash".to_owned(),
            tool_input: json!({}),
            tool_response: json!({}),
            tool_use_id: "t".to_owned(),
        };
        let told = of(&post, 2, "", "look again");
        assert_eq!((told.feedback.as_deref(), told.decision), (Some("look again"), None));
        let idle =
            HookKind::TeammateIdle { teammate_name: "a".to_owned(), team_name: "t".to_owned() };
        assert_eq!(of(&idle, 2, "", "go on").decision, deny("go on"));
        let end = HookKind::SessionEnd { reason: "other".to_owned() };
        assert_eq!(of(&end, 2, "", "too late"), HookOutcome::warning("too late".to_owned()));
    }

    #[test]
    fn other_codes_warn_and_block_nothing() {
        let outcome = of(&pre(), 1, "{\"decision\":\"block\"}", "oops");
        assert_eq!(
            outcome,
            HookOutcome::warning("the PreToolUse hook `h` failed with code 1: oops".to_owned())
        );
    }

    #[test]
    fn decisions_are_read_in_both_forms() {
        let new = json!({"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no"}});
        assert_eq!(answered(&pre(), &new).decision, deny("no"));
        let old = json!({"decision": "block", "reason": "no"});
        assert_eq!(answered(&pre(), &old).decision, deny("no"));
        let top = json!({"permissionDecision": "ask", "reason": "sure?"});
        let ask = Decision::Ask { reason: "sure?".to_owned() };
        assert_eq!(answered(&pre(), &top).decision, Some(ask));
        assert!(answered(&pre(), &json!({"decision": "maybe"})).decision.is_none());
        let stop = answered(&pre(), &json!({"continue": false, "stopReason": "enough"}));
        assert_eq!(stop.stop.as_deref(), Some("enough"));
    }

    #[test]
    fn the_strictest_decision_wins() {
        let allow = answered(&pre(), &json!({"permissionDecision": "allow"}));
        let ask = answered(&pre(), &json!({"permissionDecision": "ask"}));
        let deny = answered(&pre(), &json!({"permissionDecision": "deny", "reason": "x"}));
        let joined = deny.clone().join(allow.clone()).join(ask.clone());
        assert_eq!(joined.decision, deny.decision);
        assert_eq!(allow.join(ask.clone()).decision, ask.decision);
    }

    #[test]
    fn plain_output_is_context_only_where_the_reference_takes_it() {
        let prompt = HookKind::UserPromptSubmit { prompt: "x".to_owned() };
        assert_eq!(of(&prompt, 0, "hello\n", "").additional_context, ["hello"]);
        assert_eq!(of(&pre(), 0, "hello", ""), HookOutcome::default());
        assert_eq!(of(&pre(), 0, "{broken", "").warnings.len(), 1);
    }

    #[test]
    fn context_is_injected_as_recorded_and_cannot_end_its_tag() {
        insta::assert_snapshot!(reminder(&pre(), "a </system-reminder> b"), @r"
        <system-reminder>
        PreToolUse:Bash hook additional context: a &lt;/system-reminder> b
        </system-reminder>
        ");
    }
}
