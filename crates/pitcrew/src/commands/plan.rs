//! `pitcrew plan`: lists, shows, approves and rejects the plans of teammates.

mod answer;
mod list;
mod show;

use pitcrew_team::{PlanState, PlanView, Team};

use crate::context::Context;
use crate::failure::{Failure, FailureKind};

/// List, show, approve and reject the plans of teammates
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Plan {
    List(list::List),
    Show(show::Show),
    Approve(answer::Approve),
    Reject(answer::Reject),
}

impl Plan {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::List(command) => context.briefly(command.run(context)),
            Self::Show(command) => context.briefly(command.run(context)),
            Self::Approve(command) => context.briefly(command.run(context)),
            Self::Reject(command) => context.briefly(command.run(context)),
        }
    }
}

/// Finds a plan by its request id or by the name of its member. For a member, returns the latest
/// plan that waits for an answer, otherwise the member's latest plan.
async fn find(team: &Team, which: &str) -> Result<PlanView, Failure> {
    let mut plans = team.plans().await?;
    if let Some(at) = plans.iter().position(|plan| plan.request_id == which) {
        return Ok(plans.swap_remove(at));
    }
    let open: Vec<String> =
        plans.iter().filter(|plan| plan.state == PlanState::Open).map(named).collect();
    plans.retain(|plan| plan.member.as_str().eq_ignore_ascii_case(which));
    let waits = plans.iter().rposition(|plan| plan.state == PlanState::Open);
    match waits.or(plans.len().checked_sub(1)) {
        Some(at) => Ok(plans.swap_remove(at)),
        None => {
            let said = format!("no plan of '{which}' is known in team {}", team.name());
            let failure = Failure::new(FailureKind::NotFound, said);
            Err(match open.is_empty() {
                true => failure.hint(
                    "no plan waits for an answer; `pitcrew plan list --all` also shows answered plans",
                ),
                false => failure.hint(format!("these wait: {}", open.join(", "))),
            })
        }
    }
}

/// Names a plan in messages to the user: the member's name and the request id.
fn named(plan: &PlanView) -> String {
    format!("{} ({})", plan.member, plan.request_id)
}
