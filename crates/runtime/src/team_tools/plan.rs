//! ExitPlanMode: hands a plan to the lead.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use pitcrew_protocol::{AgentName, TeamCall, tool_schema};
use pitcrew_team::{Actor, Team};
use serde_json::{Value, json};

use super::tool::{malformed, refusal};
use crate::dropped::as_member;
use crate::given_file::read_own;
use crate::tools::{Tool, ToolContext, ToolOutcome};

/// The longest plan a frame carries; the file may be longer.
const PLAN_CHARS: usize = 50_000;

/// The tool by which a teammate hands in its plan.
pub(crate) fn exit_plan_mode(team: &Team, member: &AgentName, plan_file: PathBuf) -> Arc<dyn Tool> {
    Arc::new(ExitPlanMode { team: team.clone(), member: member.clone(), plan_file })
}

struct ExitPlanMode {
    team: Team,
    member: AgentName,
    plan_file: PathBuf,
}

#[async_trait]
impl Tool for ExitPlanMode {
    fn name(&self) -> &'static str {
        "ExitPlanMode"
    }

    fn description(&self) -> &'static str {
        "Hands the plan in your plan file to the lead for approval. End your turn after it: the answer wakes you."
    }

    fn input_schema(&self) -> Value {
        tool_schema("ExitPlanMode").unwrap_or_else(|| json!({"type": "object"}))
    }

    fn is_read_only(&self) -> bool {
        false
    }

    async fn call(&self, input: Value, context: &ToolContext) -> ToolOutcome {
        let given = match TeamCall::parse("ExitPlanMode", input) {
            Some(Ok(TeamCall::ExitPlanMode(input))) => input.plan,
            Some(Ok(_)) | None => None,
            Some(Err(error)) => return malformed(&error),
        };
        let plan = match given {
            Some(plan) => plan,
            None => {
                let (file, most) = (self.plan_file.clone(), context.limits.file_bytes);
                let read =
                    tokio::task::spawn_blocking(move || read_own(&file, most).map_err(|error| error.to_string()));
                match read.await.unwrap_or_else(|error| Err(error.to_string())) {
                    Ok(plan) => plan,
                    Err(error) => {
                        let path = self.plan_file.display();
                        return ToolOutcome::refused(format_args!("Write your plan to {path} first: {error}"));
                    }
                }
            }
        };
        if plan.trim().is_empty() {
            return ToolOutcome::refused(format_args!("The plan in {} is empty", self.plan_file.display()));
        }
        let path = self.plan_file.to_string_lossy();
        let shown: String = plan.chars().take(PLAN_CHARS).collect();
        let (team, actor) = (&self.team, Actor::Member(self.member.clone()));
        let ask = || team.request_plan_approval(&self.member, &path, &shown, Some(&context.call));
        match as_member(team, &actor, ask).await {
            Ok(asked) => ToolOutcome::done(
                format!(
                    "Your plan went to the lead for approval (request {}). End your turn; the answer wakes you. Until it \
                     is approved nothing may change.",
                    asked.request_id
                ),
                json!({"plan": plan, "filePath": path, "awaitingLeaderApproval": true, "requestId": asked.request_id}),
            ),
            Err(error) => refusal(&error),
        }
    }
}
