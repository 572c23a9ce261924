//! Rewrites a conversation as plain text, for a call that offers no tools.
//!
//! Some servers refuse a request with tool calls and results if it does not define the tools. So in
//! a request without tools, plain text describes the calls and the results. Thoughts are left out,
//! because they belong to the tool calls.

use std::borrow::Cow;

use crate::conversation::input_for_wire;
use crate::{Block, Message, Request, ToolContent};

/// Returns the messages of a request in the form in which they are sent. If the request offers
/// tools, they are unchanged. Otherwise tool calls and results are rewritten as plain text.
pub(crate) fn sendable(request: &Request) -> Cow<'_, [Message]> {
    if request.tools.is_empty() {
        Cow::Owned(request.messages.iter().map(in_words).collect())
    } else {
        Cow::Borrowed(&request.messages)
    }
}

fn in_words(message: &Message) -> Message {
    Message { role: message.role, blocks: message.blocks.iter().filter_map(told).collect() }
}

fn told(block: &Block) -> Option<Block> {
    match block {
        Block::ToolUse { name, input, .. } => {
            Some(Block::text(format!("[called the tool {name} with {}]", input_for_wire(input))))
        }
        Block::ToolResult { content, is_error, .. } => {
            let text = content.as_ref().map(ToolContent::text).unwrap_or_default();
            let head = if *is_error { "the tool failed" } else { "the tool's result" };
            Some(Block::text(format!("[{head}]\n{text}{}", pictures(content.as_ref()))))
        }
        Block::Thinking { .. } | Block::RedactedThinking { .. } => None,
        Block::Text { .. } | Block::Image { .. } | Block::Other(_) => Some(block.clone()),
    }
}

/// Returns a note that says how many pictures a result had, because text cannot contain pictures.
fn pictures(content: Option<&ToolContent>) -> String {
    let Some(ToolContent::Blocks(blocks)) = content else { return String::new() };
    match blocks.iter().filter(|block| matches!(block, Block::Image { .. })).count() {
        0 => String::new(),
        1 => "\n[a picture]".to_owned(),
        many => format!("\n[{many} pictures]"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{AgentTag, Extra, ToolSpec};

    fn request(tools: Vec<ToolSpec>) -> Request {
        let picture =
            Block::Image { source: json!({"type": "url", "url": "x"}), extra: Extra::new() };
        let result = Block::ToolResult {
            tool_use_id: "a".to_owned(),
            content: Some(ToolContent::Blocks(vec![Block::text("seen"), picture.clone()])),
            is_error: false,
            extra: Extra::new(),
        };
        Request {
            agent: AgentTag { name: "bob".to_owned(), team: None },
            system: Vec::new(),
            messages: Arc::new(vec![
                Message::user(vec![Block::text("look"), picture]),
                Message::assistant(vec![
                    Block::thinking("hm", "signed"),
                    Block::tool_use("a", "Read", json!({"file_path": "f"})),
                    Block::tool_use("b", "Bash", json!("{\"comm")),
                ]),
                Message::user(vec![
                    result,
                    Block::tool_error("b", "no JSON"),
                    Block::text("go on"),
                ]),
            ]),
            tools: tools.into(),
            max_output_tokens: 100,
        }
    }

    #[test]
    fn without_tools_calls_and_results_are_told_in_words_and_thoughts_stay_home() {
        let request = request(Vec::new());
        let sent = sendable(&request);
        let texts = |at: usize| -> Vec<&str> {
            sent[at].blocks.iter().filter_map(Block::as_text).collect()
        };
        assert_eq!(sent[0], request.messages[0]);
        assert_eq!(
            texts(1),
            [
                r#"[called the tool Read with {"file_path":"f"}]"#,
                r#"[called the tool Bash with {"invalid_input":"{\"comm"}]"#,
            ]
        );
        assert_eq!(
            texts(2),
            ["[the tool's result]\nseen\n[a picture]", "[the tool failed]\nno JSON", "go on"]
        );
    }

    #[test]
    fn with_tools_nothing_changes() {
        let tool = ToolSpec {
            name: "Read".to_owned(),
            description: String::new(),
            input_schema: json!({}),
        };
        let request = request(vec![tool]);
        assert_eq!(sendable(&request), request.messages.as_slice());
    }
}
