//! Writes a conversation of content blocks as messages for chat completions.
//!
//! Each tool result becomes a message of its own, directly after the message that contains the tool
//! calls. Such a message accepts only text. So pictures in tool results are sent in a user message
//! that follows. Thoughts with a signature come from another vendor and are left out.

use serde_json::{Value, json};

use crate::conversation::input_for_wire;
use crate::toolless::sendable;
use crate::{Block, Message, Request, Role, ToolContent};

/// Builds the JSON body of a request. `limit_field` is the name that the server uses for the
/// maximum number of tokens in the answer.
pub(super) fn body(model: &str, limit_field: &str, request: &Request) -> Value {
    let mut messages = Vec::new();
    let system: Vec<&str> =
        request.system.iter().map(AsRef::as_ref).filter(|text| !text.is_empty()).collect();
    if !system.is_empty() {
        messages.push(json!({"role": "system", "content": system.join("\n\n")}));
    }
    for message in sendable(request).iter() {
        match message.role {
            Role::User => write_user(message, &mut messages),
            Role::Assistant => messages.extend(assistant(message)),
        }
    }
    let mut body = json!({
        "model": model,
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": messages,
    });
    if let Some(body) = body.as_object_mut() {
        body.insert(limit_field.to_owned(), json!(request.max_output_tokens));
        if !request.tools.is_empty() {
            let tools = request.tools.iter().map(|tool| {
                json!({"type": "function", "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.input_schema,
                }})
            });
            body.insert("tools".to_owned(), tools.collect());
        }
    }
    body
}

fn write_user(message: &Message, messages: &mut Vec<Value>) {
    let mut parts = Vec::new();
    for block in &message.blocks {
        match block {
            Block::ToolResult { tool_use_id, content, is_error, .. } => {
                messages.push(tool_message(tool_use_id, content.as_ref(), *is_error));
                if let Some(ToolContent::Blocks(blocks)) = content {
                    parts.extend(blocks.iter().filter_map(image_part));
                }
            }
            Block::Text { text, .. } if text.is_empty() => {}
            Block::Text { text, .. } => parts.push(json!({"type": "text", "text": text})),
            Block::Image { .. } => parts.extend(image_part(block)),
            Block::Thinking { .. }
            | Block::RedactedThinking { .. }
            | Block::ToolUse { .. }
            | Block::Other(_) => {}
        }
    }
    if let Some(content) = content_of(parts) {
        messages.push(json!({"role": "user", "content": content}));
    }
}

/// Builds the content of a user message from its parts. If all parts are text, joins them into one
/// string, because every server accepts a string. If there are pictures, returns a list of parts,
/// because a string cannot contain pictures. Returns `None` if there are no parts.
fn content_of(parts: Vec<Value>) -> Option<Value> {
    let texts: Vec<&str> =
        parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect();
    match parts.len() {
        0 => None,
        all if all == texts.len() => Some(json!(texts.join("\n\n"))),
        _ => Some(Value::Array(parts)),
    }
}

fn tool_message(id: &str, content: Option<&ToolContent>, is_error: bool) -> Value {
    let text = content.map(ToolContent::text).unwrap_or_default();
    // In chat completions, a tool message has no error flag. So the text itself says that the tool
    // failed.
    let text = if is_error { format!("Error: {text}") } else { text };
    json!({"role": "tool", "tool_call_id": id, "content": text})
}

fn image_part(block: &Block) -> Option<Value> {
    let Block::Image { source, .. } = block else {
        return None;
    };
    let text = |key| source.get(key).and_then(Value::as_str);
    let url = match text("url") {
        Some(url) => url.to_owned(),
        None => format!("data:{};base64,{}", text("media_type")?, text("data")?),
    };
    Some(json!({"type": "image_url", "image_url": {"url": url}}))
}

