//! `pitcrew plan show`: shows one plan.

use clap_complete::engine::ArgValueCompleter;
use pitcrew_team::PlanView;

use super::find;
use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::printable;
use crate::selection::TeamChoice;

/// Show a plan as the teammate submitted it
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  pitcrew plan show bob    the one that waits, else the latest")]
pub(crate) struct Show {
    /// The member whose plan is shown, or the id of the plan's request
    #[arg(value_name = "MEMBER|REQUEST", add = ArgValueCompleter::new(completing::plans))]
    which: String,
    #[command(flatten)]
    team: TeamChoice,
}

impl Show {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let plan = find(&self.team.look(context).await?, &self.which).await?;
        context.output.answer(&plan, text)
    }
}

fn text(plan: &PlanView) -> String {
    let at = plan.asked_at.as_deref().unwrap_or("at no known time");
    let mut text = format!(
        "{}, {}, {}, {}\n",
        plan.member,
        plan.state.as_str(),
        printable(at),
        printable(&plan.request_id)
    );
    if let Some(path) = &plan.plan_file_path {
        text += &format!("{}\n", printable(path));
    }
    if let Some(feedback) = &plan.feedback {
        text += &format!("the lead said: {}\n", printable(feedback));
    }
    let content = plan
        .plan
        .as_deref()
        .unwrap_or("(its message is gone; the plan is in its file, where that is still there)");
    text + &format!("\n{}", printable(content))
}
