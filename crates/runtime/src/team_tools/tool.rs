//! The tools TaskCreate, TaskGet, TaskUpdate, TaskList and SendMessage.

use std::sync::Arc;

use async_trait::async_trait;
use pitcrew_protocol::{
    ApiError, TaskCreated, TaskListed, TaskShown, TeamCall, ToolAnswer, tool_name,
};
use pitcrew_team::{Actor, Team, task_times};
use pitcrew_tools::{Tool, ToolContext, ToolOutcome};
use serde_json::Value;

use crate::client_socket::ClientSockets;
use crate::dropped::as_member;

/// Creates the tools with which a member works with its team.
pub(crate) fn team_tools(
    team: &Team,
    actor: &Actor,
    sockets: Option<&ClientSockets>,
) -> Vec<Arc<dyn Tool>> {
    let tool = |name, description| -> Arc<dyn Tool> {
        Arc::new(TeamTool {
            name,
            description,
            team: team.clone(),
            actor: actor.clone(),
            sockets: sockets.cloned(),
        })
    };
    vec![
        tool(
            tool_name::TASK_CREATE,
            "Adds a task to the team's list. It has no owner at first, and nothing it waits for.",
        ),
        tool(
            tool_name::TASK_GET,
            "Shows one task: what is to be done, how it stands, what it waits for and what waits for it.",
        ),
        tool(
            tool_name::TASK_UPDATE,
            "Changes a task: its texts, its owner, what it waits for, or its status. Set `owner` to your name and `status` to \
             `in_progress` to take one; of several takers one wins, and the others are told who.",
        ),
        tool(
            tool_name::TASK_LIST,
            "Lists the team's tasks with their status, owners, and what they still wait for.",
        ),
        tool(
            tool_name::SEND_MESSAGE,
            "Writes to a member of the team, or to all; asks a teammate to shut down; answers a request to shut down or to \
             approve a plan. Text that you do not send this way is read by nobody.",
        ),
    ]
}

struct TeamTool {
    name: &'static str,
    description: &'static str,
    team: Team,
    actor: Actor,
    sockets: Option<ClientSockets>,
}

#[async_trait]
impl Tool for TeamTool {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        self.description
    }

    async fn call(&self, input: Value, context: &ToolContext) -> ToolOutcome {
        match TeamCall::parse(self.name, input) {
            Some(Ok(call)) => {
                match as_member(&self.team, &self.actor, || {
                    self.perform(call.clone(), &context.call)
                })
                .await
                {
                    Ok(done) => answer(&done),
                    Err(error) => refusal(&error),
                }
            }
            Some(Err(error)) => ToolOutcome::malformed(&error),
            None => ToolOutcome::refused(format_args!("{} is no tool of the team", self.name)),
        }
    }
}

impl TeamTool {
    async fn perform(&self, call: TeamCall, key: &str) -> Result<ToolAnswer, ApiError> {
        let (team, actor) = (&self.team, &self.actor);
        Ok(match call {
            TeamCall::TaskCreate(input) => {
                let task = team.create_task(actor, input, Some(key)).await?;
                TaskCreated::of(&task, task_times(&task)).into()
            }
            TeamCall::TaskGet(input) => {
                let task = team.task(&input.task_id).await?;
                TaskShown::at(&task, task_times(&task)).into()
            }
            TeamCall::TaskUpdate(input) => team.update_task(actor, input).await?.into(),
            TeamCall::TaskList => TaskListed::of(&team.tasks().await?).into(),
            TeamCall::SendMessage(input) => {
                let mut sent = team.send(actor, input, Some(key)).await?;
                // The messages are already in the inboxes. A receiver in the middle of a turn reads
                // its inbox only later, so also deliver the messages through the sockets.
                if let Some(sockets) = &self.sockets {
                    sockets.push(team, &mut sent.receipts).await;
                }
                sent.answer
            }
            TeamCall::TeamCreate(_)
            | TeamCall::TeamDelete(_)
            | TeamCall::Spawn(_)
            | TeamCall::ExitPlanMode(_)
            | TeamCall::TaskStop(_) => {
                return Err(ApiError::new(
                    pitcrew_protocol::ErrorCode::InvalidRequest,
                    format!("{} takes no such call", self.name),
                ));
            }
        })
    }
}

/// Converts an answer of the team into a tool result. The answer may contain text of other agents,
/// such as a task's subject. The driver neutralises all results.
pub(crate) fn answer(answer: &ToolAnswer) -> ToolOutcome {
    match serde_json::to_value(answer) {
        Ok(data) => ToolOutcome::done(answer.text(), data),
        Err(error) => ToolOutcome::failed(format!("the answer cannot be written: {error}")),
    }
}

/// Converts a refusal of the team into a tool result. The result says what is wrong and what input
/// would be correct.
pub(crate) fn refusal(error: &ApiError) -> ToolOutcome {
    let mut text = error.message.clone();
    // A model reads only the text of a result, so add the details to the text too.
    for (name, value) in &error.details {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text.push_str(&format!("\n{name}: {value}"));
    }
    let data = serde_json::to_value(error).unwrap_or(Value::Null);
    ToolOutcome { text: format!("<tool_use_error>{text}</tool_use_error>"), data, is_error: true }
}
