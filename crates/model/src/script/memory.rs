//! What a scripted model knows of the part of a conversation that a summary stands for.
//!
//! It writes the summary itself, and puts all into it that the script still needs: which turns were played, which way the
//! script took through them, and what the agent was told. So a script goes on after a compaction where it stood.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::told::{NEVER, Told};
use crate::{Block, Message, Role};

/// Marks the last text of a conversation that is to be summarised, not answered.
///
/// A scripted model then answers with the summary that it can go on from.
pub const COMPACTION: &str = "[compaction]";

/// Begins the line of a summary that is for the script.
const MARK: &str = "[script memory] ";

/// How much of a prompt or of mail is remembered.
const MESSAGE_CHARS: usize = 2_000;

/// How much of a result is remembered.
const RESULT_CHARS: usize = 200;

/// What is known of the conversation before a summary.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Memory {
    /// How many answers the agent gave.
    pub(super) turns: usize,
    /// How every choice of the script came out, up to the last of those answers.
    pub(super) path: VecDeque<Choice>,
    /// The calls of the last answer that a crash interrupted, and that are to be made again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) again: Vec<(String, Value)>,
    /// What the agent was told, the oldest first.
    pub(super) told: Vec<Remembered>,
}

/// One thing on the way of a script that is not written in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Choice {
    /// A condition held or not.
    Held(bool),
    /// What a capture found.
    Found(Option<Value>),
    /// So many answers belong to a turn: itself, and the repetitions of what a crash interrupted in it.
    Passed(usize),
}

/// Something the agent was told.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Remembered {
    /// The tool whose result it is; none for a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    text: String,
    #[serde(default, skip_serializing_if = "When::is_before")]
    when: When,
}

/// When the agent was told something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum When {
    /// Before the last of its answers.
    #[default]
    Before,
    /// Since.
    Latest,
    /// Not yet: a crash interrupted the call.
    Never,
}

impl When {
    fn is_before(&self) -> bool {
        *self == Self::Before
    }
}

impl Remembered {
    /// Keeps what was told, or as much of it as is kept; `latest` is where what came since the last answer begins.
    pub(super) fn of(told: &Told, latest: usize) -> Self {
        let most = if told.tool.is_some() { RESULT_CHARS } else { MESSAGE_CHARS };
        let when = match told.at {
            NEVER => When::Never,
            at if at >= latest => When::Latest,
            _ => When::Before,
        };
        Self { tool: told.tool.clone(), text: told.text.chars().take(most).collect(), when }
    }

    /// Tells it again: what is older stands at 0, and what is latest beside the first message, at 1.
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
    /// Finds what the script left in a conversation, and before how many texts of its first message.
    pub(super) fn recall(messages: &[Message]) -> Option<(Self, usize)> {
        let texts = messages.first()?.blocks.iter().filter_map(Block::as_text);
        texts.enumerate().find_map(|(at, text)| {
            let written = text.lines().find_map(|line| line.strip_prefix(MARK))?;
            Some((serde_json::from_str(written).ok()?, at))
        })
    }

    /// Writes it as a summary. No sign that means something in a conversation stands in it plainly, so it stays as it is.
    pub(super) fn summary(&self) -> String {
        let json = serde_json::to_string(self)
            .unwrap_or_default()
            .replace('<', "\\u003c")
            .replace('&', "\\u0026");
        format!("I have played {} turns of my script.\n{MARK}{json}", self.turns)
    }
}

/// Tells whether a text of a conversation is a script's own summary, which tells it nothing new.
pub(super) fn is_summary(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(MARK))
}

/// Takes off the instruction that asks for a summary; nothing when a conversation has none.
pub(super) fn to_summarise(messages: &[Message]) -> Option<Vec<Message>> {
    let (last, before) = messages.split_last().filter(|(last, _)| last.role == Role::User)?;
    let (instruction, blocks) = last.blocks.split_last()?;
    if !instruction.as_text()?.contains(COMPACTION) {
        return None;
    }
    let rest = (!blocks.is_empty()).then(|| Message::user(blocks.to_vec()));
    Some(before.iter().cloned().chain(rest).collect())
}
