//! TaskStop: stops a background command.

use async_trait::async_trait;
use pitcrew_protocol::{TaskStopInput, tool_name};
use serde_json::{Value, json};

use super::{ShellId, Tool, ToolContext, ToolOutcome};

/// The tool that stops a background command of this agent and all processes that the command
/// started.
#[derive(Debug, Clone, Copy, Default)]
pub struct TaskStop;

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
        let task_id = match TaskStopInput::parse(input) {
            Ok(input) => input.task_id,
            Err(error) => return ToolOutcome::malformed(&error),
        };
        match context.shells.stop(&ShellId::from(task_id)).await {
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
