//! What a compaction makes of a conversation: a briefing and a summary take the place of the messages, and nothing else
//! changes. How full the conversation is stands here too; when it is full is the agent's to judge.

use std::sync::Arc;

use pitcrew_model::{Block, Message, Role, ToolContent, Usage};

use super::Conversation;

/// How much of each text that the model has not answered yet stays beside the summary. Longer than mail ever is; a prompt
/// stands in the briefing.
const UNANSWERED_CHARS: usize = 20_000;

/// Characters that make up a token, about.
const TOKEN_CHARS: usize = 4;

/// What a picture counts for, in characters: about as much as it takes of a context.
const PICTURE_CHARS: usize = 6_000;

/// What stands where older messages were, when not even the summary can be made of all of them.
const LEFT_OUT: &str = "[What follows this in the conversation is too long to be shown. It goes on later:]";

/// How much of its model's context a conversation fills, as far as the model has told.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Fill {
    /// What the last answer says.
    tokens: u64,
    /// What was filled right after the last compaction: less than that cannot be had.
    floor: Option<u64>,
    /// Whether there was an answer since the last compaction, or ever.
    has_answer: bool,
}

impl Fill {
    pub(super) fn answered(&mut self, usage: Usage) {
        self.tokens = usage.context_tokens();
        if !self.has_answer && self.floor.is_some() {
            self.floor = Some(self.tokens);
        }
        self.has_answer = true;
    }
}

impl Conversation {
    /// How many tokens of its context the conversation fills: what the last answer told, and what came since, about. 0 when
    /// nothing was told.
    #[must_use]
    pub fn filled(&self) -> u64 {
        let since = self.messages.last().filter(|last| last.role == Role::User && self.fill.tokens > 0);
        self.fill.tokens.saturating_add(since.map_or(0, |last| tokens_of(size_of(std::slice::from_ref(last)))))
    }

    /// How many tokens were filled right after the last compaction; 0 without one.
    #[must_use]
    pub fn floor(&self) -> u64 {
        self.fill.floor.unwrap_or(0)
    }

    /// Whether a compaction can be of use: the model has answered since the last, and no call waits for its result.
    #[must_use]
    pub fn can_be_compacted(&self) -> bool {
        self.fill.has_answer && self.open.is_empty()
    }

    /// The size of the messages, in characters.
    #[must_use]
    pub fn size(&self) -> usize {
        size_of(&self.messages)
    }

    /// The size that the messages would have after a compaction.
    #[must_use]
    pub fn size_compacted(&self, briefing: &str, summary: &str) -> usize {
        size_of(&[self.compacted(briefing, summary)])
    }

    /// The conversation as it is put before a model to be summarised, without `left_out` messages after the first.
    #[must_use]
    pub fn to_summarise(&self, left_out: usize) -> Vec<Message> {
        let Some((first, rest)) = self.messages.split_first().filter(|_| left_out > 0) else {
            return self.messages.to_vec();
        };
        let mut shown = vec![first.clone()];
        if let Some(first) = shown.first_mut() {
            first.blocks.push(Block::text(LEFT_OUT));
        }
        // A call and its results stay together, and speakers take turns.
        let rest = rest.iter().skip(left_out).skip_while(|message| message.role == Role::User);
        shown.extend(rest.cloned());
        shown
    }

    /// How many messages the next try to summarise leaves out: half of those that were shown; `None` when few are left.
    #[must_use]
    pub fn next_left_out(&self, left_out: usize) -> Option<usize> {
        let shown = self.messages.len().saturating_sub(1).saturating_sub(left_out);
        (shown > 2).then_some(left_out + shown.div_ceil(2))
    }

    pub(super) fn compact(&mut self, briefing: &str, summary: &str) {
        self.messages = Arc::new(vec![self.compacted(briefing, summary)]);
        self.turns = self.turns.saturating_add(1);
        self.fill = Fill { tokens: 0, floor: Some(0), has_answer: false };
    }

