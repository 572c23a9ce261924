//! The lines of a transcript: all kinds of steps that a conversation can have.

use pitcrew_model::{Block, StopReason, Usage};
use pitcrew_protocol::{AgentName, MessageId, Status};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::FileSeen;

/// One line of a transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The number of the line in the transcript, starting at 1.
    pub seq: u64,
    /// The step in this line.
    #[serde(flatten)]
    pub step: Step,
}

/// One step of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Step {
    /// The model got a text that is not mail, such as the prompt, a reminder or a text from a hook.
    Told {
        /// The text for the model.
        text: String,
    },
    /// The user gave an instruction after the prompt. The conversation also keeps the instruction
    /// in its list of prompts, which a compaction does not change.
    Instructed {
        /// The text of the instruction.
        text: String,
    },
    /// Mail was delivered to the agent.
    Mail {
        /// The ids of the delivered messages.
        ids: Vec<MessageId>,
        /// The text for the model. It is empty if the model need not read the mail.
        text: String,
    },
    /// The lead was informed that teammates ended. It is informed only once of each end.
    Parted {
        /// The names of the teammates that ended.
        members: Vec<AgentName>,
        /// The message ids of the shutdown approvals of these teammates. With this step, the
        /// messages count as delivered.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ids: Vec<MessageId>,
        /// The text for the model about the end of the teammates.
        text: String,
    },
    /// The lead was informed that teammates continue. It had been informed of their end before.
    Rejoined {
        /// The names of the teammates that continue.
        members: Vec<AgentName>,
        /// The text for the model about the teammates that continue.
        text: String,
    },
    /// The lead has created another team. The new teammates can have the names of earlier
    /// teammates. Ends of teammates with these names are reported again.
    TeamMade,
    /// The model answered.
    Assistant {
        /// The blocks of the answer.
        blocks: Vec<Block>,
        /// The tokens of the model call.
        usage: Usage,
        /// The cost of the model call, if it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// The fault of the answer, if it has one. Older transcripts never contain this field.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<AnswerFault>,
    },
    /// A hook replaced the input of a tool call. The model's answer keeps the original input.
    Replaced {
        /// The id of the tool call.
        call: String,
        /// The input with which the call is judged, asked about and run.
        input: Value,
    },
    /// A tool call was started. After a crash, it must not be repeated without a check.
    Began {
        /// The id of the tool call.
        call: String,
    },
    /// A permission request about a tool call was sent.
    Asked {
        /// The id of the tool call.
        call: String,
        /// The id of the permission request.
        request: String,
    },
    /// A permission request was answered.
    Granted {
        /// The ids of the messages that contained the answer.
        ids: Vec<MessageId>,
        /// The id of the tool call that needed the permission.
        call: String,
        /// The answer to the permission request.
        grant: Grant,
    },
    /// A tool call has its result.
    Result {
        /// The id of the tool call.
        call: String,
        /// The result as text for the model.
        text: String,
        /// Whether the call failed.
        is_error: bool,
        /// The texts that hooks add to the result.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        context: Vec<String>,
        /// The files whose content the agent learned through this call. After a crash, the agent is
        /// still allowed to change these files.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        seen: Vec<FileSeen>,
    },
    /// The agent sent a plan to the lead.
    PlanSent {
        /// The id of the plan approval request.
        request: String,
    },
    /// The lead answered the agent's plan.
    PlanAnswered {
        /// The id of the plan approval request.
        request: String,
    },
    /// The agent was asked to shut down.
    ShutdownAsked {
        /// The id of the shutdown request.
        request: String,
    },
    /// The agent refused to shut down.
    ShutdownRefused,
    /// The conversation was too long for its model. Only the newest tool results stayed complete,
    /// and the others were removed.
    Cut {
        /// The number of tool results that stay complete.
        keep: usize,
    },
    /// The conversation was too long for its model, and a summary was not possible. The texts and
    /// results that the model had not answered were shortened.
    Shortened {
        /// The maximum number of characters that each text or result keeps.
        most: usize,
    },
    /// The conversation nearly filled the context window of its model. A summary replaced the
    /// messages.
    Compacted {
        /// A description of the team, the agent's identity, its task and its open requests. The
        /// description is made from the team's files. The model does not write it.
        briefing: String,
        /// The summary of the earlier conversation in the model's own words.
        summary: String,
        /// Maximum total number of characters of the unanswered texts after the summary. Longer
        /// texts are shortened. If the field is missing, an older version wrote the step, and each
        /// text kept its first 20,000 characters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept_chars: Option<usize>,
        /// The tokens of all model calls for this summary, including the calls that returned an
        /// empty summary.
        usage: Usage,
        /// The cost of all model calls for this summary. A cost that is not known counts as zero.
        /// `None` if no cost is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
    /// A summary was made but not used, because it was empty or did not make the conversation
    /// shorter.
    NotCompacted {
        /// The tokens of the call that made the summary.
        usage: Usage,
        /// The cost of the call that made the summary, if it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
    /// The turn ended, and all notices about its end were sent.
    Rested,
    /// The agent ended.
    Ended {
        /// The agent's final status.
        status: Status,
        /// The reason for the end, if the final status does not explain it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// The answer to a permission request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// The call is allowed to run, possibly with a changed input.
    Allowed {
        /// The changed input. `None` if the input is unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Value>,
        /// The permission updates that apply from now on, in the wire format.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        updates: Vec<Value>,
    },
    /// The call is not allowed to run.
    Denied {
        /// The reason for the refusal, as text for the model.
        reason: String,
    },
}

/// The fault of an answer of the model. The model call itself did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerFault {
    /// The model, or a filter of its vendor, refused to answer.
    Refused,
    /// The answer was cut off at its maximum length, or because the context window was full.
    Truncated,
    /// The answer has no text and no tool call.
    Empty,
}

impl AnswerFault {
    /// Returns the fault of an answer that has these blocks and this stop reason, or `None` if it
    /// has no fault.
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

/// Anthropic's stop reason for an answer that was cut off because the context window was full.
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
