//! The lines of a transcript: everything that can happen in a conversation.

use pitcrew_model::{Block, StopReason, Usage};
use pitcrew_protocol::{AgentName, MessageId, Status};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::FileSeen;

/// One line of a transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its place, from 1 up.
    pub seq: u64,
    /// What happened.
    #[serde(flatten)]
    pub step: Step,
}

/// What can happen in a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Step {
    /// The agent was told something that is no mail: its prompt, a reminder, what a hook said.
    Told {
        /// The text.
        text: String,
    },
    /// The agent was given something to do, beside its prompt: it is kept whole as long as the agent lives.
    Instructed {
        /// The text.
        text: String,
    },
    /// Mail was delivered.
    Mail {
        /// The messages.
        ids: Vec<MessageId>,
        /// What the model reads; empty when there is nothing for it to read.
        text: String,
    },
    /// The lead was told of the end of teammates; of nobody's a second time.
    Parted {
        /// Those who ended.
        members: Vec<AgentName>,
        /// Their goodbyes, which are delivered by this.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ids: Vec<MessageId>,
        /// What the model reads.
        text: String,
    },
    /// The lead was told that teammates go on whose end it had been told.
    Rejoined {
        /// Those who go on.
        members: Vec<AgentName>,
        /// What the model reads.
        text: String,
    },
    /// The lead has made another team: its teammates may have the names of earlier ones, and their end is told as well.
    TeamMade,
    /// The model answered.
    Assistant {
        /// Its blocks.
        blocks: Vec<Block>,
        /// What the call used.
        usage: Usage,
        /// What the call cost, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// What is wrong with the answer; absent in older transcripts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<AnswerFault>,
    },
    /// A call was started that must not blindly be made a second time.
    Began {
        /// The call.
        call: String,
    },
    /// A permission was asked for.
    Asked {
        /// The call.
        call: String,
        /// The id of the request.
        request: String,
    },
    /// A permission was given or refused.
    Granted {
        /// The messages that brought the answer.
        ids: Vec<MessageId>,
        /// The call.
        call: String,
        /// The answer.
        grant: Grant,
    },
    /// A call has its result.
    Result {
        /// The call.
        call: String,
        /// What the model reads.
        text: String,
        /// Whether the call failed.
        is_error: bool,
        /// What hooks add, one text each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        context: Vec<String>,
        /// The files the agent has seen by it, so that it may still change them after a crash.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        seen: Vec<FileSeen>,
    },
    /// A plan went to the lead.
    PlanSent {
        /// The id of the request.
        request: String,
    },
    /// The lead answered the plan.
    PlanAnswered {
        /// The id of the request.
        request: String,
    },
    /// The agent was asked to shut down.
    ShutdownAsked {
        /// The id of the request.
        request: String,
    },
    /// The agent told the lead that it does not shut down.
    ShutdownRefused,
    /// The conversation became too long for its model: the results of tools were cut, all but the newest ones.
    Cut {
        /// How many results stay whole.
        keep: usize,
    },
    /// The conversation became too long for its model, and could not be summed up: the texts and results that the model has
    /// not answered yet were shortened.
    Shortened {
        /// How many characters of each stay.
        most: usize,
    },
    /// The conversation came near the end of what its model can read, and a summary took its place.
    Compacted {
        /// What the team is, who the agent is, its task and what waits for an answer: from the team's files, unabridged.
        briefing: String,
        /// What happened, in the model's own words.
        summary: String,
        /// How many characters of what the model had not answered stay whole behind the summary; absent in older
        /// transcripts, where each text kept its first 20,000.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept_chars: Option<usize>,
        /// What the call for the summary used.
        usage: Usage,
        /// What it cost, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
    /// A summary was made and is not shorter than the conversation, which stays.
    NotCompacted {
        /// What the call for it used.
        usage: Usage,
        /// What it cost, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
    /// The turn ended, and everyone who is told of it has been told.
    Rested,
    /// The agent is no more.
    Ended {
        /// How.
        status: Status,
        /// Why, where that is not plain.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// The answer to a question for permission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// Go ahead, with this input where it differs.
    Allowed {
        /// The input to use instead of the call's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Value>,
        /// What else is allowed from now on, in the wire's form.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        updates: Vec<Value>,
    },
    /// No.
    Denied {
        /// Why, for the model to read.
        reason: String,
    },
}

/// What can be wrong with an answer that a model finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerFault {
    /// The model, or a filter of its vendor, refused it.
    Refused,
    /// It was cut off at its greatest length, or where the model can read no more.
    Truncated,
    /// It has no text and calls no tool.
    Empty,
}

impl AnswerFault {
    /// What is wrong with these blocks that ended for this reason.
    #[must_use]
    pub fn of(stop: &StopReason, blocks: &[Block]) -> Option<Self> {
        let has_text = blocks.iter().filter_map(Block::as_text).any(|text| !text.trim().is_empty());
        let has_call = blocks.iter().any(|block| matches!(block, Block::ToolUse { .. }));
        match stop {
            StopReason::Refusal => Some(Self::Refused),
            StopReason::MaxTokens => Some(Self::Truncated),
            StopReason::Other(reason) if reason == WINDOW_EXCEEDED => Some(Self::Truncated),
            StopReason::EndTurn
            | StopReason::ToolUse
            | StopReason::StopSequence
            | StopReason::Other(_) => (!has_text && !has_call).then_some(Self::Empty),
        }
    }

    /// The same in words.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Refused => "the model refused the last answer",
            Self::Truncated => "the last answer was cut off at its greatest length",
            Self::Empty => "the last answer is empty",
        }
    }
}

/// The reason by which Anthropic says that an answer filled the model's window.
const WINDOW_EXCEEDED: &str = "model_context_window_exceeded";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_faulty_when_it_is_cut_off_refused_or_without_a_word() {
        let of = |stop, blocks: &[Block]| AnswerFault::of(&stop, blocks);
        let word = [Block::text("So.")];
        assert_eq!(of(StopReason::EndTurn, &word), None);
        assert_eq!(of(StopReason::EndTurn, &[]), Some(AnswerFault::Empty));
        assert_eq!(
            of(StopReason::EndTurn, &[Block::text(" \n"), Block::thinking("hm", "s")]),
            Some(AnswerFault::Empty)
        );
        assert_eq!(of(StopReason::MaxTokens, &word), Some(AnswerFault::Truncated));
        assert_eq!(
            of(StopReason::Other("model_context_window_exceeded".to_owned()), &word),
            Some(AnswerFault::Truncated)
        );
        assert_eq!(of(StopReason::Refusal, &word), Some(AnswerFault::Refused));
    }
}
