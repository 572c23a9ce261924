//! Assembles the events of a streamed message into the complete message.
//!
//! Content blocks are assembled as raw JSON, so that unknown fields and unknown block types are
//! kept.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::VENDOR;
use crate::bounds::{self, Received};
use crate::conversation::parse_tool_input;
use crate::http::{self, Answer};
use crate::sse::Event;
use crate::{Block, ModelError, Response, StopReason, StreamEvent, Usage};

/// The part of a message that has been received so far.
#[derive(Debug)]
pub(super) struct Events {
    received: Received,
    id: String,
    model: String,
    blocks: BTreeMap<u64, Partial>,
    stop: Option<StopReason>,
    usage: Usage,
}

/// The received part of a content block: its initial JSON, and the text of a tool's input so far.
#[derive(Debug, Default)]
struct Partial {
    block: Map<String, Value>,
    input: Option<String>,
    bytes: usize,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            received: Received::new(VENDOR),
            id: String::new(),
            model: String::new(),
            blocks: BTreeMap::new(),
            stop: None,
            usage: Usage::default(),
        }
    }
}

impl Answer for Events {
    fn take(&mut self, event: &Event) -> Result<Vec<StreamEvent>, ModelError> {
        let size = event.data.len();
        let event = http::parse(VENDOR, &event.data)?;
        let at = event.get("index").and_then(Value::as_u64).unwrap_or_default();
        let told = match event.get("type").and_then(Value::as_str).unwrap_or_default() {
            "message_start" => {
                self.start(event.get("message"));
                None
            }
            "content_block_start" => self.start_block(at, event.get("content_block"), size)?,
            "content_block_delta" => self.grow_block(at, event.get("delta"), size)?,
            "message_delta" => {
                self.take_usage(event.get("usage"));
                let reason = event.pointer("/delta/stop_reason").and_then(Value::as_str);
                // If a later `message_delta` has no stop reason, keep the reason from an earlier
                // one.
                self.stop = reason.map(stop_reason).or(self.stop.take());
                None
            }
            "message_stop" => Some(StreamEvent::Finished(self.finish()?)),
            // The HTTP status was 200 when the stream began, but the server can report an error
            // later.
            "error" => return Err(error_event(&event)),
            _ => None,
        };
        Ok(told.into_iter().collect())
    }

    fn end(&mut self) -> Option<Response> {
        None
    }
}

impl Events {
    fn start(&mut self, message: Option<&Value>) {
        let text = |key| message.and_then(|message| message.get(key)).and_then(Value::as_str);
        text("id").unwrap_or_default().clone_into(&mut self.id);
        text("model").unwrap_or_default().clone_into(&mut self.model);
        self.take_usage(message.and_then(|message| message.get("usage")));
    }

    /// Copies the token counts from a usage object. The object contains totals, so the counts are
    /// not added to earlier ones.
    fn take_usage(&mut self, usage: Option<&Value>) {
        let fields = [
            ("input_tokens", &mut self.usage.input_tokens),
            ("output_tokens", &mut self.usage.output_tokens),
            ("cache_creation_input_tokens", &mut self.usage.cache_creation_input_tokens),
            ("cache_read_input_tokens", &mut self.usage.cache_read_input_tokens),
        ];
        for (key, field) in fields {
            if let Some(tokens) = usage.and_then(|usage| usage.get(key)).and_then(Value::as_u64) {
                *field = tokens;
            }
        }
    }

    /// Starts the content block at the index `at`. `size` is the number of bytes of the event.
    fn start_block(
        &mut self,
        at: u64,
        block: Option<&Value>,
        size: usize,
    ) -> Result<Option<StreamEvent>, ModelError> {
        let Some(block) = block.and_then(Value::as_object).cloned() else { return Ok(None) };
        let mut bytes = 0;
        self.received.add_block()?;
        self.received.add_bytes(&mut bytes, size)?;
        let text = |key| block.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let told = match text("type").as_str() {
            "text" => {
                Some(text("text")).filter(|text| !text.is_empty()).map(StreamEvent::TextDelta)
            }
            "tool_use" => {
                self.received.add_call()?;
                Some(StreamEvent::ToolStarted { name: text("name") })
            }
            _ => None,
        };
        self.blocks.insert(at, Partial { block, input: None, bytes });
        Ok(told)
    }

