//! The effect of a compaction on a conversation: a briefing and a summary replace the messages, and
//! nothing else changes. This module also measures how full the conversation is. The module
//! `compact` of the state machine decides when a compaction is necessary.

use std::sync::Arc;

use pitcrew_model::{Block, Message, Role, ToolContent, Usage};
use pitcrew_protocol::counted_is;
use serde_json::json;

use super::Conversation;

/// The number of characters that each unanswered text keeps after a compaction, if the transcript
/// was written by an older version and gives no number. No mail is longer than this. A long prompt
/// is not lost, because the briefing contains it.
const UNANSWERED_CHARS: usize = 20_000;

/// The approximate number of characters in a token.
pub const TOKEN_CHARS: usize = 4;

/// The assumed size of a picture, in characters. A text of this size and a picture need about as
/// many tokens.
const PICTURE_CHARS: usize = 6_000;

/// The text in place of older messages, if the conversation is too long even for the call that
/// makes the summary.
const LEFT_OUT: &str =
    "[What follows this in the conversation is too long to be shown. It goes on later:]";

/// The text at the end of a text that was shortened to fit into the context window.
const SHORTENED: &str =
    "\n[The rest is left out here: the conversation was longer than you can read.]";

/// Text in place of a picture that is not shown.
const NO_PICTURE: &str = "[A picture is left out here.]";

/// The smallest size to which a text is shortened, and the smallest part of a conversation that is
/// summarised, in characters.
pub const LEAST_CHARS: usize = 1_000;

/// How many tokens the conversation has, according to the model's answers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Fill {
    /// The number of tokens in the conversation according to the last answer.
    tokens: u64,
    /// The number of tokens right after the last compaction. The conversation cannot become smaller
    /// than this.
    floor: Option<u64>,
    /// Whether the model has answered since the last compaction. If there was no compaction,
    /// whether the model has answered at all.
    has_answer: bool,
}

impl Fill {
    pub(super) fn answered(&mut self, usage: Usage) {
        self.tokens = usage.context_tokens();
        if !self.has_answer && self.floor.is_some() {
            // The first answer after a compaction contains the real number of tokens of the
            // compacted conversation.
            self.floor = Some(self.tokens);
        }
        self.has_answer = true;
    }
}

impl Conversation {
    /// Returns the number of tokens in the conversation: the number from the last answer, plus an
    /// estimate for later messages. Returns 0 if no answer contained a number.
    #[must_use]
    pub fn filled(&self) -> u64 {
        let since =
            self.messages.last().filter(|last| last.role == Role::User && self.fill.tokens > 0);
        self.fill
            .tokens
            .saturating_add(since.map_or(0, |last| tokens_of(size_of(std::slice::from_ref(last)))))
    }

    /// Returns the number of tokens in the conversation right after the last compaction. Returns 0
    /// if there was no compaction.
    #[must_use]
    pub fn floor(&self) -> u64 {
        self.fill.floor.unwrap_or(0)
    }

    /// Whether a compaction is possible now: the model has answered since the last compaction, and
    /// all tool calls have results.
    #[must_use]
    pub fn can_be_compacted(&self) -> bool {
        self.fill.has_answer && self.open.is_empty()
    }

    /// Returns the size of the messages, in characters.
    #[must_use]
    pub fn size(&self) -> usize {
        size_of(&self.messages)
    }

    /// Returns the estimated number of tokens in the conversation. If no answer of the model
    /// contained a number of tokens, the estimate is computed from the number of characters.
    #[must_use]
    pub fn filled_about(&self) -> u64 {
        if self.fill.tokens == 0 { tokens_of(self.size()) } else { self.filled() }
    }

    /// Returns the size of the messages that the model has not answered, in characters.
    #[must_use]
    pub fn unanswered_size(&self) -> usize {
        self.unanswered().map_or(0, |last| size_of(std::slice::from_ref(last)))
    }

    fn unanswered(&self) -> Option<&Message> {
        self.messages.last().filter(|last| last.role == Role::User)
    }

