//! A scripted model's memory of the conversation that a summary replaced.
//!
//! The model writes the summary itself. The summary contains everything that the script still
//! needs: the played turns, the choices between them, and the texts that the agent received. So a
//! script continues after a compaction at the same point.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::told::{NEVER, Told};
use crate::{Block, Message, Role};

/// A marker in the last text of a conversation that needs a summary instead of an answer.
///
/// A scripted model then answers with a summary from which it can continue.
pub const COMPACTION: &str = "[compaction]";

/// The beginning of the one line in a summary that the script reads.
const MARK: &str = "[script memory] ";

/// Maximum number of characters remembered from a prompt or message.
const MESSAGE_CHARS: usize = 2_000;

/// Maximum number of characters remembered from a tool's result.
const RESULT_CHARS: usize = 200;

/// The memory of the conversation before a summary.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Memory {
    /// The number of answers that the agent gave.
    pub(super) turns: usize,
    /// The outcomes of all choices of the script, up to the last of those answers.
    pub(super) path: VecDeque<Choice>,
    /// The tool calls of the last answer that must be repeated, because a crash interrupted them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) again: Vec<(String, Value)>,
    /// The texts that the agent received, the oldest first.
    pub(super) told: Vec<Remembered>,
}

/// The outcome of one decision while a script is played. The script file does not contain the
/// outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Choice {
    /// Whether a condition was true.
    Held(bool),
    /// The value that a capture found.
    Found(Option<Value>),
    /// The number of answers for one turn: one for the turn itself, and one for each repetition of
    /// its interrupted calls.
    Passed(usize),
}

/// A text that the agent received.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Remembered {
    /// The tool that returned the text. `None` for a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    text: String,
    #[serde(default, skip_serializing_if = "When::is_before")]
    when: When,
}

/// The time when the agent received a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum When {
    /// Before the agent's last answer.
    #[default]
    Before,
    /// After the agent's last answer.
    Latest,
    /// Not yet, because a crash interrupted the call.
    Never,
}

impl When {
    fn is_before(&self) -> bool {
        *self == Self::Before
    }
}

impl Remembered {
    /// Stores a text, shortened to the limit for its kind. `latest` is the first position after the
    /// last answer.
    pub(super) fn of(told: &Told, latest: usize) -> Self {
        let most = if told.tool.is_some() { RESULT_CHARS } else { MESSAGE_CHARS };
        let when = match told.at {
            NEVER => When::Never,
            at if at >= latest => When::Latest,
            _ => When::Before,
        };
        Self { tool: told.tool.clone(), text: told.text.chars().take(most).collect(), when }
    }

    /// Restores the text. A text from before the agent's last answer gets position 0. A text from
    /// after that answer gets position 1, which is the position of the first message.
    pub(super) fn told(self) -> Told {
        let at = match self.when {
            When::Before => 0,
            When::Latest => 1,
            When::Never => NEVER,
        };
        Told { at, tool: self.tool, text: self.text }
    }
}

impl Memory {
    /// Finds the script's memory in a conversation. Also returns the number of texts before the
    /// memory in the first message.
    pub(super) fn recall(messages: &[Message]) -> Option<(Self, usize)> {
        let texts = messages.first()?.blocks.iter().filter_map(Block::as_text);
        texts.enumerate().find_map(|(at, text)| {
            // The runtime can put other texts around the summary, so only the marked line is read.
            let written = text.lines().find_map(|line| line.strip_prefix(MARK))?;
            Some((serde_json::from_str(written).ok()?, at))
        })
    }

    /// Writes the memory as a summary. Every `<` and `&` in the memory is escaped, so that the
    /// summary needs no further escaping in a conversation.
    pub(super) fn summary(&self) -> String {
        let json = serde_json::to_string(self)
            .unwrap_or_default()
            .replace('<', "\\u003c")
            .replace('&', "\\u0026");
        format!("I have played {} turns of my script.\n{MARK}{json}", self.turns)
    }
}

/// Whether a text of a conversation is the script's own summary. Such a text tells the script
/// nothing new.
pub(super) fn is_summary(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(MARK))
}

/// Removes the instruction that asks for a summary. Returns `None` if the conversation has no such
/// instruction.
pub(super) fn to_summarise(messages: &[Message]) -> Option<Vec<Message>> {
    let (last, before) = messages.split_last().filter(|(last, _)| last.role == Role::User)?;
    let (instruction, blocks) = last.blocks.split_last()?;
    if !instruction.as_text()?.contains(COMPACTION) {
        return None;
    }
    let rest = (!blocks.is_empty()).then(|| Message::user(blocks.to_vec()));
    Some(before.iter().cloned().chain(rest).collect())
}
