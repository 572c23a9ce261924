//! A conversation in the form in which transcripts store it: messages that contain content blocks,
//! as in the Messages API.
//!
//! Unknown data from a vendor is kept and is written back unchanged. It is stored as
//! [`Block::Other`] or in the extra fields of a block. Cache marks are not part of a conversation.
//! The Anthropic module adds them to each request.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::bounds::{BLOCK_DEPTH, depth};

/// The unknown fields of a block. They are kept so that the block can be sent back unchanged.
pub type Extra = Map<String, Value>;

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user's side: texts of the person, messages of the team, or results of tools.
    User,
    /// The language model.
    Assistant,
}

/// One message: a role and content blocks, written as `{"role": ..., "content": [...]}`.
///
/// If `content` is a plain string, it is read as one text block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The author of the message.
    pub role: Role,
    /// The content blocks of the message, in order.
    #[serde(rename = "content", deserialize_with = "blocks_or_string")]
    pub blocks: Vec<Block>,
}

impl Message {
    /// Builds a user message.
    pub fn user(blocks: Vec<Block>) -> Self {
        Self { role: Role::User, blocks }
    }

    /// Builds an assistant message.
    pub fn assistant(blocks: Vec<Block>) -> Self {
        Self { role: Role::Assistant, blocks }
    }
}

/// One content block. Its field `type` names the variant, as in the Messages API.
///
/// If the type or the form of a block is unknown, the whole block becomes [`Block::Other`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Plain text.
    Text {
        /// The text of the block.
        text: String,
        /// Unknown fields, such as citations.
        #[serde(flatten)]
        extra: Extra,
    },
    /// A thought of the model. The conversation keeps it unchanged, with its signature. A vendor
    /// that signs thoughts gets only signed thoughts back. A vendor that does not sign thoughts
    /// gets only unsigned thoughts back.
    Thinking {
        /// The text of the thought. It is empty if the vendor hides the text.
        thinking: String,
        /// The vendor's signature. It is empty if the vendor does not sign thoughts.
        #[serde(default)]
        signature: String,
        /// Unknown fields of the block.
        #[serde(flatten)]
        extra: Extra,
    },
    /// A thought that the vendor encrypted. It is sent back unchanged.
    RedactedThinking {
        /// The encrypted thought, which only the vendor can read.
        data: String,
        /// Unknown fields of the block.
        #[serde(flatten)]
        extra: Extra,
    },
    /// A tool call.
    ToolUse {
        /// The id of the call. The result of the call has the same id.
        id: String,
        /// The name of the tool.
        name: String,
        /// The arguments of the call. Normally they are a JSON object. If the model wrote invalid
        /// JSON, this is the model's text as a string (see [`Block::invalid_input`]).
        input: Value,
        /// Unknown fields of the block.
        #[serde(flatten)]
        extra: Extra,
    },
    /// The result of a tool call.
    ToolResult {
        /// The id of the tool call to which this result belongs.
        tool_use_id: String,
        /// The content of the result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<ToolContent>,
        /// True if the tool failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        /// Unknown fields of the block.
        #[serde(flatten)]
        extra: Extra,
    },
    /// A picture.
    Image {
        /// The source of the picture, in the vendor's form.
        source: Value,
        /// Unknown fields of the block.
        #[serde(flatten)]
        extra: Extra,
    },
    /// Any other block. Its JSON is kept unchanged.
    #[serde(untagged)]
    Other(Value),
}

/// The content of a tool's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ToolContent {
    /// Plain text.
    Text(String),
    /// Blocks of text and pictures.
    Blocks(Vec<Block>),
}

impl ToolContent {
    /// Returns the text of the content. If the content has several blocks, their texts are joined
    /// with line breaks.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => {
                let texts: Vec<&str> = blocks.iter().filter_map(Block::as_text).collect();
                texts.join("\n")
            }
        }
    }
}

