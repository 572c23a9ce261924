//! Assembles the chunks of a streamed chat completion into content blocks.

use serde_json::Value;

use crate::bounds::Received;
use crate::conversation::parse_tool_input;
use crate::http::{self, Answer};
use crate::sse::Event;
use crate::{Block, ModelError, Response, StopReason, StreamEvent, Usage};

/// The part of a completion that has been received so far.
#[derive(Debug)]
pub(super) struct Chunks {
    vendor: &'static str,
    received: Received,
    id: String,
    model: String,
    text: String,
    thinking: String,
    calls: Vec<Call>,
    stop: Option<StopReason>,
    usage: Usage,
}

/// The part of a tool call that has been received so far.
#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl Answer for Chunks {
    fn take(&mut self, event: &Event) -> Result<Vec<StreamEvent>, ModelError> {
        if event.data.trim() == "[DONE]" {
            let response = self.end().ok_or(ModelError::StreamCut { vendor: self.vendor })?;
            return Ok(vec![StreamEvent::Finished(response)]);
        }
        let chunk = http::parse(self.vendor, &event.data)?;
        if chunk.get("error").is_some_and(|error| !error.is_null()) {
            return Err(self.error_chunk(&chunk));
        }
        self.note(&chunk);
        let mut told = Vec::new();
        // The last chunk contains only the token usage. Its list of choices is empty.
        if let Some(choice) = chunk.pointer("/choices/0") {
            if let Some(delta) = choice.get("delta") {
                self.grow(delta, &mut told)?;
            }
            if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
                self.stop = Some(stop_reason(reason));
            }
        }
        Ok(told)
    }

    /// Returns the answer if the server has sent a stop reason. The final `[DONE]` is not required,
    /// because some servers do not send it.
    fn end(&mut self) -> Option<Response> {
        let stop = self.stop.take()?;
        let calls = std::mem::take(&mut self.calls);
        // Some servers send the stop reason `stop` even if the answer contains tool calls. In such
        // an answer, replace the stop reason by `ToolUse`.
        let stop = match stop {
            StopReason::EndTurn if !calls.is_empty() => StopReason::ToolUse,
            stop => stop,
        };
        let mut blocks = Vec::new();
        if !self.thinking.is_empty() {
            blocks.push(Block::thinking(std::mem::take(&mut self.thinking), ""));
        }
        if !self.text.is_empty() {
            blocks.push(Block::text(std::mem::take(&mut self.text)));
        }
        blocks.extend(calls.into_iter().map(Call::finish));
        Some(Response {
            id: std::mem::take(&mut self.id),
            model: std::mem::take(&mut self.model),
            blocks,
            stop,
            usage: self.usage,
        })
    }
}

impl Chunks {
    pub(super) fn new(vendor: &'static str, model: &str) -> Self {
        Self {
            vendor,
            received: Received::new(vendor),
            id: String::new(),
            model: model.to_owned(),
            text: String::new(),
            thinking: String::new(),
            calls: Vec::new(),
            stop: None,
            usage: Usage::default(),
        }
    }

    fn note(&mut self, chunk: &Value) {
        let text = |key| chunk.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        if let Some(id) = text("id") {
            id.clone_into(&mut self.id);
        }
        if let Some(model) = text("model") {
            model.clone_into(&mut self.model);
        }
        let count = |at: &str| chunk.pointer(at).and_then(Value::as_u64);
        if let Some(prompt) = count("/usage/prompt_tokens") {
            // OpenAI's number of prompt tokens includes cached tokens. Our usage counts cached
            // tokens separately, so subtract them.
            let cached = count("/usage/prompt_tokens_details/cached_tokens").unwrap_or_default();
            self.usage.input_tokens = prompt.saturating_sub(cached);
            self.usage.cache_read_input_tokens = cached;
        }
        if let Some(completion) = count("/usage/completion_tokens") {
            self.usage.output_tokens = completion;
        }
    }

