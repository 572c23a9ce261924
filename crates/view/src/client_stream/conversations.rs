//! The conversations of the agents, as far as a stream tells them. The stream of a client has the
//! turns of the lead and of its subagents. Of a teammate it has the prompt and the mail.
//!
//! The conversations are bounded: the oldest parts leave first, and long texts are shortened.

use std::borrow::Cow;
use std::collections::HashMap;

use pitcrew_protocol::AgentName;
use serde_json::Value;

use super::json::fields;
use super::line::Block;
use super::raw::Raw;
use crate::conversation::{Conversation, Part};
use crate::state::{Mail, bounded, bounded_to};

/// Maximum size of one conversation, in bytes.
const CONVERSATION_BYTES_MOST: usize = 2 << 20;

/// Maximum size of all conversations, in bytes.
const BYTES_MOST: usize = 32 << 20;

/// Maximum length of a text, in bytes. A longer input of a call is shortened field by field.
const TEXT_BYTES_MOST: usize = 64 << 10;

/// Maximum number of fields that are kept of a long input.
const FIELDS_MOST: usize = 20;

/// The conversations by agents.
#[derive(Debug, Default)]
pub(super) struct Conversations {
    by_agent: HashMap<AgentName, Kept>,
    bytes: usize,
}

/// The latest parts of one conversation.
#[derive(Debug, Default)]
struct Kept {
    conversation: Conversation,
    bytes: usize,
    /// The number of changes so far.
    changes: u64,
}

fields! {
    /// A block of a tool's result.
    struct ResultBlock<'a> {
        kind: Raw<'a> = "type",
        text: Raw<'a> = "text",
    }
}

impl Conversations {
    /// Returns the conversation of an agent, and the number of its changes so far.
    pub(super) fn of(&self, agent: &AgentName) -> Option<(&Conversation, u64)> {
        self.by_agent.get(agent).map(|kept| (&kept.conversation, kept.changes))
    }

    /// Adds a block of a model's answer.
    pub(super) fn answered(&mut self, agent: &AgentName, block: &Block<'_>) {
        if block.kind.is("text") {
            self.said(agent, block.text);
        } else if block.kind.is("thinking") {
            let Some(text) = block.thinking.text().filter(|text| !text.trim().is_empty()) else {
                return;
            };
            self.push(agent, Part::Thinking { text: kept_of(text) });
        } else if block.kind.is("tool_use") {
            self.called(agent, block.id, block.name, block.input.json);
        }
    }

    /// Adds a text of a model.
    pub(super) fn said(&mut self, agent: &AgentName, text: Raw<'_>) {
        if let Some(text) = text.text().filter(|text| !text.trim().is_empty()) {
            self.push(agent, Part::Text { text: kept_of(text) });
        }
    }

    /// Adds a tool call. `input` is its input as JSON.
    pub(super) fn called(
        &mut self,
        agent: &AgentName,
        id: Raw<'_>,
        tool: Raw<'_>,
        input: Option<&str>,
    ) {
        let (Some(id), Some(tool)) = (id.id(), tool.id()) else { return };
        let input = input.map_or(Value::Null, input_of);
        let size = size_of(&input) + id.len() + tool.len();
        self.change(agent, size, |conversation| conversation.call(&id, &tool, &input));
    }

    /// Adds a block with the result of a call.
    pub(super) fn answered_call(&mut self, agent: &AgentName, result: &Block<'_>, is_error: bool) {
        let text = kept_of(text_of(result.content));
        self.call_ended(agent, result.tool_use_id, text, is_error);
    }

    /// Adds the result of a call.
    pub(super) fn call_ended(
        &mut self,
        agent: &AgentName,
        call: Raw<'_>,
        text: String,
        is_error: bool,
    ) {
        let Some(id) = call.id() else { return };
        let size = text.len();
        self.change(agent, size, |conversation| conversation.result(&id, text, is_error));
    }

    /// Adds a text that was put into the conversation of an agent.
    pub(super) fn told(&mut self, agent: &AgentName, text: Raw<'_>) {
        if let Some(text) = text.text() {
            let text = kept_of(text);
            self.change(agent, text.len(), |conversation| conversation.tell(&text));
        }
    }

