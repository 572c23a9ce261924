//! The texts that an agent received, for the conditions of a script: its messages and prompts, and
//! the results of its tools.

use serde_json::Value;

use super::memory;
use super::replay::INTERRUPTED;
use crate::{Block, Message, Role, ToolContent};

/// One text that the agent received.
#[derive(Debug)]
pub(super) struct Told {
    /// The position of the text's message in the conversation.
    pub(super) at: usize,
    /// The tool that returned the text. `None` for a message.
    pub(super) tool: Option<String>,
    /// The text. Inside team messages, entities are decoded.
    pub(super) text: String,
}

/// The position of a result that is still missing because of a crash.
pub(super) const NEVER: usize = usize::MAX;

/// Lists all texts that an agent received, in the order they would have without crashes.
///
/// The result of a call that a crash interrupted counts as missing, until the result of the
/// repeated call takes its place. `told` contains the texts known so far, and `first` is the
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

/// A tool call of the agent's last answer, and the index of its result in the list of texts.
struct Call<'a> {
    id: &'a str,
    tool: &'a str,
    place: Option<usize>,
}

/// Lists the calls of an answer. If the answer repeats interrupted calls, its calls take over the
/// indexes of the interrupted calls, in order.
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
        // The script's own summary is not a text that the agent received from others.
        Block::Text { text, .. } if memory::is_summary(text) => {}
        Block::Text { text, .. } => told.push(Told { at, tool: None, text: readable(text) }),
        Block::ToolResult { tool_use_id, content, .. } => {
            let text = content.as_ref().map(ToolContent::text).unwrap_or_default();
            // The agent did not receive an interrupted result. The result of the repeated call
            // follows later.
            let at = if text.contains(INTERRUPTED) { NEVER } else { at };
            let call = calls.iter_mut().find(|call| call.id == tool_use_id);
            let tool = call.as_ref().map(|call| call.tool.to_owned()).unwrap_or_default();
            let result = Told { at, tool: Some(tool), text };
            let place = call.as_ref().and_then(|call| call.place);
            match place.and_then(|place| told.get_mut(place)) {
                // The result of the repeated call takes the place of the interrupted one.
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
    /// Finds a value in the JSON of this text, or of a team message inside the text. If several
    /// team messages have a value, the last one counts.
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

/// Decodes the entities of team messages, so that a script can contain the characters that were
/// sent.
fn readable(text: &str) -> String {
    if !text.contains("<teammate-message") {
        return text.to_owned();
    }
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    entities.iter().fold(text.to_owned(), |text, (entity, plain)| text.replace(entity, plain))
}
