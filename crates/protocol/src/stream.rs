//! The events of stream-json: one JSON object a line, of a client's run.
//!
//! Source: `fixtures/claude-2.1.39/stream-json/*.ndjson` and the stream document, whose older `Teammate` tool is, like any
//! tool, a name and an input here. Unknown fields, blocks and events are kept. Writing ours is `stream_ours`'.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::wire::wire_object;

wire_object! {
    /// The run begins.
    pub struct SystemInit {
        /// Always `system`.
        pub kind: String => "type" req,
        /// Always `init`.
        pub subtype: String => "subtype" req,
        /// The working folder.
        pub cwd: String => "cwd" opt,
        /// The session, a UUID.
        pub session_id: String => "session_id" opt,
        /// The names of the tools.
        pub tools: Vec<String> => "tools" opt,
        /// The model.
        pub model: String => "model" opt,
        /// The permission mode.
        pub permission_mode: String => "permissionMode" opt,
        /// The event's own id.
        pub uuid: String => "uuid" opt,
    }
}

wire_object! {
    /// Something happened in the team; ours, among the system events that other readers skip.
    pub struct TeamEvent {
        /// Always `system`.
        pub kind: String => "type" req,
        /// Always [`TeamEvent::SUBTYPE`].
        pub subtype: String => "subtype" req,
        /// What happened, such as `message_injected`.
        pub event: String => "event" req,
        /// The team.
        pub team_name: String => "team_name" req,
        /// The agent id of the teammate it is about.
        pub teammate_id: String => "teammate_id" opt,
        /// More, by name.
        pub data: Map<String, Value> => "data" opt,
        /// The session, a UUID.
        pub session_id: String => "session_id" opt,
        /// The event's own id.
        pub uuid: String => "uuid" opt,
    }
}

wire_object! {
    /// The model said something, or called a tool; a turn with several blocks is several events.
    pub struct AssistantEvent {
        /// Always `assistant`.
        pub kind: String => "type" req,
        /// What it said.
        pub message: AssistantMessage => "message" req,
        /// The call that the speaker runs in; absent for the lead.
        pub parent_tool_use_id: String => "parent_tool_use_id" opt,
        /// The session, a UUID.
        pub session_id: String => "session_id" opt,
        /// The event's own id.
        pub uuid: String => "uuid" opt,
    }
}

wire_object! {
    /// A message of the model.
    pub struct AssistantMessage {
        /// The message's id, one for all events of a turn.
        pub id: String => "id" opt,
        /// Always `message`, where it is given.
        pub kind: String => "type" opt,
        /// Always `assistant`.
        pub role: String => "role" req,
        /// The model.
        pub model: String => "model" opt,
        /// What it says.
        pub content: Content => "content" req,
        /// Why it stopped, once it has.
        pub stop_reason: String => "stop_reason" opt,
        /// The sequence it stopped at.
        pub stop_sequence: String => "stop_sequence" opt,
        /// The tokens of the call so far.
        pub usage: StreamUsage => "usage" opt,
    }
}

wire_object! {
    /// Something was said to the model: a prompt, or the result of a tool.
    pub struct UserEvent {
        /// Always `user`.
        pub kind: String => "type" req,
        /// What was said.
        pub message: UserMessage => "message" req,
        /// The call that the hearer runs in; absent for the lead.
        pub parent_tool_use_id: String => "parent_tool_use_id" opt,
        /// The session, a UUID.
        pub session_id: String => "session_id" opt,
        /// The event's own id.
        pub uuid: String => "uuid" opt,
        /// The data of the tool's result; a text for a refused input.
        pub tool_use_result: Value => "tool_use_result" opt,
    }
}

wire_object! {
    /// A message to the model.
    pub struct UserMessage {
        /// Always `user`.
        pub role: String => "role" req,
        /// What it says.
        pub content: Content => "content" req,
    }
}

wire_object! {
    /// The run has ended.
    pub struct ResultEvent {
        /// Always `result`.
        pub kind: String => "type" req,
        /// `success`, or how it failed, such as `error_max_turns`.
        pub subtype: String => "subtype" req,
        /// Whether it failed.
        pub is_error: bool => "is_error" opt,
        /// How long it took.
        pub duration_ms: u64 => "duration_ms" opt,
        /// How long the model took of that.
        pub duration_api_ms: u64 => "duration_api_ms" opt,
        /// How many turns it took.
        pub num_turns: u64 => "num_turns" opt,
        /// The last text.
        pub result: String => "result" opt,
        /// Why the model stopped.
        pub stop_reason: String => "stop_reason" opt,
        /// The session, a UUID.
        pub session_id: String => "session_id" opt,
        /// What it cost.
        pub total_cost_usd: f64 => "total_cost_usd" opt,
        /// The tokens of the session.
        pub usage: StreamUsage => "usage" opt,
        /// The tokens and cost of each model.
        pub model_usage: Map<String, Value> => "modelUsage" opt,
        /// The calls that were denied.
        pub permission_denials: Vec<Value> => "permission_denials" opt,
        /// Teammates and subagents that failed, with the reasons; ours, and absent when none did.
        pub failed_agents: Vec<FailedAgent> => "failed_agents" opt,
        /// The event's own id.
        pub uuid: String => "uuid" opt,
    }
}

