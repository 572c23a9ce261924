//! `pitcrew plan approve` and `pitcrew plan reject`: answer a teammate's plan.

use clap_complete::engine::ArgValueCompleter;
use pitcrew_protocol::{AgentName, ApiError, ErrorCode};
use pitcrew_runtime::control_socket::ControlRequest;
use pitcrew_team::{PlanState, PlanView, Team};
use pitcrew_view::lead;
use pitcrew_view::running::Running;

use super::find;
use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::shell_word;
use crate::report::plan_hints;
use crate::selection::TeamChoice;

/// Approve a teammate's plan: it leaves plan mode and carries the plan out
///
/// The process that leads the team signs the answer, and the lead learns of it. The first answer
/// counts.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pitcrew plan approve bob")]
pub(crate) struct Approve {
    /// The member whose plan is answered, or the id of the plan's request
    #[arg(value_name = "MEMBER|REQUEST", add = ArgValueCompleter::new(completing::plans))]
    which: String,
    #[command(flatten)]
    team: TeamChoice,
}

/// Reject a teammate's plan: it stays in plan mode and makes another
///
/// The process that leads the team signs the answer, and the lead learns of it. The first answer
/// counts.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  pitcrew plan reject bob --feedback \"leave the public API as it is\""
)]
pub(crate) struct Reject {
    /// The member whose plan is answered, or the id of the plan's request
    #[arg(value_name = "MEMBER|REQUEST", add = ArgValueCompleter::new(completing::plans))]
    which: String,
    /// What the next plan should do differently
    #[arg(long, value_name = "TEXT")]
    feedback: Option<String>,
    #[command(flatten)]
    team: TeamChoice,
}

impl Approve {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let team = self.team.open(context).await?;
        answer(context, &team, &self.which, true, None).await
    }
}

impl Reject {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let team = self.team.open(context).await?;
        answer(context, &team, &self.which, false, self.feedback).await
    }
}

async fn answer(
    context: &Context,
    team: &Team,
    which: &str,
    approve: bool,
    feedback: Option<String>,
) -> Result<(), Failure> {
    let plan = find(team, which).await?;
    if plan.state != PlanState::Open {
        return Err(not_open(&plan));
    }
    let (request, member) = (plan.request_id.clone(), plan.member.to_string());
    let asked = ControlRequest::Plan { request, member, approve, feedback };
    let Some(answer) = lead::ask(team, &asked).await? else {
        return Err(nobody_signs(team, &plan.member).await?);
    };
    let done = if approve { "approved" } else { "rejected" };
    context.output.answer(&answer, |_| format!("the plan of {} is {done}", plan.member))
}

fn not_open(plan: &PlanView) -> Failure {
    let said = match plan.state {
        PlanState::Open => "waits for an answer",
        PlanState::Approved => "is approved already",
        PlanState::Rejected => "is rejected already",
        PlanState::Void => "is void: no agent waits for an answer any more",
    };
    let error =
        ApiError::new(ErrorCode::InvalidStatus, format!("the plan {} {said}", super::named(plan)));
    error.with("request_id", plan.request_id.as_str()).into()
}

/// Builds the error for a team that no pitcrew process leads. Only the lead can sign the answer to
/// a plan, so no answer can be sent.
async fn nobody_signs(team: &Team, member: &AgentName) -> Result<Failure, Failure> {
    let config = team.config().await?;
    let running = Running::of(team, &config).await?;
    let word = shell_word(team.name().as_str()).into_owned();
    let said =
        format!("only the lead may answer plans, and team '{}' is {}", team.name(), running.text());
    let failure = Failure::from(
        ApiError::new(ErrorCode::PermissionDenied, said).with("team_name", team.name().as_str()),
    );
    Ok(match running {
        Running::No | Running::Stale { .. } => {
            // A lead that is started without a word about the plan may end without an answer.
            let hints = plan_hints(&format!("pitcrew run --resume {word}"), member);
            hints.into_iter().fold(failure, Failure::hint)
        }
        Running::BySession { .. }
        | Running::Elsewhere { .. }
        | Running::Unknown
        | Running::ByPitcrew { .. } => {
            failure.hint(format!("`pitcrew send --team {word} team-lead` can ask it to"))
        }
    })
}
