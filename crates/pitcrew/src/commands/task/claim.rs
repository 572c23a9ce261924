//! `pitcrew task claim`: makes a member the owner of a task.

use clap_complete::engine::ArgValueCompleter;
use pitcrew_team::{Actor, TaskView};

use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::in_one_line;
use crate::selection::TeamChoice;
use crate::settle;

/// Make a member the owner of a task and set it in progress; if several claim it at once, one
/// succeeds
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew task claim --as bob        the first task that is free and has no open blockers
  pitcrew task claim 3 --as bob")]
pub(crate) struct Claim {
    /// The task's number [default: the first that is ready]
    id: Option<String>,
    /// The member that claims the task
    #[arg(long = "as", value_name = "AGENT", add = ArgValueCompleter::new(completing::members))]
    member: String,
    #[command(flatten)]
    team: TeamChoice,
}

impl Claim {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let team = self.team.open_of(context, &self.member).await?;
        let owner = team.member(&self.member).await?.name;
        let actor = Actor::Member(owner.clone());
        let task = team.claim(&actor, self.id.as_deref()).await?;
        settle::until_kept(&team).await?;
        context.output.answer(&TaskView::of(&task), |task| {
            format!("task #{} is {owner}'s: {}", task.task_id, in_one_line(&task.subject))
        })
    }
}
