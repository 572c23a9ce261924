//! One call of a model: the trait, what goes in and what comes out.

use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Block, Message, ModelError};

/// A language model.
///
/// It holds no conversation: every call brings all of it, so one model serves any number of agents at once.
pub trait Model: Send + Sync {
    /// Returns the model's name with its vendor, such as `anthropic/claude-opus-5-5`.
    fn id(&self) -> &str;

    /// Returns how many tokens a conversation may hold, where that is known.
    fn context_window(&self) -> Option<u64>;

    /// Starts a call. Nothing happens before the stream is polled, and dropping the stream ends the call.
    fn respond(&self, request: Request) -> ResponseStream;
}

/// The events of one call: any number of them, then [`StreamEvent::Finished`] once, or an error as the last item.
pub type ResponseStream = Pin<Box<dyn Stream<Item = Result<StreamEvent, ModelError>> + Send>>;

/// The input of one call.
///
/// Conversations are long and calls are made again, so a copy of a request shares what it holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Who asks.
    pub agent: AgentTag,
    /// The system prompt, in blocks.
    pub system: Vec<Arc<str>>,
    /// The conversation so far, the oldest message first.
    pub messages: Arc<Vec<Message>>,
    /// The tools the model may call.
    pub tools: Arc<[ToolSpec]>,
    /// How many tokens the answer may have.
    pub max_output_tokens: u32,
}

/// Who asks: scripted models select on it, the others ignore it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentTag {
    /// The agent's name, the same for all its turns.
    pub name: String,
    /// The team's name, if it is on one.
    pub team: Option<String>,
}

/// A tool as the model is told of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name the model calls it by.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON schema of its arguments; `type: object` at the top.
    pub input_schema: Value,
}

/// What happens while a model answers.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// More text.
    TextDelta(String),
    /// More of a thought.
    ThinkingDelta(String),
    /// The model began to write a call of a tool.
    ToolStarted {
        /// The tool.
        name: String,
    },
    /// The call waits before it is made, or made again. The deltas so far are void: the answer starts anew.
    Waiting {
        /// Why, for a person to read.
        reason: String,
        /// How long, about.
        delay: Duration,
    },
    /// Nothing of the answer came for so long; the call goes on.
    Silent {
        /// How long.
        silent_for: Duration,
    },
    /// The whole answer; the last event.
    Finished(Response),
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The vendor's id of the message.
    pub id: String,
    /// The model that answered, as the vendor names it.
    pub model: String,
    /// The answer's blocks, in order; may be empty.
    pub blocks: Vec<Block>,
    /// Why the model stopped.
    pub stop: StopReason,
    /// What was used.
    pub usage: Usage,
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// It had said what it had to say.
    EndTurn,
    /// It waits for the results of its tool calls.
    ToolUse,
    /// The answer reached its limit.
    MaxTokens,
    /// A stop sequence came up.
    StopSequence,
    /// It, or a filter of its vendor, declined.
    Refusal,
    /// A reason we do not know.
    Other(String),
}

impl StopReason {
    /// Returns the reason as the Messages API spells it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::StopSequence => "stop_sequence",
            Self::Refusal => "refusal",
            Self::Other(reason) => reason,
        }
    }
}

/// Tokens used, counted as the Messages API does: the four kinds do not overlap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Input that was neither written to nor read from the cache.
    pub input_tokens: u64,
    /// Output, thoughts included.
    pub output_tokens: u64,
    /// Input that was written to the cache.
    pub cache_creation_input_tokens: u64,
    /// Input that was read from the cache.
    pub cache_read_input_tokens: u64,
}

impl Usage {
    /// Returns how much of the context the call filled: all its input and its output.
    pub fn context_tokens(&self) -> u64 {
        self.input_tokens
            .saturating_add(self.output_tokens)
            .saturating_add(self.cache_creation_input_tokens)
            .saturating_add(self.cache_read_input_tokens)
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cache_creation_input_tokens: self
                .cache_creation_input_tokens
                .saturating_add(other.cache_creation_input_tokens),
            cache_read_input_tokens: self
                .cache_read_input_tokens
                .saturating_add(other.cache_read_input_tokens),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(usages: I) -> Self {
        usages.fold(Self::default(), Add::add)
    }
}
