//! Adds the lines of a conversation file of the reference client. The format is not public. The forms
//! are those that were recorded with the client's versions 2.1.39 and 2.1.330. Source:
//! `docs/interop.md`, "Conversations".

use pitcrew_model::Block;
use pitcrew_protocol::Injected;
use serde::Deserialize;
use serde_json::Value;

use super::{Conversation, Part, is_of_messages, mail, without_reminder_tags};

/// One line of the file. Unknown fields are ignored.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    is_sidechain: bool,
    /// Whether the client itself wrote the entry, for its model.
    #[serde(default)]
    is_meta: bool,
    #[serde(default)]
    is_compact_summary: bool,
    message: Option<Message>,
    attachment: Option<Attachment>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Value,
}

#[derive(Deserialize)]
struct Attachment {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    prompt: Value,
}

/// The tag around a message that came through the client's socket.
const SOCKET_TAG: &str = "cross-session-message";

impl Conversation {
    pub(super) fn add_client_line(&mut self, number: usize, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        let line: Line = match serde_json::from_str(text) {
            Ok(line) => line,
            Err(_) => return self.unread_lines.push(number),
        };
        // The entries of a subagent are another conversation.
        if line.is_sidechain {
            return;
        }
        match (line.kind.as_str(), line.message, line.attachment) {
            ("user", Some(message), _) => {
                let says = Said { is_meta: line.is_meta, is_summary: line.is_compact_summary };
                self.user_content(&message.content, says);
            }
            ("assistant", Some(message), _) => {
                blocks_of(message.content).iter().for_each(|block| self.answer(block))
            }
            ("attachment", _, Some(attachment)) if attachment.kind == "queued_command" => {
                let says = Said { is_meta: false, is_summary: false };
                self.user_content(&attachment.prompt, says);
            }
            _ => {}
        }
    }

    fn user_content(&mut self, content: &Value, says: Said) {
        if let Value::String(text) = content {
            return self.user_text(text, says);
        }
        for block in blocks_of(content.clone()) {
            match block {
                Block::Text { text, .. } => self.user_text(&text, says),
                Block::ToolResult { tool_use_id, content, is_error, .. } => {
                    let text = content.map(|content| content.text()).unwrap_or_default();
                    self.result(&tool_use_id, text, is_error);
                }
                Block::Thinking { .. }
                | Block::RedactedThinking { .. }
                | Block::ToolUse { .. }
                | Block::Image { .. }
                | Block::Other(_) => {}
            }
        }
    }

    fn user_text(&mut self, text: &str, says: Said) {
        let from_socket = socket_messages(text);
        if says.is_summary {
            self.parts.push(Part::Summary { text: text.to_owned(), briefing: None });
        } else if !from_socket.is_empty() {
            self.parts.extend(from_socket.into_iter().map(mail));
        } else if says.is_meta || is_of_messages(text) || is_reminder(text) {
            self.tell(text);
        } else if !text.trim().is_empty() {
            self.parts.push(Part::Prompt { text: text.to_owned() });
        }
    }
}

/// What the client records about a text beside the text itself.
#[derive(Clone, Copy)]
struct Said {
    is_meta: bool,
    is_summary: bool,
}

fn is_reminder(text: &str) -> bool {
    without_reminder_tags(text) != text.trim()
}

/// Returns the blocks of a content value. Blocks of unknown forms are kept as they are.
fn blocks_of(content: Value) -> Vec<Block> {
    match content {
        Value::String(text) => vec![Block::text(text)],
        Value::Array(blocks) => {
            blocks.into_iter().filter_map(|block| serde_json::from_value(block).ok()).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

/// Finds the messages that came through the client's socket.
fn socket_messages(text: &str) -> Vec<Injected> {
    let (open, close) = (format!("<{SOCKET_TAG} "), format!("\n</{SOCKET_TAG}>"));
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(&open) {
        let parts = after.split_once(">\n").and_then(|(head, body)| {
            let (text, after) = body.split_once(&close)?;
            let from = head.split_once("from=\"")?.1.split_once('"')?.0;
            let (from, text) = (from.to_owned(), text.to_owned());
            Some((Injected { from, color: None, summary: None, text }, after))
        });
        rest = match parts {
            Some((message, after)) => {
                found.push(message);
                after
            }
            None => after,
        };
    }
    found
}
