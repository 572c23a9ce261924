//! Writes a request in the form of the Messages API.
//!
//! Content blocks are sent as they are stored, except where the API would refuse them. Blank texts
//! and thoughts without a signature are left out. The arguments of a tool call become an object.
//! Adjacent messages with the same role are merged.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::conversation::input_for_wire;
use crate::toolless::sendable;
use crate::{Block, Message, Request, Role, ToolContent, ToolSpec};

/// The JSON body of a request. It refers to the data of the request without copying them, where
/// possible.
#[derive(Serialize)]
pub(super) struct RequestBody<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    messages: Vec<SentMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<SystemText<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
}

#[derive(Serialize)]
struct SentMessage<'a> {
    role: Role,
    content: Vec<SentBlock<'a>>,
}

/// A content block in the request body.
#[derive(Serialize)]
#[serde(untagged)]
enum SentBlock<'a> {
    /// A block exactly as it is in the conversation.
    Kept(Cow<'a, Block>),
    /// The JSON of a block, with a cache mark added.
    Marked(Value),
}

#[derive(Serialize)]
struct SystemText<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheMark>,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheMark>,
}

/// A mark that asks the API to cache the request from its beginning up to this mark.
#[derive(Serialize)]
struct CacheMark {
    #[serde(rename = "type")]
    kind: &'static str,
}

const EPHEMERAL: CacheMark = CacheMark { kind: "ephemeral" };

/// Builds the body of a request and calls `write` with it.
///
/// The body has three cache marks: after the tools, after the system prompt, and after the last
/// user message.
pub(super) fn with_body<T>(
    model: &str,
    request: &Request,
    write: impl FnOnce(&RequestBody<'_>) -> T,
) -> T {
    let sendable = sendable(request);
    let texts = request.system.iter().filter(|text| !text.trim().is_empty());
    let mut system: Vec<SystemText<'_>> =
        texts.map(|text| SystemText { kind: "text", text, cache_control: None }).collect();
    if let Some(last) = system.last_mut() {
        last.cache_control = Some(EPHEMERAL);
    }
    let mut tools: Vec<Tool<'_>> = request.tools.iter().map(tool).collect();
    if let Some(last) = tools.last_mut() {
        last.cache_control = Some(EPHEMERAL);
    }
    let messages = messages(&sendable);
    write(&RequestBody {
        model,
        max_tokens: request.max_output_tokens,
        stream: true,
        messages,
        system,
        tools,
    })
}

fn tool(tool: &ToolSpec) -> Tool<'_> {
    Tool {
        name: &tool.name,
        description: &tool.description,
        input_schema: &tool.input_schema,
        cache_control: None,
    }
}

fn messages(messages: &[Message]) -> Vec<SentMessage<'_>> {
    let mut merged: Vec<SentMessage<'_>> = Vec::with_capacity(messages.len());
    for message in messages {
        let blocks = message.blocks.iter().filter_map(block).map(SentBlock::Kept);
        let content: Vec<SentBlock<'_>> = blocks.collect();
        // If all blocks of a message were left out, the message is not sent.
        if content.is_empty() {
            continue;
        }
        match merged.last_mut() {
            // Two adjacent messages with the same role are sent as one message.
            Some(before) if before.role == message.role => before.content.extend(content),
            Some(_) | None => merged.push(SentMessage { role: message.role, content }),
        }
    }
    // Each call marks the last user message. So the next call finds everything up to this message
    // in the cache.
    let last_user = merged.iter_mut().rev().find(|message| message.role == Role::User);
    if let Some(last) = last_user {
        mark_last(&mut last.content);
    }
    merged
}

/// Returns the block in the form in which it is sent. Returns `None` if the API would refuse the
/// block.
fn block(block: &Block) -> Option<Cow<'_, Block>> {
    match block {
        Block::Text { text, .. } if text.trim().is_empty() => None,
        Block::Thinking { signature, .. } if signature.is_empty() => None,
        Block::ToolUse { id, name, input, extra } if !input.is_object() => {
            Some(Cow::Owned(Block::ToolUse {
                id: id.clone(),
                name: name.clone(),
                input: input_for_wire(input),
                extra: extra.clone(),
            }))
        }
        // The API also refuses blank texts inside the result of a tool. Leave them out.
        Block::ToolResult {
            tool_use_id,
            content: Some(ToolContent::Blocks(inner)),
            is_error,
            extra,
        } => {
            let inner = inner
                .iter()
                .filter(|block| block.as_text().is_none_or(|text| !text.trim().is_empty()));
            Some(Cow::Owned(Block::ToolResult {
                tool_use_id: tool_use_id.clone(),
                content: Some(ToolContent::Blocks(inner.cloned().collect())),
                is_error: *is_error,
                extra: extra.clone(),
            }))
        }
        Block::Text { .. }
        | Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::ToolUse { .. }
        | Block::ToolResult { .. }
        | Block::Image { .. }
        | Block::Other(_) => Some(Cow::Borrowed(block)),
    }
}

