//! One model call: the trait, the request and the response.

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
/// A model stores no conversation, because every call contains the whole conversation. So any
/// number of agents can share one model at the same time.
pub trait Model: Send + Sync {
    /// Returns the model's name with its vendor, such as `anthropic/claude-opus-5-5`.
    fn id(&self) -> &str;

    /// Returns the maximum number of tokens in a conversation, if it is known.
    fn context_window(&self) -> Option<u64>;

    /// Prepares a call and returns the stream of its events. The call begins when the stream is
    /// polled for the first time. Dropping the stream cancels the call.
    fn respond(&self, request: Request) -> ResponseStream;
}

/// The events of one call. After any number of events, the last item is either
/// [`StreamEvent::Finished`] or an error.
pub type ResponseStream = Pin<Box<dyn Stream<Item = Result<StreamEvent, ModelError>> + Send>>;

/// The input of one call.
///
/// A conversation is long, and a failed call is repeated. So clones of a request share the large
/// parts instead of copying them.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The agent that makes the call.
    pub agent: AgentTag,
    /// The blocks of the system prompt.
    pub system: Vec<Arc<str>>,
    /// The conversation so far, the oldest message first.
    pub messages: Arc<Vec<Message>>,
    /// The tools that the model is allowed to call.
    pub tools: Arc<[ToolSpec]>,
    /// Maximum number of tokens in the answer.
    pub max_output_tokens: u32,
}

/// The agent that makes a call. A scripted model chooses its answer by this value. Other models
/// ignore it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentTag {
    /// The agent's name. It stays the same in all calls of the agent.
    pub name: String,
    /// The name of the agent's team, if it has one.
    pub team: Option<String>,
}

/// The description of a tool for the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The tool's name, as the model uses it in calls.
    pub name: String,
    /// What the tool does, and when to use it.
    pub description: String,
    /// The JSON schema of the tool's arguments, with `type: object` at the top level.
    pub input_schema: Value,
}

/// An event during a model's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// The next piece of text.
    TextDelta(String),
    /// The next piece of a thought.
    ThinkingDelta(String),
    /// The model has begun to write a tool call.
    ToolStarted {
        /// The name of the tool.
        name: String,
    },
    /// The call waits before its first or next attempt. The receiver must drop all earlier deltas,
    /// because the answer starts again.
    Waiting {
        /// The reason for waiting, for a person to read.
        reason: String,
        /// The approximate waiting time.
        delay: Duration,
    },
    /// The server has sent nothing for `silent_for`. The call still waits for the server.
    Silent {
        /// The time since the server last sent anything.
        silent_for: Duration,
    },
    /// The complete answer. This is the last event.
    Finished(Response),
}

/// A complete answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The id that the vendor gave to the message.
    pub id: String,
    /// The vendor's name for the model that answered.
    pub model: String,
    /// The blocks of the answer, in order. The list may be empty.
    pub blocks: Vec<Block>,
    /// The reason why the model stopped.
    pub stop: StopReason,
    /// The tokens that the call used.
    pub usage: Usage,
}

/// The reason why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum StopReason {
    /// The model's answer is complete.
    EndTurn,
    /// The model has called tools and waits for their results.
    ToolUse,
    /// The answer reached its token limit.
    MaxTokens,
    /// The model wrote a stop sequence.
    StopSequence,
    /// The model refused to answer, or a filter of its vendor stopped the answer.
    Refusal,
    /// Any other reason, as the vendor names it.
    Other(String),
}

impl StopReason {
    /// Returns the reason in the spelling of the Messages API.
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

impl From<String> for StopReason {
    fn from(reason: String) -> Self {
        match reason.as_str() {
            "end_turn" => Self::EndTurn,
            "tool_use" => Self::ToolUse,
            "max_tokens" => Self::MaxTokens,
            "stop_sequence" => Self::StopSequence,
            "refusal" => Self::Refusal,
            _ => Self::Other(reason),
        }
    }
}

impl From<StopReason> for String {
    fn from(reason: StopReason) -> Self {
        reason.as_str().to_owned()
    }
}

/// The number of tokens of a call. As in the Messages API, each token is counted in exactly one of
/// the four fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Input tokens that were neither written to the cache nor read from it.
    pub input_tokens: u64,
    /// Output tokens, including thoughts.
    pub output_tokens: u64,
    /// Input tokens that were written to the cache.
    pub cache_creation_input_tokens: u64,
    /// Input tokens that were read from the cache.
    pub cache_read_input_tokens: u64,
}

impl Usage {
    /// Returns how many tokens the conversation has after the call: all input tokens and the output
    /// tokens.
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