    /// Returns the number of characters to which the next [`super::Step::Shortened`] shortens each
    /// text and tool result that the model has not answered. The number is half the size of the
    /// longest of them, but at least [`LEAST_CHARS`]. Returns `None` if the longest of them is not
    /// much longer than [`LEAST_CHARS`].
    #[must_use]
    pub fn next_shortened(&self) -> Option<usize> {
        let blocks = self.unanswered().into_iter().flat_map(|last| &last.blocks);
        let longest =
            blocks.filter(|block| shortened_block(block, 0).is_some()).map(size_of_block).max()?;
        // A text that was already shortened has a note at its end. The note must not count as a
        // part of the text.
        (longest > LEAST_CHARS + SHORTENED.len()).then_some((longest / 2).max(LEAST_CHARS))
    }

    pub(super) fn shorten(&mut self, most: usize) {
        let Some(last) =
            Arc::make_mut(&mut self.messages).last_mut().filter(|last| last.role == Role::User)
        else {
            return;
        };
        for block in &mut last.blocks {
            if let Some(short) = shortened_block(block, most) {
                *block = short;
            }
        }
    }

    /// Returns the size that the messages would have after a compaction, in characters.
    #[must_use]
    pub fn size_compacted(
        &self,
        briefing: &str,
        summary: &str,
        kept_chars: Option<usize>,
    ) -> usize {
        size_of(&[self.compacted(briefing, summary, kept_chars)])
    }

    /// Returns the messages for the call that makes the summary, with at most `most` characters. If
    /// not all messages fit, returns the first message and the newest messages, and shortens long
    /// ones.
    #[must_use]
    pub fn to_summarise(&self, most: Option<usize>) -> Vec<Message> {
        let Some(((first, rest), most)) = self.messages.split_first().zip(most) else {
            return self.messages.to_vec();
        };
        // The first message gets up to three quarters of the characters. It contains the prompt or
        // an earlier summary, and no other message contains these texts.
        let first = shortened_message(first, if rest.is_empty() { most } else { most / 4 * 3 });
        let mut room = most.saturating_sub(size_of(std::slice::from_ref(&first)));
        let newest =
            rest.iter().rev().map(|message| shortened_message(message, most / 4)).take_while(
                |message| {
                    let size = size_of(std::slice::from_ref(message));
                    let fits = size <= room;
                    room = room.saturating_sub(size);
                    fits
                },
            );
        let mut newest: Vec<Message> = newest.collect();
        // The message after the first message must be an answer of the model. Remove older user
        // messages before the first answer in `newest`. The roles of the messages then alternate,
        // and the results of each call directly follow the call.
        while newest.last().is_some_and(|message| message.role == Role::User) {
            newest.pop();
        }
        let mut shown = vec![first];
        if let Some(first) = shown.first_mut().filter(|_| newest.len() < rest.len()) {
            first.blocks.push(Block::text(LEFT_OUT));
        }
        shown.extend(newest.into_iter().rev());
        shown
    }

    /// Returns the number of characters of the conversation for the next summary request: half as
    /// many as before. Returns `None` if this would be too few.
    #[must_use]
    pub fn next_shown(&self, shown: Option<usize>) -> Option<usize> {
        let next = shown.unwrap_or_else(|| self.size()).min(self.size()) / 2;
        (next >= LEAST_CHARS).then_some(next)
    }

    pub(super) fn compact(&mut self, briefing: &str, summary: &str, kept_chars: Option<usize>) {
        self.messages = Arc::new(vec![self.compacted(briefing, summary, kept_chars)]);
        self.turns = self.turns.saturating_add(1);
        // The number of tokens after the compaction is not known yet. The model's next answer
        // contains it and sets `floor` to it.
        self.fill = Fill { tokens: 0, floor: Some(0), has_answer: false };
    }

    pub(super) fn keep_as_it_is(&mut self) {
        self.turns = self.turns.saturating_add(1);
        // The summary is not used, so the conversation is as full as before. The new value of
        // `floor` prevents another compaction until the conversation has grown.
        self.fill = Fill { floor: Some(self.filled()), has_answer: false, ..self.fill };
    }

