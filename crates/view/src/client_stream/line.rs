//! The lines of a client's stream, as far as the fold needs them. Every other field is skipped.
//!
//! Source: `fixtures/claude-2.1.39/stream-json/*.ndjson` and the stream document. The module
//! `stream` of `protocol` has the whole types. They copy every field, which takes several times as
//! long.

use pitcrew_model::Usage;
use serde::Deserialize;

use super::raw::{Content, Object, Raw};

/// One line of a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Line<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Raw<'a>,
    pub(super) subtype: Raw<'a>,
    pub(super) session_id: Raw<'a>,
    /// The call that started the subagent whose line this is. Null for the lead.
    pub(super) parent_tool_use_id: Raw<'a>,
    pub(super) message: Object<Message<'a>>,
    pub(super) tool_use_result: Raw<'a>,
    // The first line of a run.
    pub(super) cwd: Raw<'a>,
    pub(super) model: Raw<'a>,
    #[serde(rename = "permissionMode")]
    pub(super) permission_mode: Raw<'a>,
    // The last line of a run.
    pub(super) is_error: Raw<'a>,
    pub(super) duration_ms: Raw<'a>,
    pub(super) duration_api_ms: Raw<'a>,
    pub(super) num_turns: Raw<'a>,
    pub(super) total_cost_usd: Raw<'a>,
    pub(super) result: Raw<'a>,
    pub(super) usage: Raw<'a>,
    #[serde(rename = "modelUsage")]
    pub(super) model_usage: Raw<'a>,
    pub(super) permission_denials: Raw<'a>,
    // pitcrew's own events.
    pub(super) event: Raw<'a>,
    pub(super) team_name: Raw<'a>,
    pub(super) teammate_id: Raw<'a>,
    pub(super) data: Raw<'a>,
}

/// A message of the model, or to it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Message<'a> {
    pub(super) id: Raw<'a>,
    pub(super) model: Raw<'a>,
    pub(super) content: Content<'a, Block<'a>>,
    pub(super) usage: Raw<'a>,
}

/// A block of a message: a text, a tool call or the result of one.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Block<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Raw<'a>,
    pub(super) text: Raw<'a>,
    pub(super) id: Raw<'a>,
    pub(super) name: Raw<'a>,
    pub(super) input: Raw<'a>,
    pub(super) tool_use_id: Raw<'a>,
    pub(super) content: Raw<'a>,
    pub(super) is_error: Raw<'a>,
}

/// The data of a team tool's result. Each tool writes some of the fields.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct ResultData<'a> {
    pub(super) success: Raw<'a>,
    pub(super) message: Raw<'a>,
    pub(super) status: Raw<'a>,
    // A team.
    pub(super) team_name: Raw<'a>,
    pub(super) team_file_path: Raw<'a>,
    pub(super) lead_agent_id: Raw<'a>,
    // A new teammate.
    pub(super) teammate_id: Raw<'a>,
    pub(super) agent_id: Raw<'a>,
    #[serde(rename = "agentId")]
    pub(super) agent_id_camel: Raw<'a>,
    pub(super) name: Raw<'a>,
    pub(super) agent_type: Raw<'a>,
    pub(super) model: Raw<'a>,
    pub(super) color: Raw<'a>,
    pub(super) plan_mode_required: Raw<'a>,
    // A message.
    pub(super) routing: Object<Routing<'a>>,
    pub(super) recipients: Raw<'a>,
    pub(super) request_id: Raw<'a>,
    pub(super) target: Raw<'a>,
    // Tasks.
    pub(super) task: Object<TaskData<'a>>,
    pub(super) tasks: Content<'a, TaskData<'a>>,
    #[serde(rename = "taskId")]
    pub(super) task_id: Raw<'a>,
    #[serde(rename = "statusChange")]
    pub(super) status_change: Object<StatusChange<'a>>,
}

/// The sender, the receiver and the content of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Routing<'a> {
    pub(super) sender: Raw<'a>,
    pub(super) target: Raw<'a>,
    pub(super) summary: Raw<'a>,
    pub(super) content: Raw<'a>,
}

/// A task. Each tool writes some of the fields.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct TaskData<'a> {
    pub(super) id: Raw<'a>,
    pub(super) subject: Raw<'a>,
    pub(super) description: Raw<'a>,
    pub(super) status: Raw<'a>,
    pub(super) owner: Raw<'a>,
    pub(super) blocks: Raw<'a>,
    #[serde(rename = "blockedBy")]
    pub(super) blocked_by: Raw<'a>,
}

/// A change of a task's status.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct StatusChange<'a> {
    pub(super) to: Raw<'a>,
}

/// The tokens of a model call.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct CallTokens<'a> {
    input_tokens: Raw<'a>,
    output_tokens: Raw<'a>,
    cache_creation_input_tokens: Raw<'a>,
    cache_read_input_tokens: Raw<'a>,
}

impl CallTokens<'_> {
    pub(super) fn usage(&self) -> Usage {
        let count = |raw: Raw<'_>| raw.count().unwrap_or_default();
        Usage {
            input_tokens: count(self.input_tokens),
            output_tokens: count(self.output_tokens),
            cache_creation_input_tokens: count(self.cache_creation_input_tokens),
            cache_read_input_tokens: count(self.cache_read_input_tokens),
        }
    }
}

/// The tokens and the cost of one model in the last line of a run.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct ModelTokens<'a> {
    input_tokens: Raw<'a>,
    output_tokens: Raw<'a>,
    cache_creation_input_tokens: Raw<'a>,
    cache_read_input_tokens: Raw<'a>,
    pub(super) web_search_requests: Raw<'a>,
    #[serde(rename = "costUSD")]
    pub(super) cost_usd: Raw<'a>,
}

impl ModelTokens<'_> {
    pub(super) fn usage(&self) -> Usage {
        let count = |raw: Raw<'_>| raw.count().unwrap_or_default();
        Usage {
            input_tokens: count(self.input_tokens),
            output_tokens: count(self.output_tokens),
            cache_creation_input_tokens: count(self.cache_creation_input_tokens),
            cache_read_input_tokens: count(self.cache_read_input_tokens),
        }
    }
}

/// A refused tool call in the last line of a run.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Denied<'a> {
    pub(super) tool_name: Raw<'a>,
    pub(super) tool_use_id: Raw<'a>,
}
