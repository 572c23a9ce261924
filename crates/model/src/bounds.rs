//! The bounds of one answer. A server, or the model behind it, decides how much it sends.
//!
//! Without bounds, an answer without an end fills the memory, and an answer with hundreds of
//! thousands of tool calls keeps its agent busy for hours. Real answers are far below each bound.
//! An answer beyond a bound ends its call with [`ModelError::TooMuch`]. The call is not repeated,
//! because the model would most likely do the same again.

use serde_json::Value;

use crate::{Block, ModelError, Response};

/// Most bytes of one server-sent event. The largest real events contain the whole input of a tool.
pub const EVENT_BYTES: usize = 8 * 1024 * 1024;

/// Most bytes of one content block: a text, the thoughts, or the input of a tool call.
pub const BLOCK_BYTES: usize = 8 * 1024 * 1024;

/// Most bytes of all content blocks of an answer. The longest answers of today's models have
/// 128,000 tokens, which is about half a megabyte.
pub const ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// Most bytes of the stream of one answer. A server that sends each token in an event of its own
/// sends about 300 bytes for each token.
pub const STREAM_BYTES: usize = 256 * 1024 * 1024;

/// Most content blocks of an answer.
pub const BLOCKS: usize = 2000;

/// Most tool calls of an answer. Real answers have a few dozen.
pub const TOOL_CALLS: usize = 500;

/// Most levels of objects and arrays in a content block. A transcript nests the block more deeply,
/// and must still be readable. JSON readers accept 128 levels.
pub const BLOCK_DEPTH: usize = 64;

/// Most bytes that are read of an answer that is no stream: an error, or a list of models.
pub const BODY_BYTES: usize = 1024 * 1024;

/// Counts what a server has sent for one answer.
#[derive(Debug)]
pub(crate) struct Received {
    vendor: &'static str,
    bytes: usize,
    blocks: usize,
    calls: usize,
}

impl Received {
    pub(crate) fn new(vendor: &'static str) -> Self {
        Self { vendor, bytes: 0, blocks: 0, calls: 0 }
    }

    /// Counts a new content block.
    pub(crate) fn add_block(&mut self) -> Result<(), ModelError> {
        self.blocks = self.blocks.saturating_add(1);
        within(self.vendor, self.blocks, BLOCKS, "content blocks in one answer")
    }

    /// Counts a new tool call.
    pub(crate) fn add_call(&mut self) -> Result<(), ModelError> {
        self.calls = self.calls.saturating_add(1);
        within(self.vendor, self.calls, TOOL_CALLS, "tool calls in one answer")
    }

    /// Counts bytes that were received for a content block. `block_bytes` is the number of bytes
    /// that the block had before.
    pub(crate) fn add_bytes(
        &mut self,
        block_bytes: &mut usize,
        bytes: usize,
    ) -> Result<(), ModelError> {
        *block_bytes = block_bytes.saturating_add(bytes);
        self.bytes = self.bytes.saturating_add(bytes);
        within(self.vendor, *block_bytes, BLOCK_BYTES, "bytes in one content block")?;
        within(self.vendor, self.bytes, ANSWER_BYTES, "bytes in one answer")
    }
}

/// Checks one bound. `what` names the counted things, as in "500 tool calls in one answer".
pub(crate) fn within(
    vendor: &'static str,
    count: usize,
    most: usize,
    what: &'static str,
) -> Result<(), ModelError> {
    if count > most { Err(ModelError::TooMuch { vendor, most, what }) } else { Ok(()) }
}

/// Checks the blocks of a complete answer: their number, that of the tool calls, and their depth.
pub(crate) fn check(vendor: &'static str, response: &Response) -> Result<(), ModelError> {
    let calls = response.blocks.iter().filter(|block| matches!(block, Block::ToolUse { .. }));
    within(vendor, response.blocks.len(), BLOCKS, "content blocks in one answer")?;
    within(vendor, calls.count(), TOOL_CALLS, "tool calls in one answer")
}

/// Checks the depth of a content block that the server sent as JSON.
pub(crate) fn check_depth(vendor: &'static str, block: &Value) -> Result<(), ModelError> {
    within(vendor, depth(block), BLOCK_DEPTH, "levels of objects and arrays in one content block")
}

/// Returns the number of objects and arrays that are inside each other in a JSON value.
pub(crate) fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(list) => list.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return 0,
    };
    inner.unwrap_or_default().saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_depth_is_the_number_of_values_inside_each_other() {
        let cases = [(json!(7), 0), (json!([]), 1), (json!({"a": [1, {"b": 2}], "c": {}}), 3)];
        for (value, levels) in cases {
            assert_eq!(depth(&value), levels, "{value}");
        }
    }
}