    /// Builds the single message with which a compacted conversation starts. The texts that the
    /// model has not answered follow the summary. They are complete if together they have at most
    /// `kept_chars` characters, otherwise shortened.
    fn compacted(&self, briefing: &str, summary: &str, kept_chars: Option<usize>) -> Message {
        let unanswered = self.unanswered().into_iter().flat_map(|last| &last.blocks);
        let texts: Vec<&str> = unanswered.filter_map(Block::as_text).collect();
        let all: usize = texts.iter().map(|text| text.chars().count()).sum();
        let each = match kept_chars {
            Some(kept) if all <= kept => all,
            Some(kept) => kept / texts.len().max(1),
            None => UNANSWERED_CHARS,
        };
        let texts = texts.into_iter().map(|text| Block::text(shortened(text, each)));
        Message::user([briefing, summary].into_iter().map(Block::text).chain(texts).collect())
    }
}

/// Returns the message, shortened to about `most` characters.
fn shortened_message(message: &Message, most: usize) -> Message {
    if size_of(std::slice::from_ref(message)) <= most {
        return message.clone();
    }
    let each = most / message.blocks.len().max(1);
    let shown = message.blocks.iter().filter_map(|block| match block {
        // A thinking block cannot be shortened, because its signature covers the complete block.
        // Leave it out.
        Block::Thinking { .. } | Block::RedactedThinking { .. } => None,
        Block::ToolUse { id, name, .. } if size_of_block(block) > each => {
            Some(Block::tool_use(id.clone(), name.clone(), json!({"left_out": LEFT_OUT})))
        }
        Block::Image { .. } => Some(Block::text(NO_PICTURE)),
        block => Some(shortened_block(block, each).unwrap_or_else(|| block.clone())),
    });
    Message { blocks: shown.collect(), ..message.clone() }
}

/// Returns a text or tool result shortened to `most` characters. Returns `None` if the block is
/// short enough or of another kind.
fn shortened_block(block: &Block, most: usize) -> Option<Block> {
    if size_of_block(block) <= most {
        return None;
    }
    let cut = |text: &str| text.chars().take(most).collect::<String>() + SHORTENED;
    match block {
        Block::Text { text, .. } => Some(Block::text(cut(text))),
        Block::ToolResult { content: Some(result), .. } => {
            let mut short = block.clone();
            if let Block::ToolResult { content, .. } = &mut short {
                *content = Some(ToolContent::Text(cut(&result.text())));
            }
            Some(short)
        }
        Block::ToolResult { content: None, .. }
        | Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::ToolUse { .. }
        | Block::Image { .. }
        | Block::Other(_) => None,
    }
}

/// Returns the text shortened to `most` characters, with a note about the missing part at its end.
pub fn shortened(text: &str, most: usize) -> String {
    let all = text.chars().count();
    if all <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most).collect();
    format!("{kept}\n[{} left out here.]", counted_is(all - most, "more character"))
}

/// Returns the approximate number of tokens in this number of characters.
pub fn tokens_of(chars: usize) -> u64 {
    u64::try_from(chars / TOKEN_CHARS).unwrap_or(u64::MAX)
}

fn size_of(messages: &[Message]) -> usize {
    messages.iter().flat_map(|message| &message.blocks).map(size_of_block).sum()
}

fn size_of_block(block: &Block) -> usize {
    match block {
        Block::Text { text, .. } => text.chars().count(),
        Block::Thinking { thinking, signature, .. } => thinking.chars().count() + signature.len(),
        Block::RedactedThinking { data, .. } => data.len(),
        Block::ToolUse { name, input, .. } => name.len() + input.to_string().len(),
        Block::ToolResult { content: Some(ToolContent::Blocks(blocks)), .. } => {
            blocks.iter().map(size_of_block).sum()
        }
        Block::ToolResult { content: Some(ToolContent::Text(text)), .. } => text.chars().count(),
        Block::ToolResult { content: None, .. } => 0,
        Block::Image { .. } => PICTURE_CHARS,
        Block::Other(value) => value.to_string().len(),
    }
}

#[cfg(test)]
mod tests;
