//! Scripts for the model server (`interop/mock_model.py`). A script contains the answers of each
//! role, turn by turn.

use serde_json::{Map, Value, json};

/// The models' answers in a run, by role.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script(Map<String, Value>);

impl Script {
    /// Adds a role with its turns. A conversation has the role R if its first message or its system
    /// prompt contains `ROLE:R`.
    pub(crate) fn role(mut self, name: &str, turns: impl IntoIterator<Item = Value>) -> Self {
        self.0.insert(name.to_owned(), turns.into_iter().collect());
        self
    }

    /// Returns the script in the JSON form that the model server reads.
    pub(crate) fn to_json(&self) -> String {
        Value::Object(self.0.clone()).to_string()
    }
}

/// A turn in which the model says a text. The agent then waits for its next message.
pub(crate) fn says(text: &str) -> Value {
    json!({"blocks": [{"type": "text", "text": text}]})
}

/// A turn that calls one tool.
pub(crate) fn calls(tool: &str, input: Value) -> Value {
    json!({"blocks": [{"type": "tool_use", "name": tool, "input": input}]})
}

/// Adds a condition to `turn`: the model plays this turn only after it has received `text`. Until
/// then, the model answers with a short text and ends its turn.
///
/// An agent of pitcrew may receive `text` in the middle of an earlier turn. A test in which this
/// can happen must not put `turn` directly after a turn without a condition.
pub(crate) fn once_told(text: &str, mut turn: Value) -> Value {
    turn["when"] = text.into();
    turn
}

/// Delays `turn` by one second. At the beginning of a turn, the client rewrites its configuration
/// file. If the client needs a permission at that moment, it may read an incomplete file that does
/// not name the lead. The client then does not ask for the permission (`docs/interop.md`).
pub(crate) fn a_second_later(mut turn: Value) -> Value {
    turn["pause"] = 1.into();
    turn
}

/// A turn that sends a text with SendMessage.
pub(crate) fn sends(to: &str, content: &str, summary: &str) -> Value {
    calls(
        "SendMessage",
        json!({"type": "message", "recipient": to, "content": content, "summary": summary}),
    )
}
