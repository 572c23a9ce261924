//! Creates pitcrew's stream-json events. They have the same fields as the recorded events of the
//! reference client, in the same order.
//!
//! The module `stream` names the recordings. The caller supplies the ids, times and costs.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::stream::{
    AssistantEvent, AssistantMessage, Block, CacheCreation, Content, FailedAgent, ResultEvent,
    ServerToolUse, StreamEvent, StreamUsage, SystemInit, TeamEvent, TextBlock, ToolResultBlock,
    ToolUseBlock, UserEvent, UserMessage,
};
use crate::{Foreign, InputError, ToolAnswer};

/// The ids in an event of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventIds {
    /// The session's id, a UUID.
    pub session_id: String,
    /// The event's id, a UUID.
    pub uuid: String,
    /// The id of the tool call that started the agent. `None` for the lead.
    pub parent_tool_use_id: Option<String>,
}

/// Returns the given fields with the value `null`, for a newly created event.
fn nulls(keys: &[&str]) -> Foreign {
    let mut foreign = Foreign::default();
    for key in keys {
        foreign.put(key, RawValue::NULL.to_owned());
    }
    foreign
}

impl SystemInit {
    /// Creates the first event of a run.
    #[must_use]
    pub fn new(
        ids: EventIds,
        cwd: &str,
        tools: Vec<String>,
        model: &str,
        permission_mode: &str,
    ) -> Self {
        Self {
            kind: "system".into(),
            subtype: "init".into(),
            cwd: Some(cwd.into()),
            session_id: Some(ids.session_id),
            tools: Some(tools),
            model: Some(model.into()),
            permission_mode: Some(permission_mode.into()),
            uuid: Some(ids.uuid),
            foreign: Foreign::default(),
        }
    }
}

impl TeamEvent {
    /// The value of `subtype` in pitcrew's events. Events of other clients have other values.
    pub const SUBTYPE: &str = "pitcrew_team_event";

    /// Creates an event about the team `team_name`. `teammate_id` is the id of the teammate that
    /// the event concerns. It is `None` if the event concerns no teammate.
    #[must_use]
    pub fn new(
        ids: EventIds,
        event: &str,
        team_name: &str,
        teammate_id: Option<&str>,
        data: Map<String, Value>,
    ) -> Self {
        Self {
            kind: "system".into(),
            subtype: Self::SUBTYPE.into(),
            event: event.into(),
            team_name: team_name.into(),
            teammate_id: teammate_id.map(str::to_owned),
            data: Some(data),
            session_id: Some(ids.session_id),
            uuid: Some(ids.uuid),
            foreign: Foreign::default(),
        }
    }
}

impl StreamUsage {
    /// Creates a token count.
    #[must_use]
    pub fn new(input: u64, cache_creation: u64, cache_read: u64, output: u64) -> Self {
        Self {
            input_tokens: Some(input),
            cache_creation_input_tokens: Some(cache_creation),
            cache_read_input_tokens: Some(cache_read),
            output_tokens: Some(output),
            server_tool_use: None,
            service_tier: None,
            cache_creation: None,
            foreign: Foreign::default(),
        }
    }

    /// Adds the fields that only the last event of a run has in its token counts. Pitcrew uses no
    /// tools on the vendor's servers, so the number of their calls is 0. Every cache entry of
    /// pitcrew lives for five minutes, so all tokens written to the cache are counted as
    /// five-minute tokens.
    #[must_use]
    pub fn of_run(self) -> Self {
        let no_tools = ServerToolUse {
            web_search_requests: Some(0),
            web_fetch_requests: Some(0),
            foreign: Foreign::default(),
        };
        let kept = CacheCreation {
            one_hour: Some(0),
            five_minutes: self.cache_creation_input_tokens,
            foreign: Foreign::default(),
        };
        Self {
            server_tool_use: Some(no_tools),
            service_tier: Some("standard".into()),
            cache_creation: Some(kept),
            ..self
        }
    }
}

impl FailedAgent {
    /// Creates the entry for a failed agent. `team_name` is the team of a teammate, and `None` for
    /// a subagent.
    #[must_use]
    pub fn new(name: &str, team_name: Option<&str>, reason: Option<&str>) -> Self {
        Self {
            name: name.into(),
            teammate_id: team_name.map(|team| format!("{name}@{team}")),
            reason: reason.map(str::to_owned),
            foreign: Foreign::default(),
        }
    }
}

impl Block {
    /// Creates a text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextBlock {
            kind: "text".into(),
            text: text.into(),
            foreign: Foreign::default(),
        })
    }

    /// Creates a tool call.
    #[must_use]
    pub fn tool_use(id: &str, name: &str, input: Value) -> Self {
        let foreign = Foreign::default();
        Self::ToolUse(ToolUseBlock {
            kind: "tool_use".into(),
            id: id.into(),
            name: name.into(),
            input,
            foreign,
        })
    }
}

