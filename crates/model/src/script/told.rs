//! Lists the texts that an agent received: its prompt, its messages and the results of its tools.
//! The conditions of a script examine these texts.

use serde_json::Value;

use super::memory;
use super::replay::INTERRUPTED;
use crate::{Block, Message, Role, ToolContent};

/// One text that the agent received.
#[derive(Debug)]
pub(super) struct Told {
    /// The position of the message that contains the text.
    pub(super) at: usize,
    /// The tool that returned the text. `None` if the text was a message.
    pub(super) tool: Option<String>,
    /// The text. In team messages, escaped characters such as `&lt;` are decoded.
    pub(super) text: String,
}

/// The position that marks a missing result. The agent has not received it, because a crash
/// interrupted the call.
pub(super) const NEVER: usize = usize::MAX;

/// Lists all texts that an agent received. Their order is the same as without crashes.
///
/// If a crash interrupted a call, its result counts as missing. Later, the result of the repeated
/// call takes its place. `told` contains the texts that are already known, and `first` is the
/// position of the first message.
pub(super) fn listen(mut told: Vec<Told>, messages: &[Message], first: usize) -> Vec<Told> {
    let open = told.iter().enumerate().filter(|(_, told)| told.at == NEVER);
    let mut calls: Vec<Call<'_>> =
        open.map(|(at, _)| Call { id: "", tool: "", place: Some(at) }).collect();
    for (at, message) in (first..).zip(messages) {
        match message.role {
            Role::Assistant => calls = calls_of(message, &interrupted(&calls, &told)),
            Role::User => {
                for block in &message.blocks {
                    hear(block, at, &mut calls, &mut told);
                }
            }
        }
    }
    told
}

/// A tool call of the agent's last answer. `place` is the index of its result in the list of texts.
struct Call<'a> {
    id: &'a str,
    tool: &'a str,
    place: Option<usize>,
}

/// Lists the tool calls of an answer. `interrupted` contains the indexes of missing results. If
/// there are any, the answer repeats the interrupted calls, and its calls get these indexes in the
/// same order.
fn calls_of<'a>(answer: &'a Message, interrupted: &[usize]) -> Vec<Call<'a>> {
    let calls = answer.blocks.iter().filter_map(|block| match block {
        Block::ToolUse { id, name, .. } => Some((id, name)),
        Block::Text { .. }
        | Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::ToolResult { .. }
        | Block::Image { .. }
        | Block::Other(_) => None,
    });
    let places = interrupted.iter().copied().map(Some).chain(std::iter::repeat(None));
    calls.zip(places).map(|((id, tool), place)| Call { id, tool, place }).collect()
}

fn interrupted(calls: &[Call<'_>], told: &[Told]) -> Vec<usize> {
    let places = calls.iter().filter_map(|call| call.place);
    places.filter(|place| told.get(*place).is_some_and(|told| told.at == NEVER)).collect()
}

fn hear(block: &Block, at: usize, calls: &mut [Call<'_>], told: &mut Vec<Told>) {
    match block {
        // Skip the summary, because the script wrote it itself.
        Block::Text { text, .. } if memory::is_summary(text) => {}
        Block::Text { text, .. } => told.push(Told { at, tool: None, text: readable(text) }),
        Block::ToolResult { tool_use_id, content, .. } => {
            let text = content.as_ref().map(ToolContent::text).unwrap_or_default();
            // The call was interrupted, so the agent has not received its result. The result of the
            // repeated call comes later.
            let at = if text.contains(INTERRUPTED) { NEVER } else { at };
            let call = calls.iter_mut().find(|call| call.id == tool_use_id);
            let tool = call.as_ref().map(|call| call.tool.to_owned()).unwrap_or_default();
            let result = Told { at, tool: Some(tool), text };
            let place = call.as_ref().and_then(|call| call.place);
            match place.and_then(|place| told.get_mut(place)) {
                // The call was repeated. The new result replaces the note that the first call was
                // interrupted.
                Some(told) => *told = result,
                None => {
                    if let Some(call) = call {
                        call.place = Some(told.len());
                    }
                    told.push(result);
                }
            }
        }
        Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::ToolUse { .. }
        | Block::Image { .. }
        | Block::Other(_) => {}
    }
}

impl Told {
    /// Finds a value by a JSON pointer, in the JSON of a team message inside this text, otherwise
    /// in the JSON of the whole text. If several team messages have such a value, the last one
    /// counts.
    pub(super) fn pointer(&self, pointer: &str) -> Option<Value> {
        let find = |text: &str| {
            let json: Value = serde_json::from_str(text.trim()).ok()?;
            json.pointer(pointer).cloned()
        };
        let mail = self.text.split("<teammate-message").skip(1).filter_map(|piece| {
            let (_, body) = piece.split_once(">\n")?;
            let (body, _) = body.rsplit_once("</teammate-message>")?;
            find(body)
        });
        mail.last().or_else(|| find(&self.text))
    }
}

/// In team messages, decodes escaped characters such as `&lt;`. So a script can search for the
/// characters that were really sent.
fn readable(text: &str) -> String {
    if !text.contains("<teammate-message") {
        return text.to_owned();
    }
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    entities.iter().fold(text.to_owned(), |text, (entity, plain)| text.replace(entity, plain))
}
