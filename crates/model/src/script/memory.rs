//! A scripted model's memory of the part of a conversation that a summary has replaced.
//!
//! The scripted model writes the summary itself. The summary contains everything that the script
//! needs later: the number of played turns, the outcomes of decisions in these turns, and the texts
//! that the agent received. So the script continues at the same point after a compaction.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::told::{NEVER, Told};
use crate::{Block, Message, Role};

/// A marker that asks for a summary. If the last text of a conversation contains it, a scripted
/// model answers with a summary. The model can continue from this summary.
pub const COMPACTION: &str = "[compaction]";

/// The line of a summary that contains the memory begins with this text. The script reads only this
/// line.
const MARK: &str = "[script memory] ";

/// Maximum number of characters to remember from a prompt or a message.
const MESSAGE_CHARS: usize = 2_000;

/// Maximum number of characters to remember from the result of a tool.
const RESULT_CHARS: usize = 200;

/// What a scripted model remembers of the conversation before a summary.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Memory {
    /// The number of answers that the agent gave before the summary.
    pub(super) turns: usize,
    /// The outcomes of all decisions of the script, up to the last of the answers in `turns`.
    pub(super) path: VecDeque<Choice>,
    /// Those tool calls of the last answer that a crash interrupted. They must be repeated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) again: Vec<(String, Value)>,
    /// The texts that the agent received, the oldest first.
    pub(super) told: Vec<Remembered>,
}

/// The outcome of one decision that was made while a script was played. It depends on the
/// conversation, so the script file does not contain it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Choice {
    /// True if a condition was met.
    Held(bool),
    /// The value that a capture found, or `None` if it found nothing.
    Found(Option<Value>),
    /// How many answers the agent gave for one turn of the script: one for the turn itself, and one
    /// more for each time that interrupted calls were repeated.
    Passed(usize),
}

/// A remembered text that the agent received.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Remembered {
    /// The tool that returned the text. `None` if the text was a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    text: String,
    #[serde(default, skip_serializing_if = "When::is_before")]
    when: When,
}

/// When the agent received a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum When {
    /// The agent received the text before its last answer.
    #[default]
    Before,
    /// The agent received the text after its last answer.
    Latest,
    /// The agent has not received the text yet, because a crash interrupted the tool call.
    Never,
}

impl When {
    fn is_before(&self) -> bool {
        *self == Self::Before
    }
}

impl Remembered {
    /// Converts a received text into a remembered one. The text is shortened to the limit for its
    /// kind. `latest` is the first position after the agent's last answer.
    pub(super) fn of(told: &Told, latest: usize) -> Self {
        let most = if told.tool.is_some() { RESULT_CHARS } else { MESSAGE_CHARS };
        let when = match told.at {
            NEVER => When::Never,
            at if at >= latest => When::Latest,
            _ => When::Before,
        };
        Self { tool: told.tool.clone(), text: told.text.chars().take(most).collect(), when }
    }

    /// Converts a remembered text back into a received one. If the agent received it before its
    /// last answer, the position is 0. If the agent received it after its last answer, the position
    /// is 1, which is that of the first message.
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
    /// Finds the memory of the script in the first message of a conversation. Also returns how many
    /// texts of that message come before the memory.
    pub(super) fn recall(messages: &[Message]) -> Option<(Self, usize)> {
        let texts = messages.first()?.blocks.iter().filter_map(Block::as_text);
        texts.enumerate().find_map(|(at, text)| {
            // The runtime may put other texts around the summary. So search for the marked line.
            let written = text.lines().find_map(|line| line.strip_prefix(MARK))?;
            Some((serde_json::from_str(written).ok()?, at))
        })
    }

    /// Writes the memory as a summary. Every `<` and `&` is escaped, so that nobody needs to escape
    /// the summary again in a conversation.
    pub(super) fn summary(&self) -> String {
        let json = serde_json::to_string(self)
            .unwrap_or_default()
            .replace('<', "\\u003c")
            .replace('&', "\\u0026");
        format!("I have played {} turns of my script.\n{MARK}{json}", self.turns)
    }
}

/// Returns true if a text is a summary that the script itself wrote. The agent did not receive such
/// a text from anybody.
pub(super) fn is_summary(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(MARK))
}

/// If a conversation ends with the instruction to write a summary, returns the conversation without
/// this instruction. Otherwise returns `None`.
pub(super) fn to_summarise(messages: &[Message]) -> Option<Vec<Message>> {
    let (last, before) = messages.split_last().filter(|(last, _)| last.role == Role::User)?;
    let (instruction, blocks) = last.blocks.split_last()?;
    if !instruction.as_text()?.contains(COMPACTION) {
        return None;
    }
    let rest = (!blocks.is_empty()).then(|| Message::user(blocks.to_vec()));
    Some(before.iter().cloned().chain(rest).collect())
}
