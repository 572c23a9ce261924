//! The lines of a client's stream, as far as the fold needs them. Every other field is skipped.
//!
//! Source: `fixtures/claude-2.1.39/stream-json/*.ndjson` and the stream document. The module
//! `stream` of `protocol` has the whole types. They copy every field, which takes several times as
//! long.

use pitcrew_model::Usage;

use super::ending::MODELS_MOST;
use super::input::CallInput;
use super::json::fields;
use super::raw::{Content, Named, Raw};

fields! {
    /// One line of a stream.
    pub(super) struct Line<'a> {
        pub(super) kind: Raw<'a> = "type",
        pub(super) subtype: Raw<'a> = "subtype",
        pub(super) session_id: Raw<'a> = "session_id",
        /// The call that started the subagent whose line this is. Null for the lead.
        pub(super) parent_tool_use_id: Raw<'a> = "parent_tool_use_id",
        pub(super) message: Option<Message<'a>> = "message",
        pub(super) tool_use_result: Option<ResultData<'a>> = "tool_use_result",
        // The first line of a run.
        pub(super) cwd: Raw<'a> = "cwd",
        pub(super) model: Raw<'a> = "model",
        pub(super) permission_mode: Raw<'a> = "permissionMode",
        // The last line of a run.
        pub(super) is_error: Raw<'a> = "is_error",
        pub(super) duration_ms: Raw<'a> = "duration_ms",
        pub(super) duration_api_ms: Raw<'a> = "duration_api_ms",
        pub(super) num_turns: Raw<'a> = "num_turns",
        pub(super) total_cost_usd: Raw<'a> = "total_cost_usd",
        pub(super) result: Raw<'a> = "result",
        pub(super) usage: Option<CallTokens<'a>> = "usage",
        pub(super) model_usage: Named<ModelTokens<'a>, MODELS_MOST> = "modelUsage",
        pub(super) permission_denials: Vec<Denied<'a>> = "permission_denials",
        // An agent that a newer client runs in the background.
        pub(super) task_id: Raw<'a> = "task_id",
        pub(super) task_type: Raw<'a> = "task_type",
        pub(super) tool_use_id: Raw<'a> = "tool_use_id",
        pub(super) status: Raw<'a> = "status",
        pub(super) patch: Raw<'a> = "patch",
        // pitcrew's own events.
        pub(super) event: Raw<'a> = "event",
        pub(super) team_name: Raw<'a> = "team_name",
        pub(super) teammate_id: Raw<'a> = "teammate_id",
        pub(super) data: Raw<'a> = "data",
    }
}

fields! {
    /// A message of the model, or to it.
    pub(super) struct Message<'a> {
        pub(super) id: Raw<'a> = "id",
        pub(super) model: Raw<'a> = "model",
        pub(super) content: Content<'a, Block<'a>> = "content",
        pub(super) usage: Option<CallTokens<'a>> = "usage",
    }
}

fields! {
    /// A block of a message: a text, a tool call or the result of one.
    pub(super) struct Block<'a> {
        pub(super) kind: Raw<'a> = "type",
        pub(super) text: Raw<'a> = "text",
        pub(super) thinking: Raw<'a> = "thinking",
        pub(super) id: Raw<'a> = "id",
        pub(super) name: Raw<'a> = "name",
        pub(super) input: CallInput<'a> = "input",
        pub(super) tool_use_id: Raw<'a> = "tool_use_id",
        pub(super) content: Raw<'a> = "content",
        pub(super) is_error: Raw<'a> = "is_error",
    }
}

fields! {
    /// The data of a team tool's result. Each tool writes some of the fields.
    pub(super) struct ResultData<'a> {
        pub(super) success: Raw<'a> = "success",
        pub(super) message: Raw<'a> = "message",
        pub(super) status: Raw<'a> = "status",
        // A team.
        pub(super) team_name: Raw<'a> = "team_name",
        pub(super) team_file_path: Raw<'a> = "team_file_path",
        pub(super) lead_agent_id: Raw<'a> = "lead_agent_id",
        // A new teammate.
        pub(super) teammate_id: Raw<'a> = "teammate_id",
        pub(super) agent_id: Raw<'a> = "agent_id",
        pub(super) agent_id_camel: Raw<'a> = "agentId",
        pub(super) name: Raw<'a> = "name",
        pub(super) agent_type: Raw<'a> = "agent_type",
        pub(super) model: Raw<'a> = "model",
        pub(super) color: Raw<'a> = "color",
        pub(super) plan_mode_required: Raw<'a> = "plan_mode_required",
        // A message.
        pub(super) routing: Option<Routing<'a>> = "routing",
        pub(super) recipients: Raw<'a> = "recipients",
        pub(super) request_id: Raw<'a> = "request_id",
        pub(super) target: Raw<'a> = "target",
        // Tasks.
        pub(super) task: Option<TaskData<'a>> = "task",
        pub(super) tasks: Vec<TaskData<'a>> = "tasks",
        pub(super) status_change: Option<StatusChange<'a>> = "statusChange",
    }
}

fields! {
    /// The sender, the receiver and the content of a message.
    pub(super) struct Routing<'a> {
        pub(super) sender: Raw<'a> = "sender",
        pub(super) target: Raw<'a> = "target",
        pub(super) summary: Raw<'a> = "summary",
        pub(super) content: Raw<'a> = "content",
    }
}

fields! {
    /// A task. Each tool writes some of the fields.
    pub(super) struct TaskData<'a> {
        pub(super) id: Raw<'a> = "id",
        pub(super) subject: Raw<'a> = "subject",
        pub(super) description: Raw<'a> = "description",
        pub(super) status: Raw<'a> = "status",
        pub(super) owner: Raw<'a> = "owner",
        pub(super) blocks: Raw<'a> = "blocks",
        pub(super) blocked_by: Raw<'a> = "blockedBy",
    }
}

fields! {
    /// A change of a task's status.
    pub(super) struct StatusChange<'a> {
        pub(super) to: Raw<'a> = "to",
    }
}

fields! {
    /// The tokens of a model call.
    pub(super) struct CallTokens<'a> {
        input_tokens: Raw<'a> = "input_tokens",
        output_tokens: Raw<'a> = "output_tokens",
        cache_creation_input_tokens: Raw<'a> = "cache_creation_input_tokens",
        cache_read_input_tokens: Raw<'a> = "cache_read_input_tokens",
    }
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

fields! {
    /// The tokens and the cost of one model in the last line of a run.
    pub(super) struct ModelTokens<'a> {
        input_tokens: Raw<'a> = "inputTokens",
        output_tokens: Raw<'a> = "outputTokens",
        cache_creation_input_tokens: Raw<'a> = "cacheCreationInputTokens",
        cache_read_input_tokens: Raw<'a> = "cacheReadInputTokens",
        pub(super) web_search_requests: Raw<'a> = "webSearchRequests",
        pub(super) cost_usd: Raw<'a> = "costUSD",
    }
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

fields! {
    /// A refused tool call in the last line of a run.
    pub(super) struct Denied<'a> {
        pub(super) tool_name: Raw<'a> = "tool_name",
        pub(super) tool_use_id: Raw<'a> = "tool_use_id",
    }
}
