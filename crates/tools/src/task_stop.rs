//! TaskStop: stops a background shell.

use async_trait::async_trait;
use pitcrew_protocol::tool_name;
use serde::Deserialize;
use serde_json::{Value, json};

use super::input::parse;
use super::{ShellId, Tool, ToolContext, ToolOutcome};

/// Stops a background shell of this agent, with everything it started.
#[derive(Debug, Clone, Copy, Default)]
pub struct TaskStop;

#[derive(Debug, Deserialize)]
pub(super) struct Input {
    task_id: Option<String>,
    shell_id: Option<String>,
}

#[async_trait]
impl Tool for TaskStop {
    fn name(&self) -> &str {
        tool_name::TASK_STOP
    }

    fn description(&self) -> &str {
        "Stops a command that runs in the background, with everything it started. Takes the id that Bash \
         gave when it started the command."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "task_id": {"type": "string", "description": "The id of the background command"},
                "shell_id": {"type": "string", "description": "The same, by its older name"},
            },
            "additionalProperties": false,
        })
    }

    async fn call(&self, input: Value, context: &ToolContext) -> ToolOutcome {
        let input = match parse::<Input>(self, input) {
            Ok(input) => input,
            Err(outcome) => return outcome,
        };
        let Some(id) = input.task_id.or(input.shell_id) else {
            return ToolOutcome::refused(
                "InputValidationError: TaskStop failed due to the following issue:\n\
                 The required parameter `task_id` is missing",
            );
        };
        match context.shells.stop(&ShellId::from(id)).await {
            Ok(shell) => ToolOutcome::done(
                format!("Stopped {} ({}).", shell.id, shell.command),
                json!({
                    "message": format!("Stopped {}", shell.id),
                    "task_id": shell.id.as_str(),
                    "task_type": "local_bash",
                    "command": shell.command,
                }),
            ),
            Err(problem) => ToolOutcome::refused(problem),
        }
    }
}
