//! The names of attributes and operations.
//!
//! Source: the semantic conventions of OpenTelemetry for generative AI, for messaging and for
//! errors, in the version that `opentelemetry-semantic-conventions` 0.33 has. Names with `pitcrew.`
//! are our own.

pub(crate) const OPERATION: &str = "gen_ai.operation.name";
pub(crate) const PROVIDER: &str = "gen_ai.provider.name";
pub(crate) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(crate) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(crate) const RESPONSE_ID: &str = "gen_ai.response.id";
pub(crate) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(crate) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(crate) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(crate) const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub(crate) const CACHE_CREATION_TOKENS: &str = "gen_ai.usage.cache_creation.input_tokens";
pub(crate) const CONVERSATION: &str = "gen_ai.conversation.id";
pub(crate) const WORKFLOW: &str = "gen_ai.workflow.name";
pub(crate) const AGENT_NAME: &str = "gen_ai.agent.name";
pub(crate) const AGENT_ID: &str = "gen_ai.agent.id";
pub(crate) const TOOL_NAME: &str = "gen_ai.tool.name";
pub(crate) const TOOL_TYPE: &str = "gen_ai.tool.type";
pub(crate) const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
pub(crate) const TOOL_CALL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub(crate) const TOOL_CALL_RESULT: &str = "gen_ai.tool.call.result";
pub(crate) const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
pub(crate) const TOKEN_TYPE: &str = "gen_ai.token.type";
pub(crate) const ERROR_TYPE: &str = "error.type";

pub(crate) const MESSAGING_SYSTEM: &str = "messaging.system";
pub(crate) const MESSAGING_OPERATION_NAME: &str = "messaging.operation.name";
pub(crate) const MESSAGING_OPERATION_TYPE: &str = "messaging.operation.type";
pub(crate) const MESSAGING_DESTINATION: &str = "messaging.destination.name";
pub(crate) const MESSAGING_MESSAGE_ID: &str = "messaging.message.id";
pub(crate) const MESSAGING_CLIENT: &str = "messaging.client.id";
pub(crate) const MESSAGING_CONVERSATION: &str = "messaging.message.conversation_id";

pub(crate) const TEAM: &str = "pitcrew.team";
pub(crate) const AGENT_TYPE: &str = "pitcrew.agent.type";
pub(crate) const AGENT_END: &str = "pitcrew.agent.end";
pub(crate) const RUN_END: &str = "pitcrew.run.end";
pub(crate) const RESUMED: &str = "pitcrew.run.resumed";
pub(crate) const COST: &str = "pitcrew.cost_usd";
pub(crate) const IS_COMPACTION: &str = "pitcrew.compaction";
pub(crate) const FRAME: &str = "pitcrew.message.frame";
pub(crate) const WAIT_MS: &str = "pitcrew.model.wait_ms";
pub(crate) const TASK_STATUS: &str = "pitcrew.task.status";

/// The operations of the conventions that a run has.
pub(crate) const INVOKE_WORKFLOW: &str = "invoke_workflow";
pub(crate) const INVOKE_AGENT: &str = "invoke_agent";
pub(crate) const CHAT: &str = "chat";
pub(crate) const EXECUTE_TOOL: &str = "execute_tool";
pub(crate) const SEND: &str = "send";
pub(crate) const PROCESS: &str = "process";

/// The value of an attribute for which the conventions know no value.
pub(crate) const OTHER: &str = "_OTHER";
