//! Scripts for the model server: the answers of each role, turn by turn (`interop/mock_model.py`).

use serde_json::{Map, Value, json};

/// The models' answers in a run, by role.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script(Map<String, Value>);

impl Script {
    /// Adds a role with its turns. A conversation has the role R if `ROLE:R` is in its first
    /// message or its system prompt.
    pub(crate) fn role(mut self, name: &str, turns: impl IntoIterator<Item = Value>) -> Self {
        self.0.insert(name.to_owned(), turns.into_iter().collect());
        self
    }

    /// The script in the JSON form that the server reads.
    pub(crate) fn to_json(&self) -> String {
        Value::Object(self.0.clone()).to_string()
    }
}

/// A turn that says a text. It ends the agent's work for now.
pub(crate) fn says(text: &str) -> Value {
    json!({"blocks": [{"type": "text", "text": text}]})
}

/// A turn that calls one tool.
pub(crate) fn calls(tool: &str, input: Value) -> Value {
    json!({"blocks": [{"type": "tool_use", "name": tool, "input": input}]})
}

/// The same turn, but only once the model has received `text`. Until then the model answers with a
/// short text and ends its turn. If `text` can arrive in the middle of a turn, as with pitcrew's
/// agents, this turn must not come after a turn without such a condition.
pub(crate) fn once_told(text: &str, mut turn: Value) -> Value {
    turn["when"] = text.into();
    turn
}

/// The same turn, delayed by one second. At the beginning of a turn the client rewrites its
/// configuration in place. If it then asks for a permission, it may read the lead's name from the
/// half-written file and ask nobody (`docs/interop.md`).
pub(crate) fn a_second_later(mut turn: Value) -> Value {
    turn["pause"] = 1.into();
    turn
}

/// A SendMessage call with a text.
pub(crate) fn sends(to: &str, content: &str, summary: &str) -> Value {
    calls(
        "SendMessage",
        json!({"type": "message", "recipient": to, "content": content, "summary": summary}),
    )
}