fn assistant(message: &Message) -> Option<Value> {
    let mut text = Vec::new();
    let mut thoughts = Vec::new();
    let mut calls = Vec::new();
    for block in &message.blocks {
        match block {
            Block::Text { text: more, .. } => text.push(more.as_str()),
            Block::Thinking { thinking, signature, .. } if signature.is_empty() => {
                thoughts.push(thinking.as_str());
            }
            Block::ToolUse { id, name, input, .. } => calls.push(json!({
                "id": id,
                "type": "function",
                "function": {"name": name, "arguments": input_for_wire(input).to_string()},
            })),
            Block::Thinking { .. }
            | Block::RedactedThinking { .. }
            | Block::ToolResult { .. }
            | Block::Image { .. }
            | Block::Other(_) => {}
        }
    }
    let text = text.concat();
    // If all blocks of a message were left out (for example signed thoughts), the message is not
    // sent.
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    let content = if text.is_empty() { Value::Null } else { json!(text) };
    let mut message = json!({"role": "assistant", "content": content});
    if !calls.is_empty()
        && let Some(message) = message.as_object_mut()
    {
        // When a reasoning model gets the result of a tool call, it also needs the thoughts that it
        // sent with the call. Other models send no thoughts, so nothing is added for them.
        if !thoughts.is_empty() {
            message.insert("reasoning_content".to_owned(), json!(thoughts.concat()));
        }
        message.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    Some(message)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{AgentTag, ToolSpec};

    fn body_of(messages: Vec<Message>) -> Value {
        let request = Request {
            agent: AgentTag { name: "lead".to_owned(), team: None },
            system: vec!["one".into(), "two".into()],
            messages: messages.into(),
            tools: Arc::new([ToolSpec {
                name: "Bash".to_owned(),
                description: "runs".to_owned(),
                input_schema: json!({"type": "object"}),
            }]),
            max_output_tokens: 100,
        };
        body("m", "max_tokens", &request)
    }

    #[test]
    fn a_conversation_becomes_chat_messages_with_results_before_the_mail_that_came_with_them() {
        let body = body_of(vec![
            Message::user(vec![Block::text("go")]),
            Message::assistant(vec![
                Block::thinking("hm", "signed"),
                Block::text("I will."),
                Block::tool_use("a", "Bash", json!({"command": "ls"})),
                Block::tool_use("b", "Bash", json!("{\"comm")),
            ]),
            Message::user(vec![
                Block::text("mail"),
                Block::tool_result("a", "ok"),
                Block::tool_error("b", "no JSON"),
            ]),
        ]);
        let expected = json!([
            {"role": "system", "content": "one\n\ntwo"},
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "I will.", "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "Bash", "arguments": "{\"command\":\"ls\"}"}},
                {"id": "b", "type": "function", "function": {"name": "Bash", "arguments": "{\"invalid_input\":\"{\\\"comm\"}"}},
            ]},
            {"role": "tool", "tool_call_id": "a", "content": "ok"},
            {"role": "tool", "tool_call_id": "b", "content": "Error: no JSON"},
            {"role": "user", "content": "mail"},
        ]);
        assert_eq!(body["messages"], expected);
        assert_eq!(body["max_tokens"], 100);
        assert_eq!(body["stream_options"], json!({"include_usage": true}));
        assert_eq!(body["tools"][0]["function"]["name"], "Bash");
    }

    #[test]
    fn pictures_become_parts_and_those_of_a_result_follow_it() {
        let picture: Block = serde_json::from_value(
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}),
        )
        .unwrap();
        let result = Block::ToolResult {
            tool_use_id: "a".to_owned(),
            content: Some(ToolContent::Blocks(vec![Block::text("seen"), picture])),
            is_error: false,
            extra: serde_json::Map::new(),
        };
        let body = body_of(vec![Message::user(vec![result, Block::text("look")])]);
        let expected = json!([
            {"role": "tool", "tool_call_id": "a", "content": "seen"},
            {"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
                {"type": "text", "text": "look"},
            ]},
        ]);
        assert_eq!(body["messages"].as_array().unwrap()[1..], expected.as_array().unwrap()[..]);
    }

    #[test]
    fn unsigned_thoughts_go_back_with_the_calls_they_led_to() {
        let body = body_of(vec![
            Message::assistant(vec![
                Block::thinking("hm", ""),
                Block::tool_use("a", "Bash", json!({})),
            ]),
            Message::assistant(vec![Block::thinking("hm", ""), Block::text("done")]),
        ]);
        assert_eq!(body["messages"][1]["reasoning_content"], "hm");
        assert_eq!(body["messages"][2].get("reasoning_content"), None);
    }
}
