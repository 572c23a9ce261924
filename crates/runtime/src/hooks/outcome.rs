//! Interprets the exit code and the output of a hook. Their meaning depends on the event for which
//! the hook ran.

use pitcrew_protocol::neutralised;
use serde_json::Value;

use super::answer::{Answer, Word};
use super::event::{HookKind, Refusal};
use crate::user_program::{Finished, ProgramError};

/// The joined answers of all hooks of one event.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookOutcome {
    /// Text for the model: why the action was refused, or why the agent must continue.
    pub feedback: Option<String>,
    /// Texts to insert into the conversation.
    pub additional_context: Vec<String>,
    /// The decision of the hooks. If several hooks decide, this is the strictest decision.
    pub decision: Option<Decision>,
    /// The reason given with `continue: false`. If it is set, the agent must stop completely.
    pub stop: Option<String>,
    /// The input that replaces the input of the tool call.
    pub updated_input: Option<Value>,
    /// The hooks that refused, each with its settings file.
    pub refused_by: Vec<String>,
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

/// A hook that has run, as far as the meaning of its answer depends on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct HookRun<'a> {
    /// The event for which the hook ran.
    pub(super) kind: &'a HookKind,
    /// The hook's command and its settings file.
    pub(super) name: &'a str,
    /// Why the hook can allow nothing, whatever it answers. `None` if it can.
    pub(super) cannot_allow: Option<&'a str>,
}

impl HookOutcome {
    pub(super) fn warning(text: String) -> Self {
        Self { warnings: vec![text], ..Self::default() }
    }

    /// Interprets the result of one hook.
    pub(super) fn of(hook: HookRun<'_>, run: Result<Finished, ProgramError>) -> Self {
        let HookRun { kind, name, .. } = hook;
        let finished = match run {
            Ok(finished) => finished,
            Err(error) => {
                return Self::warning(format!("the {} hook {name} {error}", kind.name()));
            }
        };
        if finished.code == Some(2) {
            let reason = or_default(finished.stderr.trim(), "a hook refused and gave no reason");
            return Self::refused(kind, name, reason);
        }
        let mut outcome = Self::of_output(hook, finished.stdout.trim(), finished.code == Some(0));
        if finished.code != Some(0) {
            let end = finished
                .code
                .map_or_else(|| "was killed".to_owned(), |code| format!("failed with code {code}"));
            let said = finished.stderr.trim();
            let colon = if said.is_empty() { "" } else { ": " };
            outcome.warnings.push(format!("the {} hook {name} {end}{colon}{said}", kind.name()));
        }
        outcome
    }

    /// Interprets the output of a hook. The answer of a hook that failed counts too, as in the
    /// reference client, but it allows nothing.
    fn of_output(hook: HookRun<'_>, stdout: &str, has_succeeded: bool) -> Self {
        let HookRun { kind, name, .. } = hook;
        // Output that is not a JSON object is plain text.
        if !stdout.starts_with('{') {
            let is_context = kind.takes_plain_text() && has_succeeded && !stdout.is_empty();
            return Self {
                additional_context: is_context.then(|| stdout.to_owned()).into_iter().collect(),
                ..Self::default()
            };
        }
        match Answer::read(kind, stdout) {
            Ok(answer) => {
                let failed = (!has_succeeded).then_some("it failed");
                Self::of_answer(hook, answer, hook.cannot_allow.or(failed))
            }
            Err(error) => {
                Self::warning(format!("the {} hook {name} answered bad json: {error}", kind.name()))
            }
        }
    }

    fn of_answer(hook: HookRun<'_>, answer: Answer, cannot_allow: Option<&str>) -> Self {
        let HookRun { kind, name, .. } = hook;
        let reason = answer.reason;
        let mut outcome = match answer.word {
            Some(Word::Deny) => {
                Self::refused(kind, name, or_default(&reason, "a hook refused and gave no reason"))
            }
            Some(Word::Ask) => Self::decided(Decision::Ask { reason }),
            Some(Word::Allow) => Self::decided(Decision::Allow { reason }),
            None => Self::default(),
        };
        let faults = answer.faults.iter();
        outcome
            .warnings
            .extend(faults.map(|fault| format!("the {} hook {name} {fault}", kind.name())));
        let cannot_allow = cannot_allow.or(answer.faults.first().map(String::as_str));
        if let (Some(Decision::Allow { .. }), Some(why)) = (&outcome.decision, cannot_allow) {
            outcome.disallow(kind, name, why);
        }
        outcome.updated_input = answer.updated_input;
        outcome.additional_context.extend(answer.additional_context);
        outcome.warnings.extend(answer.system_message);
        outcome.stop = answer.stop.map(|reason| or_default(&reason, "a hook stopped the agent"));
        outcome
    }