impl AssistantEvent {
    /// Creates the event for one block of the message `message_id`, which the model `model` wrote.
    #[must_use]
    pub fn new(
        ids: EventIds,
        message_id: &str,
        model: &str,
        block: Block,
        usage: StreamUsage,
    ) -> Self {
        Self {
            kind: "assistant".into(),
            message: AssistantMessage {
                id: Some(message_id.into()),
                kind: Some("message".into()),
                role: "assistant".into(),
                model: Some(model.into()),
                content: Content::Blocks(vec![block]),
                stop_reason: None,
                stop_sequence: None,
                usage: Some(usage),
                foreign: nulls(&["stop_reason", "stop_sequence"]),
            },
            parent_tool_use_id: ids.parent_tool_use_id,
            session_id: Some(ids.session_id),
            uuid: Some(ids.uuid),
            foreign: nulls(&["parent_tool_use_id"]),
        }
    }
}

impl UserEvent {
    fn new(ids: EventIds, content: Content, tool_use_result: Option<Value>) -> Self {
        Self {
            kind: "user".into(),
            message: UserMessage { role: "user".into(), content, foreign: Foreign::default() },
            parent_tool_use_id: ids.parent_tool_use_id,
            session_id: Some(ids.session_id),
            uuid: Some(ids.uuid),
            tool_use_result,
            foreign: nulls(&["parent_tool_use_id"]),
        }
    }

    /// Creates the event for a text that the model receives: a prompt, or messages from an inbox.
    #[must_use]
    pub fn prompt(ids: EventIds, text: impl Into<String>) -> Self {
        Self::new(ids, Content::Text(text.into()), None)
    }

    /// Creates the event for the result of a tool call. The result has content for the model, and
    /// data for programs that read the stream.
    #[must_use]
    pub fn result(
        ids: EventIds,
        tool_use_id: &str,
        content: Content,
        is_error: bool,
        data: Option<Value>,
    ) -> Self {
        let block = ToolResultBlock {
            tool_use_id: tool_use_id.into(),
            kind: "tool_result".into(),
            content: Some(content),
            is_error: is_error.then_some(true),
            foreign: Foreign::default(),
        };
        Self::new(ids, Content::Blocks(vec![Block::ToolResult(block)]), data)
    }

    /// Creates the event for the result of a team tool.
    #[must_use]
    pub fn answer(ids: EventIds, tool_use_id: &str, answer: &ToolAnswer) -> Self {
        let text = answer.text();
        let content = if answer.is_blocks() {
            Content::Blocks(vec![Block::text(text)])
        } else {
            Content::Text(text)
        };
        Self::result(ids, tool_use_id, content, false, serde_json::to_value(answer).ok())
    }

    /// Creates the event for a call whose input was refused.
    #[must_use]
    pub fn refusal(ids: EventIds, tool_use_id: &str, error: &InputError) -> Self {
        Self::result(ids, tool_use_id, Content::Text(error.text()), true, Some(error.data().into()))
    }
}

/// The facts about a run that its last event contains.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    /// The outcome: `success`, or the kind of failure, such as `error_max_turns`.
    pub subtype: String,
    /// Whether the run failed.
    pub is_error: bool,
    /// The duration of the run, in milliseconds.
    pub duration_ms: u64,
    /// The part of the duration that was spent in model calls, in milliseconds.
    pub duration_api_ms: u64,
    /// The number of turns.
    pub num_turns: u64,
    /// The model's last text.
    pub result: String,
    /// The cost of the run, in US dollars.
    pub total_cost_usd: f64,
    /// The tokens that the session used.
    pub usage: StreamUsage,
    /// The tokens and cost of each model, by model name.
    pub model_usage: Map<String, Value>,
    /// The tool calls that were denied.
    pub permission_denials: Vec<Value>,
    /// The agents that failed. The lead is not included.
    pub failed_agents: Vec<FailedAgent>,
}

impl ResultEvent {
    /// Creates the last event of a run.
    #[must_use]
    pub fn new(ids: EventIds, run: RunSummary) -> Self {
        Self {
            kind: "result".into(),
            subtype: run.subtype,
            is_error: Some(run.is_error),
            duration_ms: Some(run.duration_ms),
            duration_api_ms: Some(run.duration_api_ms),
            num_turns: Some(run.num_turns),
            result: Some(run.result),
            stop_reason: None,
            session_id: Some(ids.session_id),
            total_cost_usd: Some(run.total_cost_usd),
            usage: Some(run.usage),
            model_usage: Some(run.model_usage),
            permission_denials: Some(run.permission_denials),
            failed_agents: Some(run.failed_agents).filter(|failed| !failed.is_empty()),
            uuid: Some(ids.uuid),
            foreign: nulls(&["stop_reason"]),
        }
    }
}

impl StreamEvent {
    /// Returns the event as one line, without a line break.
    ///
    /// # Errors
    /// When a value in the event cannot be written as JSON.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}

macro_rules! from {
    ($($event:ident => $variant:ident,)*) => {
        $(impl From<$event> for StreamEvent {
            fn from(event: $event) -> Self {
                Self::$variant(event)
            }
        })*
    };
}

from! {
    SystemInit => Init,
    TeamEvent => Team,
    AssistantEvent => Assistant,
    UserEvent => User,
    ResultEvent => Result,
}
