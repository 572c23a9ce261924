//! Reads a hook's answer in JSON. A field that is not known, or that has an unexpected value, is
//! named, and the hook can then allow nothing. What it denies stays denied.

use serde_json::{Map, Value};

use super::event::HookKind;
use super::known::{Place, Treatment, known};

/// A hook's answer, as far as it can be read.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Answer {
    pub(super) word: Option<Word>,
    pub(super) reason: String,
    pub(super) updated_input: Option<Value>,
    pub(super) additional_context: Option<String>,
    pub(super) system_message: Option<String>,
    /// The reason for `continue: false`.
    pub(super) stop: Option<String>,
    /// What was not understood, in words that follow the hook's name.
    pub(super) faults: Vec<String>,
}

/// A hook's decision, before the event gives it a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Allow,
    Ask,
    Deny,
}

/// Reads the fields of one object, and notes what is wrong with them.
struct Fields<'a> {
    place: Place,
    fields: &'a Map<String, Value>,
    faults: &'a mut Vec<String>,
}

impl Fields<'_> {
    fn text(&mut self, name: &str) -> Option<String> {
        self.field(name, "a text", |value| value.as_str().map(str::to_owned))
    }

    /// Returns a field's value. A value of another type, `null` included, is a fault.
    fn field<T>(
        &mut self,
        name: &str,
        expected: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.fields.get(name)?;
        let found = read(value);
        if found.is_none() {
            self.faults.push(format!("answered with `{name}` that is not {expected}"));
        }
        found
    }

    /// Notes the fields that pitcrew does not know or does not honour.
    fn check(&mut self) {
        for name in self.fields.keys() {
            match known(self.place, name).map(|known| known.treatment) {
                Some(Treatment::Honoured | Treatment::Guards) => {}
                Some(Treatment::Named) => {
                    self.faults.push(format!("answered with `{name}`, which is not honoured"));
                }
                None => {
                    self.faults.push(format!("answered with the unknown field `{name}`"));
                }
            }
        }
    }
}

impl Answer {
    /// Reads an answer. Returns an error if the text is not a JSON object.
    pub(super) fn read(kind: &HookKind, text: &str) -> Result<Self, serde_json::Error> {
        let fields: Map<String, Value> = serde_json::from_str(text)?;
        let mut answer = Self::default();
        let mut faults = Vec::new();
        let mut top = Fields { place: Place::Answer, fields: &fields, faults: &mut faults };
        top.check();
        let decision = top.text("decision");
        let reason = top.text("reason");
        answer.system_message = top.text("systemMessage");
        let stop_reason = top.text("stopReason").unwrap_or_default();
        let goes_on = top.field("continue", "true or false", Value::as_bool);
        let specific =
            top.field("hookSpecificOutput", "an object", |value| value.as_object().cloned());
        // Older hooks write the decision beside `hookSpecificOutput`. The client does not read it
        // there, so it can restrict a call, but it allows none.
        let misplaced = fields.get("permissionDecision").and_then(Value::as_str);
        answer.stop = (goes_on == Some(false)).then_some(stop_reason);
        let mut specific_reason = None;
        let mut word = None;
        if let Some(fields) = specific {
            let mut specific =
                Fields { place: Place::Specific, fields: &fields, faults: &mut faults };
            specific.check();
            word = specific.text("permissionDecision");
            specific_reason = specific.text("permissionDecisionReason");
            answer.additional_context = specific.text("additionalContext");
            answer.updated_input = specific.field("updatedInput", "an object", |value| {
                value.is_object().then(|| value.clone())
            });
            if specific.text("hookEventName").as_deref() != Some(kind.name()) {
                faults.push(format!(
                    "answered with `hookSpecificOutput` without the `hookEventName` {}",
                    kind.name()
                ));
            }
        }
        let word = word.as_deref().or(misplaced).or(decision.as_deref());
        answer.word = word.and_then(|word| Word::read(word, &mut faults));
        answer.reason = specific_reason.or(reason).unwrap_or_default();
        if answer.updated_input.is_some() && !matches!(kind, HookKind::PreToolUse { .. }) {
            answer.updated_input = None;
            faults.push("answered with `updatedInput`, which only PreToolUse has".to_owned());
        }
        answer.faults = faults;
        Ok(answer)
    }
}

impl Word {
    fn read(word: &str, faults: &mut Vec<String>) -> Option<Self> {
        match word {
            "block" | "deny" => Some(Self::Deny),
            "allow" | "approve" => Some(Self::Allow),
            // The client leaves the call to the program that runs it. Here a person is that program.
            "ask" | "defer" => Some(Self::Ask),
            other => {
                faults.push(format!("decided `{other}`, which means nothing"));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_read_field_by_field_and_what_is_odd_is_named() {
        let kind = HookKind::PreToolUse {
            tool_name: "Bash".to_owned(),
            tool_input: json!({}),
            tool_use_id: "t".to_owned(),
        };
        let specific = |fields: Value| {
            let mut all = json!({"hookEventName": "PreToolUse"});
            all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            json!({"hookSpecificOutput": all})
        };
        let read = |answer: &Value| {
            let answer = Answer::read(&kind, &answer.to_string()).unwrap();
            (answer.word, answer.faults.join("; "))
        };
        for (answer, word, faults) in [
            (specific(json!({"permissionDecision": "allow"})), Some(Word::Allow), ""),
            (specific(json!({"permissionDecision": "ask"})), Some(Word::Ask), ""),
            (specific(json!({"permissionDecision": "defer"})), Some(Word::Ask), ""),
            (json!({"decision": "approve"}), Some(Word::Allow), ""),
            (json!({"decision": "block", "reason": "no"}), Some(Word::Deny), ""),
            (
                json!({"permissionDecision": "allow"}),
                Some(Word::Allow),
                "answered with the unknown field `permissionDecision`",
            ),
            (
                json!({"permissionDecision": "deny"}),
                Some(Word::Deny),
                "answered with the unknown field `permissionDecision`",
            ),
            (
                json!({"hookSpecificOutput": {"permissionDecision": "allow"}}),
                Some(Word::Allow),
                "answered with `hookSpecificOutput` without the `hookEventName` PreToolUse",
            ),
            (
                json!({"hookSpecificOutput": {"hookEventName": "Stop", "permissionDecision": "deny"}}),
                Some(Word::Deny),
                "answered with `hookSpecificOutput` without the `hookEventName` PreToolUse",
            ),
            (
                specific(json!({"permissionDecision": "allow", "later": 1})),
                Some(Word::Allow),
                "answered with the unknown field `later`",
            ),
            (
                json!({"decision": "approve", "async": true}),
                Some(Word::Allow),
                "answered with `async`, which is not honoured",
            ),
            (
                specific(json!({"permissionDecision": "maybe"})),
                None,
                "decided `maybe`, which means nothing",
            ),
            (
                specific(json!({"permissionDecision": "allow", "updatedInput": "ls"})),
                Some(Word::Allow),
                "answered with `updatedInput` that is not an object",
            ),
            (
                json!({"decision": "block", "hookSpecificOutput": 3}),
                Some(Word::Deny),
                "answered with `hookSpecificOutput` that is not an object",
            ),
            (
                json!({"decision": "approve", "reason": null}),
                Some(Word::Allow),
                "answered with `reason` that is not a text",
            ),
        ] {
            assert_eq!(read(&answer), (word, faults.to_owned()), "{answer}");
        }
    }
}
