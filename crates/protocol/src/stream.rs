//! The stream-json events of a client's run: one JSON object per line.
//!
//! Source: `fixtures/claude-2.1.39/stream-json/*.ndjson` and the stream document. The older tool
//! `Teammate` in that document is read like any other tool: as a name and an input. Unknown fields,
//! blocks and events are kept. The module `stream_ours` writes pitcrew's events.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::wire::wire_object;

wire_object! {
    /// The first event of a run.
    pub struct SystemInit {
        /// The event's type, always `system`.
        pub kind: String => "type" req,
        /// The event's subtype, always `init`.
        pub subtype: String => "subtype" req,
        /// The working folder of the run.
        pub cwd: String => "cwd" opt,
        /// The session's id, a UUID.
        pub session_id: String => "session_id" opt,
        /// The names of the available tools.
        pub tools: Vec<String> => "tools" opt,
        /// The name of the model.
        pub model: String => "model" opt,
        /// The permission mode of the run.
        pub permission_mode: String => "permissionMode" opt,
        /// The event's id.
        pub uuid: String => "uuid" opt,
    }
}

wire_object! {
    /// An event about the team. Only pitcrew writes this event. The event's type is `system`,
    /// because other programs that read the stream skip `system` events with an unknown subtype.
    pub struct TeamEvent {
        /// The event's type, always `system`.
        pub kind: String => "type" req,
        /// The event's subtype, always [`TeamEvent::SUBTYPE`].
        pub subtype: String => "subtype" req,
        /// The name of the event, such as `message_injected`.
        pub event: String => "event" req,
        /// The name of the team.
        pub team_name: String => "team_name" req,
        /// The agent id of the teammate that the event concerns.
        pub teammate_id: String => "teammate_id" opt,
        /// Further data, by name.
        pub data: Map<String, Value> => "data" opt,
        /// The session's id, a UUID.
        pub session_id: String => "session_id" opt,
        /// The event's id.
        pub uuid: String => "uuid" opt,
    }
}

wire_object! {
    /// An event that reports one block of a model's message: a text or a tool call. A message with
    /// several blocks becomes several events.
    pub struct AssistantEvent {
        /// The event's type, always `assistant`.
        pub kind: String => "type" req,
        /// The model's message.
        pub message: AssistantMessage => "message" req,
        /// The id of the tool call that started the agent which wrote this message. Absent for the
        /// lead.
        pub parent_tool_use_id: String => "parent_tool_use_id" opt,
        /// The session's id, a UUID.
        pub session_id: String => "session_id" opt,
        /// The event's id.
        pub uuid: String => "uuid" opt,
    }
}

wire_object! {
    /// A message of the model.
    pub struct AssistantMessage {
        /// The message's id. If a message has several blocks, the events of all its blocks have the
        /// same id.
        pub id: String => "id" opt,
        /// The message's type, always `message`, if present.
        pub kind: String => "type" opt,
        /// The message's role, always `assistant`.
        pub role: String => "role" req,
        /// The name of the model.
        pub model: String => "model" opt,
        /// The content of the message.
        pub content: Content => "content" req,
        /// The reason why the model stopped. Absent while the model is still writing.
        pub stop_reason: String => "stop_reason" opt,
        /// The stop sequence that ended the message.
        pub stop_sequence: String => "stop_sequence" opt,
        /// The tokens that the model call has used so far.
        pub usage: StreamUsage => "usage" opt,
    }
}

wire_object! {
    /// An input to the model: a prompt, or the result of a tool.
    pub struct UserEvent {
        /// The event's type, always `user`.
        pub kind: String => "type" req,
        /// The message to the model.
        pub message: UserMessage => "message" req,
        /// The id of the tool call that started the agent which receives this input. Absent for the
        /// lead.
        pub parent_tool_use_id: String => "parent_tool_use_id" opt,
        /// The session's id, a UUID.
        pub session_id: String => "session_id" opt,
        /// The event's id.
        pub uuid: String => "uuid" opt,
        /// The data of the tool's result. If the tool's input was refused, the data is a text.
        pub tool_use_result: Value => "tool_use_result" opt,
    }
}

wire_object! {
    /// A message to the model.
    pub struct UserMessage {
        /// The message's role, always `user`.
        pub role: String => "role" req,
        /// The content of the message.
        pub content: Content => "content" req,
    }
}

