//! `pitcrew task get`.

use crate::context::Context;
use crate::failure::Failure;
use crate::selection::TeamChoice;
use crate::shapes::TaskShape;

/// Show one task
#[derive(Debug, clap::Args)]
pub(crate) struct Get {
    /// The task's number
    id: String,
    #[command(flatten)]
    team: TeamChoice,
}

impl Get {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let team = self.team.open(context).await?;
        let task = team.task(&self.id).await?;
        let shape = TaskShape::read(&team, &task).await?;
        context.output.answer(&shape, TaskShape::text)
    }
}