wire_object! {
    /// An agent that failed in the run.
    pub struct FailedAgent {
        /// Its name.
        pub name: String => "name" req,
        /// Its agent id; a subagent has none.
        pub teammate_id: String => "teammate_id" opt,
        /// Why, where that is known.
        pub reason: String => "reason" opt,
    }
}

wire_object! {
    /// A count of tokens.
    pub struct StreamUsage {
        /// Tokens read that were not in the cache.
        pub input_tokens: u64 => "input_tokens" opt,
        /// Tokens written to the cache.
        pub cache_creation_input_tokens: u64 => "cache_creation_input_tokens" opt,
        /// Tokens read from the cache.
        pub cache_read_input_tokens: u64 => "cache_read_input_tokens" opt,
        /// Tokens said.
        pub output_tokens: u64 => "output_tokens" opt,
        /// What the vendor's own tools did; told at the end of a run.
        pub server_tool_use: ServerToolUse => "server_tool_use" opt,
        /// The tier of the vendor's service; told at the end of a run.
        pub service_tier: String => "service_tier" opt,
        /// For how long what was written to the cache is kept; told at the end of a run.
        pub cache_creation: CacheCreation => "cache_creation" opt,
    }
}

wire_object! {
    /// Calls of tools that run at the vendor.
    pub struct ServerToolUse {
        /// Searches in the web.
        pub web_search_requests: u64 => "web_search_requests" opt,
        /// Pages that were fetched.
        pub web_fetch_requests: u64 => "web_fetch_requests" opt,
    }
}

wire_object! {
    /// Tokens written to the cache, by how long it keeps them.
    pub struct CacheCreation {
        /// For an hour.
        pub one_hour: u64 => "ephemeral_1h_input_tokens" opt,
        /// For five minutes.
        pub five_minutes: u64 => "ephemeral_5m_input_tokens" opt,
    }
}

wire_object! {
    /// A text.
    pub struct TextBlock {
        /// Always `text`.
        pub kind: String => "type" req,
        /// The text.
        pub text: String => "text" req,
    }
}

wire_object! {
    /// A call of a tool, whatever its name.
    pub struct ToolUseBlock {
        /// Always `tool_use`.
        pub kind: String => "type" req,
        /// The call's id.
        pub id: String => "id" req,
        /// The tool.
        pub name: String => "name" req,
        /// Its input.
        pub input: Value => "input" req,
    }
}

wire_object! {
    /// The result of a call.
    pub struct ToolResultBlock {
        /// The call's id.
        pub tool_use_id: String => "tool_use_id" req,
        /// Always `tool_result`.
        pub kind: String => "type" req,
        /// What it says to the model.
        pub content: Content => "content" opt,
        /// Whether the call failed.
        pub is_error: bool => "is_error" opt,
    }
}

/// What a message or a tool's result says.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// One text.
    Text(String),
    /// Blocks.
    Blocks(Vec<Block>),
}

impl Content {
    /// All its texts, one a line.
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

    /// Its blocks; none for a text.
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

/// A part of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A text.
    Text(TextBlock),
    /// A call of a tool.
    ToolUse(ToolUseBlock),
    /// The result of a call.
    ToolResult(ToolResultBlock),
    /// Anything else, such as thinking or an image.
    Other(Map<String, Value>),
}

/// An event of the stream.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// The run begins.
    Init(SystemInit),
    /// Something happened in the team.
    Team(TeamEvent),
    /// The model said something.
    Assistant(AssistantEvent),
    /// Something was said to the model.
    User(UserEvent),
    /// The run has ended.
    Result(ResultEvent),
    /// Anything else.
    Other(Map<String, Value>),
}

#[derive(Deserialize)]
struct Tag {
    #[serde(rename = "type", default)]
    kind: Option<Value>,
    #[serde(default)]
    subtype: Option<Value>,
}

/// Reads and writes an enum by the `type`, and `subtype` where given, of the object.
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

/// The id of the agent that `object` speaks of: `teammate_id`, else `agent_id`, else `agentId`, else `name`.
///
/// Source: the stream document, "Normalization Rules". What is empty or no text counts as absent.
#[must_use]
pub fn normalised_id(object: &Map<String, Value>) -> Option<&str> {
    let text =
        |key: &&str| object.get(*key).and_then(Value::as_str).filter(|text| !text.is_empty());
    ["teammate_id", "agent_id", "agentId", "name"].iter().find_map(text)
}