wire_object! {
    /// The last event of a run.
    pub struct ResultEvent {
        /// The event's type, always `result`.
        pub kind: String => "type" req,
        /// The outcome: `success`, or the kind of failure, such as `error_max_turns`.
        pub subtype: String => "subtype" req,
        /// Whether the run failed.
        pub is_error: bool => "is_error" opt,
        /// The duration of the run, in milliseconds.
        pub duration_ms: u64 => "duration_ms" opt,
        /// The part of the duration that was spent in model calls, in milliseconds.
        pub duration_api_ms: u64 => "duration_api_ms" opt,
        /// The number of turns.
        pub num_turns: u64 => "num_turns" opt,
        /// The last text that the model wrote.
        pub result: String => "result" opt,
        /// The reason why the model stopped.
        pub stop_reason: String => "stop_reason" opt,
        /// The session's id, a UUID.
        pub session_id: String => "session_id" opt,
        /// The cost of the run, in US dollars.
        pub total_cost_usd: f64 => "total_cost_usd" opt,
        /// The tokens that the session used.
        pub usage: StreamUsage => "usage" opt,
        /// The tokens and cost of each model.
        pub model_usage: Map<String, Value> => "modelUsage" opt,
        /// The tool calls that were denied.
        pub permission_denials: Vec<Value> => "permission_denials" opt,
        /// The teammates and subagents that failed, with the reasons. Only pitcrew writes this
        /// field. It is absent if no agent failed.
        pub failed_agents: Vec<FailedAgent> => "failed_agents" opt,
        /// The event's id.
        pub uuid: String => "uuid" opt,
    }
}

wire_object! {
    /// An agent that failed in the run.
    pub struct FailedAgent {
        /// The agent's name.
        pub name: String => "name" req,
        /// The agent's id. Subagents have no id.
        pub teammate_id: String => "teammate_id" opt,
        /// The reason for the failure, if known.
        pub reason: String => "reason" opt,
    }
}

wire_object! {
    /// Token counts of a model call or of a run.
    pub struct StreamUsage {
        /// Number of input tokens that were not in the cache.
        pub input_tokens: u64 => "input_tokens" opt,
        /// Number of tokens written to the cache.
        pub cache_creation_input_tokens: u64 => "cache_creation_input_tokens" opt,
        /// Number of tokens read from the cache.
        pub cache_read_input_tokens: u64 => "cache_read_input_tokens" opt,
        /// Number of output tokens.
        pub output_tokens: u64 => "output_tokens" opt,
        /// The calls of tools that run on the vendor's servers. Written only at the end of a run.
        pub server_tool_use: ServerToolUse => "server_tool_use" opt,
        /// The vendor's service tier. Written only at the end of a run.
        pub service_tier: String => "service_tier" opt,
        /// The tokens written to the cache, by the time for which they are cached. Written only at
        /// the end of a run.
        pub cache_creation: CacheCreation => "cache_creation" opt,
    }
}

wire_object! {
    /// Calls of tools that run on the vendor's servers.
    pub struct ServerToolUse {
        /// Number of web searches.
        pub web_search_requests: u64 => "web_search_requests" opt,
        /// Number of web pages fetched.
        pub web_fetch_requests: u64 => "web_fetch_requests" opt,
    }
}

wire_object! {
    /// The tokens written to the cache, by the time for which they are cached.
    pub struct CacheCreation {
        /// The number of tokens that are cached for one hour.
        pub one_hour: u64 => "ephemeral_1h_input_tokens" opt,
        /// The number of tokens that are cached for five minutes.
        pub five_minutes: u64 => "ephemeral_5m_input_tokens" opt,
    }
}

wire_object! {
    /// A block that contains a text.
    pub struct TextBlock {
        /// The block's type, always `text`.
        pub kind: String => "type" req,
        /// The text of the block.
        pub text: String => "text" req,
    }
}

wire_object! {
    /// A block that contains a call of any tool.
    pub struct ToolUseBlock {
        /// The block's type, always `tool_use`.
        pub kind: String => "type" req,
        /// The id of the call.
        pub id: String => "id" req,
        /// The name of the tool.
        pub name: String => "name" req,
        /// The input of the call.
        pub input: Value => "input" req,
    }
}

