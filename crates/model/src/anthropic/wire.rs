//! A request as the Messages API takes it.
//!
//! Blocks go out as they are kept, with three exceptions that the API would refuse: blank texts and thoughts without
//! a signature stay home, a tool's arguments become an object, and neighbours of one role share a message.

use serde_json::{Map, Value, json};

use crate::conversation::input_for_wire;
use crate::toolless::sendable;
use crate::{Block, Message, Request, Role, ToolContent, ToolSpec};

/// Writes the body of a request.
///
/// Three marks say what to cache: the tools, the system prompt, and the conversation up to the last user message.
pub(super) fn body(model: &str, request: &Request) -> Value {
    let mut body = json!({
        "model": model,
        "max_tokens": request.max_output_tokens,
        "stream": true,
        "messages": messages(&sendable(request)),
    });
    let mut system: Vec<Value> = request
        .system
        .iter()
        .filter(|text| !text.trim().is_empty())
        .map(|text| json!({"type": "text", "text": text}))
        .collect();
    mark_cached(system.last_mut());
    let mut tools: Vec<Value> = request.tools.iter().map(tool).collect();
    mark_cached(tools.last_mut());
    for (key, list) in [("system", system), ("tools", tools)] {
        if !list.is_empty()
            && let Some(body) = body.as_object_mut()
        {
            body.insert(key.to_owned(), Value::Array(list));
        }
    }
    body
}

fn tool(tool: &ToolSpec) -> Value {
    json!({
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.input_schema,
    })
}

fn messages(messages: &[Message]) -> Vec<Value> {
    let mut merged: Vec<(Role, Vec<Value>)> = Vec::new();
    for message in messages {
        let blocks: Vec<Value> = message.blocks.iter().filter_map(block).collect();
        if blocks.is_empty() {
            continue;
        }
        match merged.last_mut() {
            Some((role, before)) if *role == message.role => before.extend(blocks),
            Some(_) | None => merged.push((message.role, blocks)),
        }
    }
    let last_user = merged.iter_mut().rev().find(|(role, _)| *role == Role::User);
    if let Some((_, blocks)) = last_user {
        mark_cached(blocks.iter_mut().rev().find(|block| can_be_marked(block)));
    }
    merged.into_iter().map(|(role, blocks)| json!({"role": role, "content": blocks})).collect()
}

/// Writes a block, or nothing when the API refuses it and it says nothing.
fn block(block: &Block) -> Option<Value> {
    match block {
        Block::Text { text, .. } if text.trim().is_empty() => None,
        Block::Thinking { signature, .. } if signature.is_empty() => None,
        Block::ToolUse { id, name, input, extra } => {
            let call = Block::ToolUse {
                id: id.clone(),
                name: name.clone(),
                input: input_for_wire(input),
                extra: extra.clone(),
            };
            serde_json::to_value(call).ok()
        }
        Block::ToolResult { tool_use_id, content: Some(ToolContent::Blocks(inner)), is_error, extra } => {
            let inner = inner.iter().filter(|block| block.as_text().is_none_or(|text| !text.trim().is_empty()));
            let result = Block::ToolResult {
                tool_use_id: tool_use_id.clone(),
                content: Some(ToolContent::Blocks(inner.cloned().collect())),
                is_error: *is_error,
                extra: extra.clone(),
            };
            serde_json::to_value(result).ok()
        }
        Block::Text { .. }
        | Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::ToolResult { .. }
        | Block::Image { .. }
        | Block::Other(_) => serde_json::to_value(block).ok(),
    }
}

/// Tells whether a block may carry a mark; thoughts may not, and of unknown blocks nobody knows.
fn can_be_marked(block: &Value) -> bool {
    let kind = block.get("type").and_then(Value::as_str).unwrap_or_default();
    matches!(kind, "text" | "image" | "tool_use" | "tool_result")
}

fn mark_cached(block: Option<&mut Value>) {
    if let Some(block) = block.and_then(Value::as_object_mut) {
        let mut mark = Map::new();
        mark.insert("type".to_owned(), json!("ephemeral"));
        block.insert("cache_control".to_owned(), Value::Object(mark));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AgentTag;

    fn request(messages: Vec<Message>) -> Request {
        Request {
            agent: AgentTag { name: "lead".to_owned(), team: None },
            system: vec!["one".to_owned(), "two".to_owned()],
            messages,
            tools: vec![
                ToolSpec { name: "A".to_owned(), description: "a".to_owned(), input_schema: json!({"type": "object"}) },
                ToolSpec { name: "B".to_owned(), description: "b".to_owned(), input_schema: json!({"type": "object"}) },
            ],
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
                Message::user(vec![Block::tool_result("t", "ok"), Block::Other(json!({"type": "new"}))]),
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
        let sent = messages(&[
            Message::user(vec![Block::text("a")]),
            Message::user(vec![Block::text("b")]),
            Message::assistant(vec![Block::text("\n\n"), Block::thinking("unsigned", "")]),
            Message::user(vec![Block::text("c")]),
        ]);
        assert_eq!(sent.len(), 1);
        let texts: Vec<_> = sent[0]["content"].as_array().unwrap().iter().map(|b| b["text"].clone()).collect();
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
        let sent = messages(&[Message::assistant(blocks)]);
        assert_eq!(sent[0]["content"], json!(said));
    }

    #[test]
    fn a_request_without_tools_names_no_call_and_no_result() {
        let conversation = vec![
            Message::user(vec![Block::text("go")]),
            Message::assistant(vec![Block::tool_use("t", "A", json!({}))]),
            Message::user(vec![Block::tool_result("t", "ok"), Block::text("sum up")]),
        ];
        let body = body("m", &Request { tools: Vec::new(), ..request(conversation) }).to_string();
        assert!(!body.contains("tool_use") && !body.contains("tool_result"), "{body}");
        assert!(body.contains("called the tool A") && body.contains("sum up"), "{body}");
    }

    #[test]
    fn an_unreadable_tool_input_is_sent_as_an_object() {
        let sent = messages(&[Message::assistant(vec![Block::tool_use("t", "A", json!("{\"x"))])]);
        assert_eq!(sent[0]["content"][0]["input"], json!({"invalid_input": "{\"x"}));
    }
}
