//! Finds what is new in the conversation of an agent.

use pitcrew_protocol::AgentName;
use serde_json::{Map, Value, json};

use super::{Change, ChangedCall, NewPart};
use crate::conversation::{Call, Conversation, Part, Permission};
use crate::state::bounded;

/// The part of a conversation that the events have.
#[derive(Debug, Default)]
pub(super) struct RecordedConversation {
    /// The number of parts, with those that the conversation has forgotten.
    parts: usize,
    /// The calls without a result.
    open: Vec<OpenCall>,
}

/// A call without a result.
#[derive(Debug)]
struct OpenCall {
    n: usize,
    permission: Option<Permission>,
}

impl RecordedConversation {
    /// Returns what is new in the conversation.
    pub(super) fn changes(
        &mut self,
        agent: &AgentName,
        conversation: &Conversation,
    ) -> Vec<Change> {
        let mut changes = self.changed_calls(agent, conversation);
        let forgotten = conversation.forgotten;
        let new = self.parts.saturating_sub(forgotten);
        for (n, part) in conversation.parts.iter().enumerate().skip(new) {
            let n = n + forgotten;
            if let Part::Call(call) = part
                && call.result.is_none()
            {
                self.open.push(OpenCall { n, permission: call.permission.clone() });
            }
            let part = NewPart { agent: agent.clone(), n, part: shortened(part.clone()) };
            changes.push(Change::Part(Box::new(part)));
        }
        self.parts = forgotten + conversation.parts.len();
        changes
    }

    fn changed_calls(&mut self, agent: &AgentName, conversation: &Conversation) -> Vec<Change> {
        let mut changes = Vec::new();
        self.open.retain_mut(|open| {
            let at = open.n.checked_sub(conversation.forgotten);
            let Some(Part::Call(call)) = at.and_then(|at| conversation.parts.get(at)) else {
                return false;
            };
            let fields = changed_fields(open, call);
            if !fields.is_empty() {
                let changed = ChangedCall { agent: agent.clone(), n: open.n, fields };
                changes.push(Change::Call(Box::new(changed)));
            }
            call.result.is_none()
        });
        changes
    }
}

fn changed_fields(open: &mut OpenCall, call: &Call) -> Map<String, Value> {
    let mut fields = Map::new();
    if call.permission != open.permission {
        open.permission.clone_from(&call.permission);
        fields.insert("permission".to_owned(), json!(call.permission));
    }
    if let Some(result) = &call.result {
        let mut result = json!(result);
        shorten(&mut result);
        fields.insert("result".to_owned(), result);
    }
    fields
}

/// Returns a part with shortened texts.
fn shortened(part: Part) -> Part {
    let short = |text: String| bounded(text.into());
    match part {
        Part::Prompt { text } => Part::Prompt { text: short(text) },
        Part::Mail { from, summary, frame, text } => {
            Part::Mail { from: short(from), summary: summary.map(short), frame, text: short(text) }
        }
        Part::Notice { text } => Part::Notice { text: short(text) },
        Part::Text { text } => Part::Text { text: short(text) },
        Part::Thinking { text } => Part::Thinking { text: short(text) },
        Part::Call(mut call) => {
            shorten(&mut call.input);
            if let Some(result) = &mut call.result {
                result.text = short(std::mem::take(&mut result.text));
            }
            Part::Call(call)
        }
        Part::Summary { text, briefing } => {
            Part::Summary { text: short(text), briefing: briefing.map(short) }
        }
        Part::Event { text } => Part::Event { text: short(text) },
        Part::Ended { status, reason } => Part::Ended { status, reason: reason.map(short) },
    }
}

/// Shortens all texts in a value.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => *text = bounded(std::mem::take(text).into()),
        Value::Array(all) => all.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