    /// Appends to the content block at the index `at`. `size` is the number of bytes of the event.
    fn grow_block(
        &mut self,
        at: u64,
        delta: Option<&Value>,
        size: usize,
    ) -> Result<Option<StreamEvent>, ModelError> {
        let Some(delta) = delta else { return Ok(None) };
        if !self.blocks.contains_key(&at) {
            self.received.add_block()?;
        }
        let partial = self.blocks.entry(at).or_default();
        self.received.add_bytes(&mut partial.bytes, kept_bytes(delta, size))?;
        Ok(partial.grow(delta))
    }

    fn finish(&mut self) -> Result<Response, ModelError> {
        let blocks = std::mem::take(&mut self.blocks);
        Ok(Response {
            id: std::mem::take(&mut self.id),
            model: std::mem::take(&mut self.model),
            blocks: blocks.into_values().map(Partial::finish).collect::<Result<_, _>>()?,
            stop: self.stop.take().unwrap_or(StopReason::EndTurn),
            usage: self.usage,
        })
    }
}

impl Partial {
    fn grow(&mut self, delta: &Value) -> Option<StreamEvent> {
        let text = |key| delta.get(key).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "text_delta" => {
                self.append("text", text("text"));
                Some(StreamEvent::TextDelta(text("text").to_owned()))
            }
            "thinking_delta" => {
                self.append("thinking", text("thinking"));
                Some(StreamEvent::ThinkingDelta(text("thinking").to_owned()))
            }
            "signature_delta" => {
                self.append("signature", text("signature"));
                None
            }
            "input_json_delta" => {
                self.input.get_or_insert_default().push_str(text("partial_json"));
                None
            }
            "citations_delta" => {
                let citations = self.block.entry("citations").or_insert(Value::Null);
                let citation = delta.get("citation").cloned().unwrap_or_default();
                match citations {
                    Value::Array(list) => list.push(citation),
                    other => *other = Value::Array(vec![citation]),
                }
                None
            }
            _ => None,
        }
    }

    fn append(&mut self, key: &str, text: &str) {
        match self.block.get_mut(key) {
            Some(Value::String(so_far)) => so_far.push_str(text),
            Some(_) | None => {
                self.block.insert(key.to_owned(), Value::String(text.to_owned()));
            }
        }
    }

    fn finish(mut self) -> Result<Block, ModelError> {
        // The input arrives as pieces of a JSON text. It can be parsed only when all pieces have
        // arrived.
        if let Some(input) = self.input.filter(|input| !input.is_empty()) {
            self.block.insert("input".to_owned(), parse_tool_input(&input));
        }
        let block = Value::Object(self.block);
        bounds::check_depth(VENDOR, &block)?;
        // If the form of the block is unknown, keep its JSON unchanged.
        Ok(serde_json::from_value(block.clone()).unwrap_or(Block::Other(block)))
    }
}

/// Returns how many bytes of a delta are kept. A delta of text is kept without its JSON, so an
/// event for a single token counts only as long as its token.
fn kept_bytes(delta: &Value, size: usize) -> usize {
    let key = match delta.get("type").and_then(Value::as_str).unwrap_or_default() {
        "text_delta" => "text",
        "thinking_delta" => "thinking",
        "signature_delta" => "signature",
        "input_json_delta" => "partial_json",
        _ => return size,
    };
    delta.get(key).and_then(Value::as_str).map_or(0, str::len)
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "end_turn" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" => StopReason::MaxTokens,
        "stop_sequence" => StopReason::StopSequence,
        "refusal" => StopReason::Refusal,
        other => StopReason::Other(other.to_owned()),
    }
}

