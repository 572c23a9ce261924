//! The tools that only the lead has. They create and end the team, and they start and stop
//! teammates and subagents.
//!
//! The tools decide nothing. Each tool passes its request to the team's loop and waits for the
//! answer.

use std::sync::Arc;

use async_trait::async_trait;
use pitcrew_protocol::{AgentName, SpawnInput, TeamCall, subagent_schema, tool_name, tool_schema};
use pitcrew_tools::{TaskStop, Tool, ToolContext, ToolOutcome};
use serde_json::{Value, json};

use super::subagents::Sending;
use super::wake::{LeadRequest, LoopHandle};

/// Returns the lead's own tools.
pub(super) fn lead_tools(loop_handle: &LoopHandle, models: &Arc<str>) -> Vec<Arc<dyn Tool>> {
    let tool = |name, description| -> Arc<dyn Tool> {
        Arc::new(LeadTool {
            name,
            description,
            loop_handle: loop_handle.clone(),
            models: models.clone(),
        })
    };
    vec![
        tool(
            tool_name::TEAM_CREATE,
            "Makes you the lead of a team, with a task list that all its members share. A run that has a team already gives \
             you that one, with the name that it has; it goes by the name that you asked for too. After TeamDelete \
             you may make another team.",
        ),
        tool(
            tool_name::TEAM_DELETE,
            "Ends your team and clears its files and worktrees away; worktrees with work of their own are kept and named. All \
             teammates must have shut down before.",
        ),
        tool(
            tool_name::TASK,
            "Starts another agent. With a `name` it is a teammate: it works beside you, with a conversation of its own, \
             until it is shut down, and you hear of it by mail. Without, it is a subagent: it does one job, and its last \
             message is the result of this call.",
        ),
        tool(
            tool_name::TASK_STOP,
            "Stops a command or a subagent that runs in the background, or at once and for good a teammate, by its id or name.",
        ),
    ]
}

struct LeadTool {
    name: &'static str,
    description: &'static str,
    loop_handle: LoopHandle,
    models: Arc<str>,
}

#[async_trait]
impl Tool for LeadTool {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        self.description
    }

    fn input_schema(&self) -> Value {
        let schema = tool_schema(self.name).unwrap_or_else(|| json!({"type": "object"}));
        naming_models(schema, &self.models)
    }

    async fn call(&self, input: Value, context: &ToolContext) -> ToolOutcome {
        let lead_request = match TeamCall::parse(self.name, input.clone()) {
            Some(Ok(TeamCall::TeamCreate(input))) => LeadRequest::TeamCreate(input),
            Some(Ok(TeamCall::TeamDelete(input))) => LeadRequest::TeamDelete(input),
            Some(Ok(TeamCall::Spawn(input))) => {
                match spawning(input, &AgentName::lead(), context) {
                    Ok(lead_request) => lead_request,
                    Err(refused) => return refused,
                }
            }
            Some(Ok(TeamCall::TaskStop(stop))) => {
                let stopped = TaskStop.call(input, context).await;
                if !stopped.is_error {
                    return stopped;
                }
                LeadRequest::Stop { name: stop.task_id }
            }
            Some(Ok(_)) | None => {
                return ToolOutcome::refused(format_args!("{} takes no such call", self.name));
            }
            Some(Err(error)) => return ToolOutcome::malformed(&error),
        };
        answered(&self.loop_handle, lead_request, context).await
    }
}

async fn answered(
    loop_handle: &LoopHandle,
    lead_request: LeadRequest,
    context: &ToolContext,
) -> ToolOutcome {
    tokio::select! {
        outcome = loop_handle.ask(lead_request) => outcome,
        () = context.cancel.cancelled() => ToolOutcome::interrupted(),
    }
}

/// Adds the names of the available models to a tool's schema, in the description of the parameter
/// `model`. Returns the schema.
fn naming_models(mut schema: Value, models: &str) -> Value {
    if let Some(description) = schema.pointer_mut("/properties/model/description")
        && !models.is_empty()
    {
        *description =
            format!("The model to run it on; inherited when absent. This run can open: {models}")
                .into();
    }
    schema
}

/// Converts a spawn call into a request for a teammate or a subagent. Refuses parameters that do
/// not apply to a subagent.
fn spawning(
    input: SpawnInput,
    caller: &AgentName,
    context: &ToolContext,
) -> Result<LeadRequest, ToolOutcome> {
    if input.name.is_some() {
        if input.resume.is_some() {
            return Err(ToolOutcome::refused(
                "`resume` goes on with a subagent: leave out `name`. A teammate that is idle goes on when you write to it (SendMessage)",
            ));
        }
        return Ok(LeadRequest::Spawn { input: Box::new(input), call: context.call.clone() });
    }
    let of_teammates =
        [("isolation", &input.isolation), ("backend", &input.backend), ("program", &input.program)];
    if let Some((field, _)) = of_teammates.iter().find(|(_, value)| value.is_some()) {
        return Err(ToolOutcome::refused(format_args!(
            "`{field}` is for a teammate: give it a `name`, or leave `{field}` out for a subagent"
        )));
    }
    Ok(LeadRequest::SendOut(Box::new(Sending {
        input,
        call: context.call.clone(),
        caller: caller.clone(),
        mode: context.mode,
        cwd: context.cwd.clone(),
        callers_model: None,
    })))
}

/// Returns the tool with which a teammate starts subagents.
pub(super) fn subagent_tool(
    loop_handle: &LoopHandle,
    caller: &AgentName,
    is_alone: bool,
    models: &Arc<str>,
) -> Arc<dyn Tool> {
    let teammates = if is_alone { "Teammates" } else { "In-process teammates" };
    Arc::new(SubagentTool {
        loop_handle: loop_handle.clone(),
        caller: caller.clone(),
        teammates,
        models: models.clone(),
    })
}

struct SubagentTool {
    loop_handle: LoopHandle,
    caller: AgentName,
    /// The first words of this tool's refusals, such as "Teammates cannot spawn other teammates".
    /// The words are "Teammates" if the teammate runs in its own process, otherwise "In-process
    /// teammates" (founding guide, section 7).
    teammates: &'static str,
    models: Arc<str>,
}

#[async_trait]
impl Tool for SubagentTool {
    fn name(&self) -> &str {
        tool_name::TASK
    }

    fn description(&self) -> &str {
        "Sends out a subagent: it does one job in your working folder, and its last message is the result of this call. Only \
         the lead spawns teammates."
    }

    fn input_schema(&self) -> Value {
        naming_models(subagent_schema(), &self.models)
    }

    async fn call(&self, input: Value, context: &ToolContext) -> ToolOutcome {
        let input = match SpawnInput::parse(input) {
            Ok(input) => input,
            Err(error) => return ToolOutcome::malformed(&error),
        };
        let teammates = self.teammates;
        if input.name.is_some() {
            return ToolOutcome::refused(format_args!(
                "{teammates} cannot spawn other teammates. Leave out `name` to have a subagent do the job, or ask the lead"
            ));
        }
        if input.run_in_background == Some(true) {
            return ToolOutcome::refused(format_args!(
                "{teammates} cannot spawn background agents. Use run_in_background=false for synchronous subagents."
            ));
        }
        match spawning(input, &self.caller, context) {
            Ok(lead_request) => answered(&self.loop_handle, lead_request, context).await,
            Err(refused) => refused,
        }
    }
}
