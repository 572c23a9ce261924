//! The lines of a transcript: every step that a conversation can have.

use pitcrew_model::{Block, StopReason, Usage};
use pitcrew_protocol::{AgentName, MessageId, Status};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::FileSeen;

/// One line of a transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The number of the line, starting at 1.
    pub seq: u64,
    /// The step.
    #[serde(flatten)]
    pub step: Step,
}

/// One step of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Step {
    /// A text for the model that is not mail, such as the prompt, a reminder or a hook's text.
    Told {
        /// The text.
        text: String,
    },
    /// An instruction in addition to the prompt. It is kept whole for the agent's lifetime.
    Instructed {
        /// The text.
        text: String,
    },
    /// Mail was delivered.
    Mail {
        /// The ids of the messages.
        ids: Vec<MessageId>,
        /// The text for the model, or empty if there is nothing for the model to read.
        text: String,
    },
    /// The lead learned that teammates ended. The lead learns of each end only once.
    Parted {
        /// The teammates that ended.
        members: Vec<AgentName>,
        /// The shutdown approvals of these teammates, which count as delivered by this step.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ids: Vec<MessageId>,
        /// The text for the model.
        text: String,
    },
    /// The lead learned that teammates continue. Their end had been reported to the lead before.
    Rejoined {
        /// The teammates that continue.
        members: Vec<AgentName>,
        /// The text for the model.
        text: String,
    },
    /// The lead has created another team. The new teammates may have the names of earlier ones, so
    /// an end is reported again for these names.
    TeamMade,
    /// The model answered.
    Assistant {
        /// The blocks of the answer.
        blocks: Vec<Block>,
        /// Usage of the call.
        usage: Usage,
        /// Cost of the call, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// The fault of the answer. Absent in older transcripts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<AnswerFault>,
    },
    /// A call was started. The call must not be repeated without a check.
    Began {
        /// The id of the call.
        call: String,
    },
    /// A permission was asked for.
    Asked {
        /// The id of the call.
        call: String,
        /// The id of the request.
        request: String,
    },
    /// A permission request was answered.
    Granted {
        /// The messages that contained the answer.
        ids: Vec<MessageId>,
        /// The id of the call.
        call: String,
        /// The answer.
        grant: Grant,
    },
    /// A call has its result.
    Result {
        /// The id of the call.
        call: String,
        /// The text for the model.
        text: String,
        /// Whether the call failed.
        is_error: bool,
        /// Texts that hooks add to the result, one entry for each text.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        context: Vec<String>,
        /// The files that the agent has seen through this call. They are recorded so that the agent
        /// may still change these files after a crash.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        seen: Vec<FileSeen>,
    },
    /// A plan was sent to the lead.
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
    /// The agent refused to shut down.
    ShutdownRefused,
    /// The conversation was too long for its model, so all but the newest tool results were cut.
    Cut {
        /// Number of results that stay whole.
        keep: usize,
    },
    /// The conversation was too long for its model and could not be summarised, so the unanswered
    /// texts and results were shortened.
    Shortened {
        /// Maximum number of characters that stay of each text or result.
        most: usize,
    },
    /// The conversation nearly filled its model's window, and a summary replaced it.
    Compacted {
        /// A description of the team, the agent's identity, its task and its open requests. The
        /// description comes from the team's files, not from the model.
        briefing: String,
        /// The past events in the model's own words.
        summary: String,
        /// How many characters of unanswered texts stay whole after the summary. Absent in older
        /// transcripts, where each text kept its first 20,000.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept_chars: Option<usize>,
        /// Usage of the summary call.
        usage: Usage,
        /// Cost of the call, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
    /// A summary was made but not used, because it is empty or not shorter than the conversation.
    NotCompacted {
        /// Usage of the summary call.
        usage: Usage,
        /// Cost of the call, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
    /// The turn ended, and all notices about it were sent.
    Rested,
    /// The agent ended.
    Ended {
        /// The final status.
        status: Status,
        /// The reason, if it is not obvious.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// The answer to a permission question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// The call may run, possibly with a changed input.
    Allowed {
        /// The changed input, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Value>,
        /// Further permissions from now on, in the wire format.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        updates: Vec<Value>,
    },
    /// The call may not run.
    Denied {
        /// The reason, for the model.
        reason: String,
    },
}

/// A fault of a finished answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerFault {
    /// The model, or a filter of its vendor, refused to answer.
    Refused,
    /// The answer was cut off at its maximum length, or at the end of the model's window.
    Truncated,
    /// The answer has no text and no tool call.
    Empty,
}

impl AnswerFault {
    /// Returns the fault of an answer with these blocks and this stop reason.
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

    /// Returns the fault as text.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Refused => "the model refused the last answer",
            Self::Truncated => "the last answer was cut off at its greatest length",
            Self::Empty => "the last answer is empty",
        }
    }
}

/// Anthropic's stop reason for an answer that filled the model's window.
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