impl Block {
    /// Builds a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), extra: Extra::new() }
    }

    /// Builds a thinking block.
    pub fn thinking(thinking: impl Into<String>, signature: impl Into<String>) -> Self {
        Self::Thinking {
            thinking: thinking.into(),
            signature: signature.into(),
            extra: Extra::new(),
        }
    }

    /// Builds a tool call.
    pub fn tool_use(id: impl Into<String>, name: impl Into<String>, input: Value) -> Self {
        Self::ToolUse { id: id.into(), name: name.into(), input, extra: Extra::new() }
    }

    /// Builds the result of a tool that succeeded.
    pub fn tool_result(tool_use_id: impl Into<String>, text: impl Into<String>) -> Self {
        Self::ToolResult {
            tool_use_id: tool_use_id.into(),
            content: Some(ToolContent::Text(text.into())),
            is_error: false,
            extra: Extra::new(),
        }
    }

    /// Builds the result of a tool that failed.
    pub fn tool_error(tool_use_id: impl Into<String>, text: impl Into<String>) -> Self {
        Self::ToolResult {
            tool_use_id: tool_use_id.into(),
            content: Some(ToolContent::Text(text.into())),
            is_error: true,
            extra: Extra::new(),
        }
    }

    /// Returns the text of a text block, or `None` for any other block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            Self::Thinking { .. }
            | Self::RedactedThinking { .. }
            | Self::ToolUse { .. }
            | Self::ToolResult { .. }
            | Self::Image { .. }
            | Self::Other(_) => None,
        }
    }

    /// Returns the arguments of a tool call as the model wrote them, if they are not a JSON object.
    /// Otherwise returns `None`.
    ///
    /// A call with such arguments must never be run. Answer it with an error result, so that the
    /// model can try again. The call may stay in the conversation. When the call is sent to a
    /// vendor, its arguments become `{"invalid_input": "..."}`, because vendors accept only
    /// objects.
    pub fn invalid_input(&self) -> Option<&str> {
        match self {
            Self::ToolUse { input: Value::String(raw), .. } => Some(raw),
            Self::ToolUse { .. }
            | Self::Text { .. }
            | Self::Thinking { .. }
            | Self::RedactedThinking { .. }
            | Self::ToolResult { .. }
            | Self::Image { .. }
            | Self::Other(_) => None,
        }
    }
}

/// Parses the arguments of a tool call from the model's text. Empty text becomes `{}`. A JSON
/// object of less than [`BLOCK_DEPTH`] levels is parsed. Anything else is kept as a string.
pub(crate) fn parse_tool_input(raw: &str) -> Value {
    if raw.trim().is_empty() {
        return Value::Object(Map::new());
    }
    match serde_json::from_str(raw) {
        Ok(input @ Value::Object(_)) if depth(&input) < BLOCK_DEPTH => input,
        // Keep invalid arguments as text, so that the turn does not fail and the model can correct
        // its call. Arguments that are nested too deeply could not be read back from a transcript.
        Ok(_) | Err(_) => Value::String(raw.to_owned()),
    }
}

/// Returns the arguments of a tool call in the form in which they are sent to a vendor. The result
/// is always an object.
pub(crate) fn input_for_wire(input: &Value) -> Value {
    if input.is_object() {
        return input.clone();
    }
    serde_json::json!({ "invalid_input": input })
}

fn blocks_or_string<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Block>, D::Error> {
    match ToolContent::deserialize(deserializer)? {
        ToolContent::Text(text) => Ok(vec![Block::text(text)]),
        ToolContent::Blocks(blocks) => Ok(blocks),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check_round_trip(block: Value) -> Block {
        let read: Block = serde_json::from_value(block.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), block);
        read
    }

    #[test]
    fn every_known_block_comes_back_as_it_was_with_its_unknown_fields() {
        let known = [
            json!({"type": "text", "text": "hi", "citations": [{"a": 1}]}),
            json!({"type": "thinking", "thinking": "hm", "signature": "c2ln", "new": 1.5}),
            json!({"type": "redacted_thinking", "data": "x"}),
            json!({"type": "tool_use", "id": "t", "name": "Bash", "input": {"z": 1, "a": 2}, "caller": {"type": "direct"}}),
            json!({"type": "tool_result", "tool_use_id": "t", "content": "ok"}),
            json!({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "ok"}], "is_error": true}),
            json!({"type": "image", "source": {"type": "url", "url": "x"}}),
        ];
        for block in known {
            assert!(!matches!(check_round_trip(block), Block::Other(_)));
        }
    }

    #[test]
    fn an_unknown_block_is_kept_whole() {
        let block = check_round_trip(json!({"type": "hologram", "beams": [1, 2]}));
        assert!(matches!(block, Block::Other(_)));
    }

    #[test]
    fn a_known_block_in_an_unknown_shape_is_kept_whole() {
        let block = check_round_trip(json!({"type": "tool_use", "id": 7}));
        assert!(matches!(block, Block::Other(_)));
    }

    #[test]
    fn a_content_that_is_a_string_is_one_text_block() {
        let message: Message =
            serde_json::from_value(json!({"role": "user", "content": "hi"})).unwrap();
        assert_eq!(message, Message::user(vec![Block::text("hi")]));
    }

    #[test]
    fn tool_input_that_is_no_object_is_kept_as_text_and_sent_as_an_object() {
        assert_eq!(parse_tool_input(" "), json!({}));
        assert_eq!(parse_tool_input("{\"a\":1}"), json!({"a": 1}));
        for raw in ["{\"a\":", "[1]", "7"] {
            let call = Block::tool_use("t", "Bash", parse_tool_input(raw));
            assert_eq!(call.invalid_input(), Some(raw));
            assert_eq!(input_for_wire(&json!(raw)), json!({"invalid_input": raw}));
        }
    }
}
