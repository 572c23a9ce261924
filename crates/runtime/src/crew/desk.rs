//! The tools that only the lead has: making and ending the team, sending out teammates and subagents, stopping them.
//!
//! They decide nothing; they hand the wish to the loop of the team and wait for its answer.

use std::sync::Arc;

use async_trait::async_trait;
use pitcrew_protocol::{TeamCall, tool_schema};
use serde_json::{Value, json};

use super::wake::{Desk, Wish};
use crate::tools::{TaskStop, Tool, ToolContext, ToolOutcome};

/// The lead's own tools.
pub(super) fn lead_tools(desk: &Desk) -> Vec<Arc<dyn Tool>> {
    let tool = |name, description| -> Arc<dyn Tool> { Arc::new(LeadTool { name, description, desk: desk.clone() }) };
    vec![
        tool(
            "TeamCreate",
            "Makes you the lead of a team, with a task list that all its members share. A run that has a team already gives \
             you that one, with the name that it has; it goes by the name that you asked for too.",
        ),
        tool("TeamDelete", "Ends your team and clears its files away. All teammates must have shut down before."),
        tool(
            "Task",
            "Starts another agent. With a `name` it is a teammate: it works beside you, with a conversation of its own, \
             until it is shut down, and you hear of it by mail. Without, it is a subagent: it does one job, and its last \
             message is the result of this call.",
        ),
        tool(
            "TaskStop",
            "Stops a command that runs in the background, or at once and for good a teammate, by its id or name.",
        ),
    ]
}

struct LeadTool {
    name: &'static str,
    description: &'static str,
    desk: Desk,
}

#[async_trait]
impl Tool for LeadTool {
    fn name(&self) -> &'static str {
        self.name
    }

    fn description(&self) -> &'static str {
        self.description
    }

    fn input_schema(&self) -> Value {
        tool_schema(self.name).unwrap_or_else(|| json!({"type": "object"}))
    }

    fn is_read_only(&self) -> bool {
        false
    }

    async fn call(&self, input: Value, context: &ToolContext) -> ToolOutcome {
        let wish = match TeamCall::parse(self.name, input.clone()) {
            Some(Ok(TeamCall::TeamCreate(input))) => Wish::TeamCreate(input),
            Some(Ok(TeamCall::TeamDelete)) => Wish::TeamDelete,
            Some(Ok(TeamCall::Spawn(input))) => Wish::Spawn { input: Box::new(input), call: context.call.clone() },
            Some(Ok(TeamCall::TaskStop(stop))) => {
                let stopped = TaskStop.call(input, context).await;
                if !stopped.is_error {
                    return stopped;
                }
                Wish::Stop { name: stop.task_id }
            }
            Some(Ok(_)) | None => return ToolOutcome::refused(format_args!("{} takes no such call", self.name)),
            Some(Err(error)) => return ToolOutcome::refused(error),
        };
        tokio::select! {
            outcome = self.desk.ask(wish) => outcome,
            () = context.cancel.cancelled() => ToolOutcome::interrupted(),
        }
    }
}
