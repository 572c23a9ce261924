//! `pitcrew plan list`: lists the plans of teammates.

use pitcrew_team::{PlanState, PlanView};
use serde::Serialize;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, first_line, printable};
use crate::selection::TeamChoice;

/// The maximum number of characters of a plan in the table.
const PLAN_CHARS: usize = 50;

/// List the plans that wait for an answer
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Also list plans that are answered or no longer wait for an answer
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    team: TeamChoice,
}

#[derive(Debug, Serialize)]
struct Listed {
    plans: Vec<PlanView>,
    total: usize,
}

impl List {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut plans = self.team.look(context).await?.plans().await?;
        plans.retain(|plan| self.all || plan.state == PlanState::Open);
        let listed = Listed { total: plans.len(), plans };
        context.output.answer(&listed, |listed| table(&listed.plans, self.all))
    }
}

fn table(plans: &[PlanView], all: bool) -> String {
    if plans.is_empty() {
        return if all { "no plans" } else { "no plan waits for an answer" }.to_owned();
    }
    let cells = |plan: &PlanView| {
        [
            plan.member.to_string(),
            plan.state.as_str().to_owned(),
            printable(plan.asked_at.as_deref().unwrap_or("-")).into_owned(),
            first_line(plan.plan.as_deref().unwrap_or("-"), PLAN_CHARS),
            printable(&plan.request_id).into_owned(),
        ]
    };
    let rows: Vec<_> = plans.iter().map(cells).collect();
    output::table(["MEMBER", "STATE", "HANDED IN", "PLAN", "REQUEST"], &rows)
}