/// Adds a cache mark to the last block for which the API allows a mark. The API allows no mark on
/// thoughts. Unknown blocks get no mark either, because the API may refuse it.
fn mark_last(blocks: &mut [SentBlock<'_>]) {
    for block in blocks.iter_mut().rev() {
        let SentBlock::Kept(kept) = block else { continue };
        // Convert only the blocks that this loop tries to mark to JSON values. All other blocks of
        // the conversation are written to the request without this step.
        let Ok(Value::Object(mut value)) = serde_json::to_value(kept.as_ref()) else { continue };
        let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
        if matches!(kind, "text" | "image" | "tool_use" | "tool_result") {
            let mut mark = Map::new();
            mark.insert("type".to_owned(), json!(EPHEMERAL.kind));
            value.insert("cache_control".to_owned(), Value::Object(mark));
            *block = SentBlock::Marked(Value::Object(value));
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::AgentTag;

    fn body(model: &str, request: &Request) -> Value {
        with_body(model, request, |body| serde_json::to_value(body).unwrap())
    }

    fn sent(conversation: &[Message]) -> Value {
        serde_json::to_value(messages(conversation)).unwrap()
    }

    fn request(messages: Vec<Message>) -> Request {
        Request {
            agent: AgentTag { name: "lead".to_owned(), team: None },
            system: vec!["one".into(), "two".into()],
            messages: Arc::new(messages),
            tools: Arc::new([
                ToolSpec {
                    name: "A".to_owned(),
                    description: "a".to_owned(),
                    input_schema: json!({"type": "object"}),
                },
                ToolSpec {
                    name: "B".to_owned(),
                    description: "b".to_owned(),
                    input_schema: json!({"type": "object"}),
                },
            ]),
            max_output_tokens: 100,
        }
    }

    #[test]
    fn the_last_system_block_the_last_tool_and_the_last_user_message_are_marked_for_caching() {
        let body = body(
            "m",
            &request(vec![
                Message::user(vec![Block::text("go")]),
                Message::assistant(vec![Block::tool_use("t", "A", json!({}))]),
                Message::user(vec![
                    Block::tool_result("t", "ok"),
                    Block::Other(json!({"type": "new"})),
                ]),
            ]),
        );
        let mark = json!({"type": "ephemeral"});
        let marked: Vec<&str> = ["/system/1", "/tools/1", "/messages/2/content/0"]
            .into_iter()
            .filter(|at| body.pointer(at).unwrap().get("cache_control") == Some(&mark))
            .collect();
        assert_eq!(marked.len(), 3, "{body:#}");
        assert_eq!(body.to_string().matches("cache_control").count(), 3);
    }

    #[test]
    fn neighbours_of_one_role_share_a_message_and_what_is_blank_stays_home() {
        let sent = sent(&[
            Message::user(vec![Block::text("a")]),
            Message::user(vec![Block::text("b")]),
            Message::assistant(vec![Block::text("\n\n"), Block::thinking("unsigned", "")]),
            Message::user(vec![Block::text("c")]),
        ]);
        assert_eq!(sent.as_array().unwrap().len(), 1);
        let texts: Vec<_> =
            sent[0]["content"].as_array().unwrap().iter().map(|b| b["text"].clone()).collect();
        assert_eq!(texts, ["a", "b", "c"]);
    }

    #[test]
    fn thoughts_and_unknown_blocks_go_back_verbatim() {
        let said = [
            json!({"type": "thinking", "thinking": "", "signature": "c2ln"}),
            json!({"type": "redacted_thinking", "data": "x"}),
            json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": 1}}),
        ];
        let blocks = said.iter().map(|b| serde_json::from_value(b.clone()).unwrap()).collect();
        let sent = sent(&[Message::assistant(blocks)]);
        assert_eq!(sent[0]["content"], json!(said));
    }

    #[test]
    fn a_request_without_tools_names_no_call_and_no_result() {
        let conversation = vec![
            Message::user(vec![Block::text("go")]),
            Message::assistant(vec![Block::tool_use("t", "A", json!({}))]),
            Message::user(vec![Block::tool_result("t", "ok"), Block::text("sum up")]),
        ];
        let body = body("m", &Request { tools: Arc::new([]), ..request(conversation) }).to_string();
        assert!(!body.contains("tool_use") && !body.contains("tool_result"), "{body}");
        assert!(body.contains("called the tool A") && body.contains("sum up"), "{body}");
    }

    #[test]
    fn an_unreadable_tool_input_is_sent_as_an_object() {
        let sent = sent(&[Message::assistant(vec![Block::tool_use("t", "A", json!("{\"x"))])]);
        assert_eq!(sent[0]["content"][0]["input"], json!({"invalid_input": "{\"x"}));
    }
}
