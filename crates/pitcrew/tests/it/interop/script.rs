//! Scripts for the model server: what each role says, turn by turn (`interop/mock_model.py`).

use serde_json::{Map, Value, json};

/// What the models of a run say, by role.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script(Map<String, Value>);

impl Script {
    /// Adds a role with its turns. A conversation is of the role R that has `ROLE:R` in its first message or system prompt.
    pub(crate) fn role(mut self, name: &str, turns: impl IntoIterator<Item = Value>) -> Self {
        self.0.insert(name.to_owned(), turns.into_iter().collect());
        self
    }

    /// The script as the server reads it.
    pub(crate) fn to_json(&self) -> String {
        Value::Object(self.0.clone()).to_string()
    }
}

/// A turn that says a text, and so ends what the agent does for now.
pub(crate) fn says(text: &str) -> Value {
    json!({"blocks": [{"type": "text", "text": text}]})
}

/// A turn that calls one tool.
pub(crate) fn calls(tool: &str, input: Value) -> Value {
    json!({"blocks": [{"type": "tool_use", "name": tool, "input": input}]})
}

/// The same turn, but not before `text` is in what the model is told; until then it says a word and ends its turn. No turn
/// without such a condition may stand before it where the text can come in the middle of a turn, as it does to agents of ours.
pub(crate) fn once_told(text: &str, mut turn: Value) -> Value {
    turn["when"] = text.into();
    turn
}

/// The same turn, a second later. At the beginning of a turn the client writes its configuration in place, and reads it, half
/// written, for the name of the lead that it asks for a permission; then nobody is asked (`docs/interop.md`).
pub(crate) fn a_second_later(mut turn: Value) -> Value {
    turn["pause"] = 1.into();
    turn
}

/// A SendMessage of a text.
pub(crate) fn sends(to: &str, content: &str, summary: &str) -> Value {
    calls(
        "SendMessage",
        json!({"type": "message", "recipient": to, "content": content, "summary": summary}),
    )
}