    fn grow(&mut self, delta: &Value, told: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        let text = |keys: &[&str]| {
            let found = keys.iter().find_map(|key| delta.get(key).and_then(Value::as_str));
            found.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        // The field for the model's thoughts has two names. Each server uses one of them.
        if let Some(thought) = text(&["reasoning_content", "reasoning"]) {
            self.received.add_bytes(&mut self.thinking.len(), thought.len())?;
            self.thinking.push_str(&thought);
            told.push(StreamEvent::ThinkingDelta(thought));
        }
        // OpenAI streams a refusal in a field of its own. Treat the refusal as normal text.
        for key in ["content", "refusal"] {
            if let Some(more) = text(&[key]) {
                self.received.add_bytes(&mut self.text.len(), more.len())?;
                self.text.push_str(&more);
                told.push(StreamEvent::TextDelta(more));
            }
        }
        let calls = delta.get("tool_calls").and_then(Value::as_array);
        for call in calls.into_iter().flatten() {
            self.grow_call(call, told)?;
        }
        Ok(())
    }

    fn grow_call(&mut self, piece: &Value, told: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        let text = |at: &str| piece.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let index = piece.get("index").and_then(Value::as_u64);
        let (id, name) = (text("/id"), text("/function/name"));
        let known = self.calls.iter().rposition(|call| call.is_continued_by(index, id, name));
        if known.is_none() {
            self.received.add_block()?;
            self.received.add_call()?;
            self.received.add_bytes(&mut 0, id.len().saturating_add(name.len()))?;
            // Some servers send no id for a call. The result of the call needs an id that is unique
            // in the conversation, so create one.
            let id = if id.is_empty() { made_up_id() } else { id.to_owned() };
            self.calls.push(Call { index, id, ..Call::default() });
        }
        let at = known.unwrap_or(self.calls.len().saturating_sub(1));
        let Some(call) = self.calls.get_mut(at) else {
            return Ok(());
        };
        if call.name.is_empty() && !name.is_empty() {
            name.clone_into(&mut call.name);
            told.push(StreamEvent::ToolStarted { name: name.to_owned() });
        }
        match piece.pointer("/function/arguments") {
            Some(Value::String(more)) => {
                self.received.add_bytes(&mut call.arguments.len(), more.len())?;
                call.arguments.push_str(more);
            }
            // Some servers send the arguments as a complete JSON object instead of text.
            Some(Value::Object(whole)) => {
                let whole = Value::Object(whole.clone()).to_string();
                self.received.add_bytes(&mut 0, whole.len())?;
                call.arguments = whole;
            }
            Some(_) | None => {}
        }
        Ok(())
    }

    /// Converts an error that the server sent inside a stream. Such an error has no HTTP status of
    /// its own. Some routers put a status into the field `code` of the error. If they do not,
    /// status 500 is used.
    fn error_chunk(&self, chunk: &Value) -> ModelError {
        let code = chunk.pointer("/error/code").and_then(Value::as_u64);
        let status = code.and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
        http::refused(self.vendor, status, chunk, "an error inside the stream", None)
    }
}

impl Call {
    /// Returns true if a received piece belongs to this call.
    ///
    /// - If the piece has an index, the index must be equal to that of the call. If the piece has
    ///   both an id and a name, the id must be equal too.
    /// - If neither the piece nor the call has an index, the ids must be equal. A piece without an
    ///   id and without a name belongs to the call too.
    fn is_continued_by(&self, index: Option<u64>, id: &str, name: &str) -> bool {
        match (self.index, index) {
            (Some(mine), Some(index)) => {
                mine == index && (id.is_empty() || self.id == id || name.is_empty())
            }
            (None, None) => (!id.is_empty() && self.id == id) || (id.is_empty() && name.is_empty()),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    fn finish(self) -> Block {
        Block::tool_use(self.id, self.name, parse_tool_input(&self.arguments))
    }
}

fn made_up_id() -> String {
    let (high, low) = (crate::retry::random(), crate::retry::random());
    format!("call_{high:08x}{low:08x}")
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "stop" => StopReason::EndTurn,
        "tool_calls" | "function_call" => StopReason::ToolUse,
        "length" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refusal,
        other => StopReason::Other(other.to_owned()),
    }
}