wire_object! {
    /// A block that contains the result of a tool call.
    pub struct ToolResultBlock {
        /// The id of the tool call that returned this result.
        pub tool_use_id: String => "tool_use_id" req,
        /// The block's type, always `tool_result`.
        pub kind: String => "type" req,
        /// The content of the result, for the model.
        pub content: Content => "content" opt,
        /// Whether the tool call failed.
        pub is_error: bool => "is_error" opt,
    }
}

/// The content of a message or of a tool's result.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A single text.
    Text(String),
    /// A list of blocks.
    Blocks(Vec<Block>),
}

impl Content {
    /// Returns all texts of the content, one per line.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => {
                let texts = blocks.iter().filter_map(|block| match block {
                    Block::Text(block) => Some(block.text.as_str()),
                    Block::ToolUse(_) | Block::ToolResult(_) | Block::Other(_) => None,
                });
                texts.collect::<Vec<_>>().join("\n")
            }
        }
    }

    /// Returns the blocks of the content. If the content is a single text, there are no blocks.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        match self {
            Self::Text(_) => &[],
            Self::Blocks(blocks) => blocks,
        }
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Blocks(blocks) => blocks.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let read = if raw.get().starts_with('"') {
            crate::tolerant::from_raw(&raw).map(Self::Text)
        } else {
            crate::tolerant::from_raw(&raw).map(Self::Blocks)
        };
        read.map_err(serde::de::Error::custom)
    }
}

/// A block of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A text block.
    Text(TextBlock),
    /// A tool call.
    ToolUse(ToolUseBlock),
    /// The result of a tool call.
    ToolResult(ToolResultBlock),
    /// A block of another kind than text, tool call and tool result, such as thinking or an image.
    Other(Map<String, Value>),
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// The first event of a run.
    Init(SystemInit),
    /// An event about the team.
    Team(TeamEvent),
    /// An event that reports a text or a tool call of the model.
    Assistant(AssistantEvent),
    /// An input to the model.
    User(UserEvent),
    /// The last event of a run.
    Result(ResultEvent),
    /// Any other event.
    Other(Map<String, Value>),
}

#[derive(Deserialize)]
struct Tag {
    #[serde(rename = "type", default)]
    kind: Option<Value>,
    #[serde(default)]
    subtype: Option<Value>,
}

/// Implements reading and writing of an enum of JSON objects. The field `type` selects the variant,
/// together with the field `subtype` if the macro call gives one.
macro_rules! tagged {
    ($name:ident { $($kind:pat, $subtype:pat => $variant:ident;)* }) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant(it) => it.serialize(serializer),)*
                    Self::Other(it) => it.serialize(serializer),
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let raw = Box::<RawValue>::deserialize(deserializer)?;
                let tag: Tag = crate::tolerant::from_raw(&raw).map_err(serde::de::Error::custom)?;
                let text = |value: &Option<Value>| value.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
                let read = match (text(&tag.kind).as_str(), text(&tag.subtype).as_str()) {
                    $(($kind, $subtype) => crate::tolerant::from_raw(&raw).map(Self::$variant),)*
                    // An object of unknown type is kept completely, so that it can be written
                    // again.
                    _ => crate::tolerant::from_raw(&raw).map(Self::Other),
                };
                read.map_err(serde::de::Error::custom)
            }
        }
    };
}

tagged! {
    Block {
        "text", _ => Text;
        "tool_use", _ => ToolUse;
        "tool_result", _ => ToolResult;
    }
}

tagged! {
    StreamEvent {
        "system", "init" => Init;
        "system", TeamEvent::SUBTYPE => Team;
        "assistant", _ => Assistant;
        "user", _ => User;
        "result", _ => Result;
    }
}

/// Returns the agent's id in `object`: `teammate_id`, otherwise `agent_id`, otherwise `agentId`,
/// otherwise `name`.
///
/// Source: the stream document, "Normalization Rules". A field whose value is empty or not a text
/// counts as absent.
#[must_use]
pub fn normalised_id(object: &Map<String, Value>) -> Option<&str> {
    id_by_rank(|field| object.get(field).and_then(Value::as_str).filter(|text| !text.is_empty()))
}

/// Returns the agent's id in an object of any kind, by the same rule as [`normalised_id`]. `id_in`
/// returns the text of a field that is not empty.
pub fn id_by_rank<T>(id_in: impl FnMut(&str) -> Option<T>) -> Option<T> {
    ["teammate_id", "agent_id", "agentId", "name"].into_iter().find_map(id_in)
}