    pub(super) fn keep_as_it_is(&mut self) {
        self.turns = self.turns.saturating_add(1);
        self.fill = Fill { floor: Some(self.filled()), has_answer: false, ..self.fill };
    }

    /// The one message that a compacted conversation begins with. What the model has not answered yet follows the summary.
    fn compacted(&self, briefing: &str, summary: &str) -> Message {
        let last = self.messages.last().filter(|last| last.role == Role::User);
        let unanswered = last.into_iter().flat_map(|last| &last.blocks).filter_map(Block::as_text);
        let unanswered = unanswered.map(|text| Block::text(shortened(text, UNANSWERED_CHARS)));
        Message::user([briefing, summary].into_iter().map(Block::text).chain(unanswered).collect())
    }
}

/// A text within a bound, with a word on what is missing.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let all = text.chars().count();
    if all <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most).collect();
    format!("{kept}\n[{} more characters are left out here.]", all - most)
}

/// How many tokens so many characters are, about.
pub(crate) fn tokens_of(chars: usize) -> u64 {
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
        Block::ToolResult { content: Some(ToolContent::Blocks(blocks)), .. } => blocks.iter().map(size_of_block).sum(),
        Block::ToolResult { content: Some(ToolContent::Text(text)), .. } => text.chars().count(),
        Block::ToolResult { content: None, .. } => 0,
        Block::Image { .. } => PICTURE_CHARS,
        Block::Other(value) => value.to_string().len(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use pitcrew_protocol::MessageId;
    use serde_json::json;

    use super::*;
    use crate::tools::Seen;
    use crate::transcript::{Grant, Step};

    fn id(text: &str) -> MessageId {
        MessageId(text.to_owned())
    }

    fn says(tokens: u64, blocks: Vec<Block>) -> Step {
        Step::Assistant { blocks, usage: Usage { input_tokens: tokens, ..Usage::default() }, cost_usd: None }
    }

    fn compacted() -> Step {
        let (briefing, summary) = ("who you are".to_owned(), "what was".to_owned());
        Step::Compacted { briefing, summary, usage: Usage::default(), cost_usd: None }
    }

    fn folded(steps: &[Step]) -> Conversation {
        let mut conversation = Conversation::default();
        steps.iter().for_each(|step| conversation.apply(step));
        conversation
    }

    fn texts(conversation: &Conversation) -> Vec<&str> {
        let blocks = conversation.messages().iter().flat_map(|message| &message.blocks);
        blocks.filter_map(Block::as_text).collect()
    }

    /// A conversation in which everything happened that a compaction must not lose.
    fn eventful() -> Vec<Step> {
        let grant = Grant::Allowed { input: None, updates: vec![json!({"type": "setMode", "mode": "acceptEdits"})] };
        vec![
            Step::Told { text: "the prompt".to_owned() },
            Step::Instructed { text: "and this".to_owned() },
            says(50, vec![Block::thinking("hm", "signed"), Block::tool_use("a", "Read", json!({}))]),
            Step::Granted { ids: vec![id("g")], call: "a".to_owned(), grant },
            Step::Result {
                call: "a".to_owned(),
                text: "x".repeat(500),
                is_error: false,
                context: Vec::new(),
                seen: vec![Seen { path: "/f".into(), sha256: "00".to_owned() }],
            },
            Step::PlanSent { request: "plan-1".to_owned() },
            Step::ShutdownAsked { request: "s-1".to_owned() },
            Step::Mail { ids: vec![id("m")], text: "a question".to_owned() },
        ]
    }

    #[test]
    fn after_a_compaction_come_the_briefing_the_summary_and_what_is_not_answered_yet() {
        let mut conversation = folded(&eventful());
        conversation.apply(&compacted());
        assert_eq!(texts(&conversation), ["who you are", "what was", "a question"]);
        assert!(conversation.wants_answer());
        conversation.apply(&Step::Told { text: "go on".to_owned() });
        assert_eq!(texts(&conversation), ["who you are", "what was", "a question", "go on"]);
    }

    #[test]
    fn what_the_team_relies_on_outlives_a_compaction() {
        let before = folded(&eventful());
        let mut after = before.clone();
        after.apply(&compacted());
        for id in [id("g"), id("m")] {
            assert!(after.holds(&id), "{id}");
        }
        assert_eq!(after.prompts(), ["the prompt", "and this"]);
        assert_eq!((after.plan(), after.shutdown()), (Some("plan-1"), Some("s-1")));
        assert_eq!(after.updates(), before.updates());
        assert_eq!(after.seen().map(|seen| seen.path.clone()).collect::<Vec<_>>(), [PathBuf::from("/f")]);
        assert_eq!(after.turns(), before.turns() + 1, "the summary was a call of the model");
        after.apply(&Step::Mail { ids: vec![id("m")], text: "a question".to_owned() });
        assert_eq!(texts(&after).iter().filter(|text| **text == "a question").count(), 1);
    }

    #[test]
    fn a_call_id_from_before_a_compaction_is_told_apart_from_the_same_one_after_it() {
        let mut conversation = folded(&eventful());
        conversation.apply(&compacted());
        conversation.apply(&says(10, vec![Block::tool_use("a", "Read", json!({}))]));
        let call = &conversation.open_calls()[0].call;
        assert_ne!(call.key, call.id);
    }

    #[test]
    fn a_compaction_is_of_no_use_before_the_model_has_answered_again() {
        let mut conversation = folded(&[Step::Told { text: "go".to_owned() }]);
        assert!(!conversation.can_be_compacted());
        conversation.apply(&says(90, vec![Block::text("so")]));
        assert!(conversation.can_be_compacted());
        assert_eq!((conversation.filled(), conversation.floor()), (90, 0));
        conversation.apply(&compacted());
        assert!(!conversation.can_be_compacted());
        conversation.apply(&says(40, vec![Block::text("so")]));
        conversation.apply(&says(60, vec![Block::tool_use("b", "Read", json!({}))]));
        assert_eq!((conversation.filled(), conversation.floor()), (60, 40));
        assert!(!conversation.can_be_compacted(), "a call waits for its result");
        conversation.apply(&Step::Result {
            call: "b".to_owned(),
            text: "x".repeat(400),
            is_error: false,
            context: Vec::new(),
            seen: Vec::new(),
        });
        assert_eq!(conversation.filled(), 160);
    }

    #[test]
    fn a_long_text_that_is_not_answered_is_cut_and_says_so() {
        let mut conversation = folded(&eventful());
        conversation.apply(&Step::Told { text: "y".repeat(UNANSWERED_CHARS + 7) });
        conversation.apply(&compacted());
        let last = texts(&conversation).pop().unwrap().to_owned();
        assert!(last.ends_with("y\n[7 more characters are left out here.]"), "{}", last.len());
    }

    #[test]
    fn what_is_left_out_of_a_summary_leaves_calls_with_their_results() {
        let mut steps = vec![Step::Told { text: "go".to_owned() }];
        for call in ["a", "b", "c", "d"] {
            steps.push(says(1, vec![Block::tool_use(call, "Read", json!({}))]));
            steps.push(Step::Result {
                call: call.to_owned(),
                text: call.to_owned(),
                is_error: false,
                context: Vec::new(),
                seen: Vec::new(),
            });
        }
        let conversation = folded(&steps);
        let mut left_out = 0;
        let mut shown = vec![conversation.to_summarise(0).len()];
        while let Some(next) = conversation.next_left_out(left_out) {
            left_out = next;
            let messages = conversation.to_summarise(left_out);
            for pair in messages.windows(2) {
                assert_ne!(pair[0].role, pair[1].role);
            }
            assert_eq!(messages[0].blocks.len(), 2, "it says that something is missing");
            shown.push(messages.len());
        }
        assert_eq!(shown, [9, 5, 3]);
    }
}
