//! What an agent was told, as texts that a script can ask about: its mail and prompts, and the results of its tools.

use std::collections::HashMap;

use serde_json::Value;

use super::replay::INTERRUPTED;
use crate::{Block, Message, Role};

/// One text.
#[derive(Debug)]
pub(super) struct Told {
    /// Where the message that holds it stands in the conversation.
    pub(super) at: usize,
    /// The tool whose result it is; none for a message.
    pub(super) tool: Option<String>,
    /// The text; inside mail, entities are read as what they stand for.
    pub(super) text: String,
}

/// Lists all an agent was told, in order. Results that a crash interrupted count as never given.
pub(super) fn listen(messages: &[Message]) -> Vec<Told> {
    let mut tools: HashMap<&str, &str> = HashMap::new();
    let mut told = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        for block in &message.blocks {
            match (message.role, block) {
                (Role::Assistant, Block::ToolUse { id, name, .. }) => {
                    tools.insert(id, name);
                }
                (Role::User, Block::Text { text, .. }) => {
                    told.push(Told {
                        at,
                        tool: None,
                        text: readable(text),
                    });
                }
                (
                    Role::User,
                    Block::ToolResult {
                        tool_use_id,
                        content: Some(content),
                        ..
                    },
                ) => {
                    let tool = tools.get(tool_use_id.as_str()).copied().unwrap_or_default();
                    let text = content.text();
                    if !text.contains(INTERRUPTED) {
                        told.push(Told {
                            at,
                            tool: Some(tool.to_owned()),
                            text,
                        });
                    }
                }
                (Role::Assistant | Role::User, _) => {}
            }
        }
    }
    told
}

impl Told {
    /// Finds a value in the JSON that the text is, or that a piece of mail in it is; the last one counts.
    pub(super) fn pointer(&self, pointer: &str) -> Option<Value> {
        let find = |text: &str| {
            let json: Value = serde_json::from_str(text.trim()).ok()?;
            json.pointer(pointer).cloned()
        };
        let mail = self
            .text
            .split("<teammate-message")
            .skip(1)
            .filter_map(|piece| {
                let (_, body) = piece.split_once(">\n")?;
                let (body, _) = body.rsplit_once("</teammate-message>")?;
                find(body)
            });
        mail.last().or_else(|| find(&self.text))
    }
}

/// Undoes the escaping of mail, so that a script is written with the characters that were sent.
fn readable(text: &str) -> String {
    if !text.contains("<teammate-message") {
        return text.to_owned();
    }
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ];
    entities
        .iter()
        .fold(text.to_owned(), |text, (entity, plain)| {
            text.replace(entity, plain)
        })
}