    /// Adds a message to the conversation of an agent that sent it or got it.
    pub(super) fn mailed(&mut self, agent: &AgentName, mail: &Mail) {
        let part = match mail.kind.as_str() {
            "message" | "broadcast" => Part::Mail {
                from: mail.from.clone(),
                summary: mail.summary.clone(),
                frame: None,
                text: mail.text.clone(),
            },
            _ => Part::Event { text: mail.in_words() },
        };
        self.push(agent, part);
    }

    /// Adds the prompt with which an agent was started by another one.
    pub(super) fn started(&mut self, agent: &AgentName, by: &AgentName, prompt: &str) {
        let (from, text) = (by.to_string(), bounded(prompt.into()));
        self.push(agent, Part::Mail { from, summary: None, frame: None, text });
    }

    /// Adds an event in words.
    pub(super) fn happened(&mut self, agent: &AgentName, text: String) {
        self.push(agent, Part::Event { text });
    }

    fn push(&mut self, agent: &AgentName, part: Part) {
        self.change(agent, part.size(), |conversation| conversation.parts.push(part));
    }

    /// Changes a conversation, and removes the oldest parts if there is no room. `size` is the size
    /// of what is added.
    fn change(&mut self, agent: &AgentName, size: usize, change: impl FnOnce(&mut Conversation)) {
        if !self.by_agent.contains_key(agent) {
            self.by_agent.insert(agent.clone(), Kept::default());
        }
        let Some(kept) = self.by_agent.get_mut(agent) else { return };
        change(&mut kept.conversation);
        let added = size + Part::OVERHEAD_BYTES;
        kept.bytes += added;
        kept.changes += 1;
        self.bytes += added;
        if kept.bytes > CONVERSATION_BYTES_MOST {
            self.bytes -= kept.forget_half();
        }
        while self.bytes > BYTES_MOST {
            let Some(longest) = self.by_agent.values_mut().max_by_key(|kept| kept.bytes) else {
                return;
            };
            self.bytes -= longest.forget_half();
        }
    }
}

impl Kept {
    /// Removes the older half of the parts. Returns the number of bytes that are free now.
    fn forget_half(&mut self) -> usize {
        let before = self.bytes;
        self.conversation.forget_oldest(self.conversation.parts.len().div_ceil(2));
        let sizes = self.conversation.parts.iter().map(|part| part.size() + Part::OVERHEAD_BYTES);
        self.bytes = sizes.sum::<usize>().min(before);
        self.changes += 1;
        before - self.bytes
    }
}

fn kept_of(text: Cow<'_, str>) -> String {
    bounded_to(text, TEXT_BYTES_MOST)
}

/// Returns the text of a tool's result.
fn text_of(content: Raw<'_>) -> Cow<'_, str> {
    if let Some(text) = content.text() {
        return text;
    }
    let blocks: Vec<ResultBlock<'_>> = content.objects();
    let texts = blocks.iter().map(|block| match block.text.text() {
        Some(text) => text,
        None => format!("[{}]", block.kind.id().unwrap_or(Cow::Borrowed("empty"))).into(),
    });
    texts.collect::<Vec<_>>().join("\n").into()
}

/// Reads the input of a call. Only the beginning is kept of a long one.
fn input_of(json: &str) -> Value {
    let input = serde_json::from_str(json).unwrap_or_default();
    let Value::Object(fields) = input else { return input };
    if json.len() <= TEXT_BYTES_MOST {
        return Value::Object(fields);
    }
    let short = fields.into_iter().take(FIELDS_MOST).map(|(name, value)| {
        let value = match value {
            Value::String(text) => bounded(text.into()),
            value => bounded(value.to_string().into()),
        };
        (bounded(name.into()), Value::String(value))
    });
    Value::Object(short.collect())
}

/// Returns the number of bytes of the texts in a value, and a number for each entry.
pub(crate) fn size_of(value: &Value) -> usize {
    const ENTRY_BYTES: usize = 32;
    ENTRY_BYTES
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(entries) => entries.iter().map(size_of).sum(),
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| name.len() + size_of(value)).sum()
            }
        }
}