    /// Removes the hook's allowance, and says why it does not count.
    pub(super) fn disallow(&mut self, kind: &HookKind, name: &str, why: &str) {
        self.decision = None;
        self.warnings.push(format!("the {} hook {name} allows nothing: {why}", kind.name()));
    }

    fn decided(decision: Decision) -> Self {
        Self { decision: Some(decision), ..Self::default() }
    }

    /// Returns the outcome of a hook that refuses.
    pub(super) fn refused(kind: &HookKind, name: &str, reason: String) -> Self {
        match kind.refusal() {
            Refusal::Blocks => Self {
                feedback: Some(reason.clone()),
                refused_by: vec![name.to_owned()],
                ..Self::decided(Decision::Deny { reason })
            },
            Refusal::Tells => Self { feedback: Some(reason), ..Self::default() },
            Refusal::Warns => Self::warning(reason),
        }
    }

    /// Returns what is left of the outcome of a hook that nothing waited for. It decides nothing, as
    /// what it was asked about has already happened.
    pub(super) fn too_late(self) -> Self {
        Self {
            additional_context: self.feedback.into_iter().chain(self.additional_context).collect(),
            warnings: self.warnings,
            ..Self::default()
        }
    }

    /// Joins two outcomes. Keeps all texts in order, the stricter of the two decisions, and the
    /// later of the two inputs.
    pub(super) fn join(mut self, other: Self) -> Self {
        self.feedback = match (self.feedback, other.feedback) {
            (Some(first), Some(second)) => Some(format!("{first}\n{second}")),
            (first, second) => first.or(second),
        };
        self.additional_context.extend(other.additional_context);
        // The variants are ordered by strictness, so the maximum is the strictest decision.
        self.decision = self.decision.max(other.decision);
        self.stop = self.stop.or(other.stop);
        self.updated_input = other.updated_input.or(self.updated_input);
        self.refused_by.extend(other.refused_by);
        self.warnings.extend(other.warnings);
        self
    }
}

fn or_default(text: &str, default: &str) -> String {
    if text.is_empty() { default.to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        HookOutcome::of(HookRun { kind, name: "`h`", cannot_allow: None }, Ok(finished))
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
        let idle = HookKind::TeammateIdle {
            teammate_name: "a".to_owned(),
            team_name: "t".to_owned(),
            stop_hook_active: false,
        };
        assert_eq!(of(&idle, 2, "", "go on").decision, deny("go on"));
        let end = HookKind::SessionEnd { reason: "other".to_owned() };
        assert_eq!(of(&end, 2, "", "too late"), HookOutcome::warning("too late".to_owned()));
    }

    #[test]
    fn other_codes_warn_and_the_answer_can_refuse_but_not_allow() {
        let warning = "the PreToolUse hook `h` failed with code 1: oops".to_owned();
        assert_eq!(of(&pre(), 1, "", "oops"), HookOutcome::warning(warning.clone()));
        let refused = of(&pre(), 1, "{\"decision\":\"block\",\"reason\":\"no\"}", "oops");
        assert_eq!((refused.decision, refused.warnings), (deny("no"), vec![warning.clone()]));
        let allowed = of(&pre(), 1, "{\"decision\":\"approve\"}", "oops");
        let told = "the PreToolUse hook `h` allows nothing: it failed".to_owned();
        assert_eq!((allowed.decision, allowed.warnings), (None, vec![told, warning]));
    }

    #[test]
    fn decisions_are_read_in_both_forms() {
        let new = json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no"}});
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
        let allow = answered(&pre(), &json!({"decision": "approve"}));
        assert!(allow.decision.is_some());
        let ask = answered(&pre(), &json!({"permissionDecision": "ask"}));
        let deny = answered(&pre(), &json!({"permissionDecision": "deny", "reason": "x"}));
        let joined = deny.clone().join(allow.clone()).join(ask.clone());
        assert_eq!(joined.decision, deny.decision);
        assert_eq!(allow.join(ask.clone()).decision, ask.decision);
    }

    #[test]
    fn a_hook_with_anything_unknown_in_its_answer_allows_nothing() {
        let specific = |more: &str, name: &str| {
            let mut fields = json!({"hookEventName": name, "permissionDecision": "allow"});
            fields[more] = json!(1);
            json!({"hookSpecificOutput": fields})
        };
        for answer in [
            json!({"decision": "approve", "later": 1}),
            json!({"permissionDecision": "allow"}),
            specific("later", "PreToolUse"),
            specific("updatedInput", "PreToolUse"),
            specific("hookEventName", "PreToolUse"),
        ] {
            let outcome = answered(&pre(), &answer);
            assert_eq!(outcome.decision, None, "{answer}");
            assert!(outcome.warnings.last().unwrap().contains("allows nothing"), "{outcome:?}");
        }
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