/// Classifies an error event inside a stream. The event has no HTTP status, and so the type of the
/// error in the event decides.
fn error_event(event: &Value) -> ModelError {
    let status = match event.pointer("/error/type").and_then(Value::as_str).unwrap_or_default() {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => 500,
    };
    http::refused(VENDOR, status, event, "an error inside the stream", None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn feed(events: &[Value]) -> (Vec<StreamEvent>, Events) {
        let mut answer = Events::default();
        let told = events
            .iter()
            .flat_map(|event| {
                let event = Event { name: String::new(), data: event.to_string() };
                answer.take(&event).unwrap()
            })
            .collect();
        (told, answer)
    }

    fn finished(events: &[Value]) -> Response {
        match feed(events).0.pop() {
            Some(StreamEvent::Finished(response)) => response,
            other => panic!("not finished: {other:?}"),
        }
    }

    #[test]
    fn usage_is_a_snapshot_and_is_not_added_up() {
        let response = finished(&[
            json!({"type": "message_start", "message": {"id": "m", "model": "c", "usage": {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5}}}),
            json!({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 20}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"input_tokens": 11, "output_tokens": 30, "cache_creation_input_tokens": null}}),
            json!({"type": "message_stop"}),
        ]);
        let expected = Usage {
            input_tokens: 11,
            output_tokens: 30,
            cache_read_input_tokens: 5,
            ..Usage::default()
        };
        assert_eq!(response.usage, expected);
        assert_eq!(response.stop, StopReason::EndTurn);
    }

    #[test]
    fn an_empty_input_is_an_empty_object_and_a_broken_one_is_kept() {
        let call = |i: u64| json!({"type": "content_block_start", "index": i, "content_block": {"type": "tool_use", "id": format!("t{i}"), "name": "Bash", "input": {}}});
        let delta = |i: u64, json: &str| json!({"type": "content_block_delta", "index": i, "delta": {"type": "input_json_delta", "partial_json": json}});
        let response = finished(&[
            call(0),
            delta(0, ""),
            call(1),
            delta(1, "{\"a\""),
            delta(1, ":1}"),
            call(2),
            delta(2, "{\"a\""),
            call(3),
            json!({"type": "message_stop"}),
        ]);
        let inputs: Vec<Value> = response
            .blocks
            .iter()
            .map(|b| serde_json::to_value(b).unwrap()["input"].clone())
            .collect();
        assert_eq!(inputs, [json!({}), json!({"a": 1}), json!("{\"a\""), json!({})]);
        assert_eq!(response.blocks[2].invalid_input(), Some("{\"a\""));
    }

    #[test]
    fn an_unknown_block_is_kept_with_the_input_it_streamed() {
        let response = finished(&[
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"query\":\"x\"}"}}),
            json!({"type": "message_stop"}),
        ]);
        let expected = json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}});
        assert_eq!(response.blocks, [Block::Other(expected)]);
    }

    #[test]
    fn a_thought_is_put_together_with_its_signature() {
        let delta =
            |delta: Value| json!({"type": "content_block_delta", "index": 0, "delta": delta});
        let response = finished(&[
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
            delta(json!({"type": "thinking_delta", "thinking": "let me "})),
            delta(json!({"type": "thinking_delta", "thinking": "see"})),
            delta(json!({"type": "signature_delta", "signature": "c2ln"})),
            json!({"type": "message_stop"}),
        ]);
        assert_eq!(response.blocks, [Block::thinking("let me see", "c2ln")]);
    }

    #[test]
    fn a_stream_that_ends_without_its_stop_is_no_answer() {
        let (_, mut answer) =
            feed(&[json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})]);
        assert_eq!(answer.end(), None);
    }

    #[test]
    fn an_error_inside_the_stream_is_sorted_by_its_type() {
        let error = |kind: &str| {
            error_event(&json!({"type": "error", "error": {"type": kind, "message": "m"}}))
        };
        assert!(matches!(error("overloaded_error"), ModelError::Overloaded { .. }));
        assert!(matches!(error("rate_limit_error"), ModelError::RateLimited { .. }));
        assert!(error("api_error").is_retryable());
        assert!(!error("invalid_request_error").is_retryable());
    }

    #[test]
    fn strange_events_do_no_harm() {
        let (told, _) = feed(&[
            json!(null),
            json!({"type": "ping"}),
            json!({"type": "content_block_start", "index": -1, "content_block": 7}),
            json!({"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta"}}),
            json!({"type": "content_block_delta", "index": 3}),
        ]);
        assert_eq!(told, [StreamEvent::TextDelta(String::new())]);
    }
}
