//! `pitcrew task update`: changes a task.

use clap_complete::engine::ArgValueCompleter;
use pitcrew_protocol::{ApiError, ErrorCode, StatusChange, TaskUpdateInput};
use pitcrew_team::{Actor, TaskView, Team};
use serde_json::{Map, Value, json};

use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::selection::TeamChoice;
use crate::settle;

/// Change a task: its status, owner, blockers, texts or metadata
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew task update 3 --status completed
  pitcrew task update 3 --owner bob --blocked-by 1 --blocked-by 2
  pitcrew task update 3 --metadata priority=null      removes the field
  pitcrew task update 3 --status in_progress --force      starts it though a blocker is open")]
pub(crate) struct Update {
    /// The task's number
    id: String,
    /// The new status: pending, in_progress, completed, or deleted to remove the task
    #[arg(long, value_parser = status, add = ArgValueCompleter::new(completing::statuses))]
    status: Option<StatusChange>,
    /// The new owner, who is notified at once
    #[arg(long, value_name = "AGENT", add = ArgValueCompleter::new(completing::members))]
    owner: Option<String>,
    /// A new title
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// A new description
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// A new title to show while the task is in progress
    #[arg(long, value_name = "TEXT")]
    active_form: Option<String>,
    /// A task that must be completed before this one; may be given several times
    #[arg(long, value_name = "ID")]
    blocked_by: Vec<String>,
    /// A task that has to wait for this one; may be given several times
    #[arg(long, value_name = "ID")]
    blocks: Vec<String>,
    /// A metadata field, where VALUE is JSON or plain text, and null removes the field; may be
    /// given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = super::metadata_entry)]
    metadata: Vec<(String, Value)>,
    /// With --status in_progress: start the task even if its blockers are not completed
    #[arg(long, requires = "status")]
    force: bool,
    #[command(flatten)]
    team: TeamChoice,
}

impl Update {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let team = self.team.open_of(context, self.owner.as_deref().unwrap_or_default()).await?;
        let metadata: Map<String, Value> = self.metadata.into_iter().collect();
        let input = TaskUpdateInput {
            task_id: self.id.clone(),
            subject: self.subject,
            description: self.description,
            active_form: self.active_form,
            status: self.status,
            add_blocks: self.blocks,
            add_blocked_by: self.blocked_by,
            owner: self.owner,
            metadata: (!metadata.is_empty()).then_some(metadata),
        };
        let gives = input.owner.is_some();
        let updated = match self.force {
            true => team.force_task(&Actor::User, input).await?,
            false => team.update_task(&Actor::User, input).await.map_err(refused)?,
        };
        // A member gets a message when it becomes the owner of a task. If a Claude Code session
        // leads the team, only that session can sign such a message, so the message is not sent and
        // a warning is printed.
        if gives && team.config().await?.is_session_dialect() {
            output::remark(
                "the owner is not informed: in a session's team only its lead can sign that message; inform it with `pitcrew send`",
            );
        }
        settle::until_kept(&team).await?;
        match self.status {
            Some(StatusChange::Deleted) => {
                let gone = json!({"taskId": updated.task_id, "status": "deleted"});
                context.output.answer(&gone, |_| format!("deleted task #{}", updated.task_id))
            }
            Some(StatusChange::To(_)) | None => {
                changed(context, &team, &self.id, &updated.updated_fields).await
            }
        }
    }
}

/// Adds a hint to the error for a blocked task. The hint says how the user can start the task
/// anyway.
fn refused(error: ApiError) -> Failure {
    let is_blocked =
        error.code == ErrorCode::InvalidStatus && error.details.contains_key("blocked_by");
    let failure = Failure::from(error);
    if is_blocked {
        failure.hint("--force starts it although its blockers are open")
    } else {
        failure
    }
}

async fn changed(
    context: &Context,
    team: &Team,
    id: &str,
    fields: &[String],
) -> Result<(), Failure> {
    let task = team.task(id).await?;
    context.output.answer(&TaskView::of(&task), |task| match fields {
        [] => format!("task #{} had these values already; nothing was changed", task.task_id),
        fields => format!("changed {} of task #{}", fields.join(", "), task.task_id),
    })
}

fn status(name: &str) -> Result<StatusChange, String> {
    StatusChange::from_name(name)
        .ok_or_else(|| "one of pending, in_progress, completed, deleted".to_owned())
}
