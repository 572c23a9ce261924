//! The tool ExitPlanMode. A teammate uses it to submit its plan to the lead, and a lead uses it to
//! show its own plan to the user.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use pitcrew_process::given_file::read_plain;
use pitcrew_protocol::tool_name::EXIT_PLAN_MODE;
use pitcrew_protocol::{AgentName, TeamCall};
use pitcrew_team::{Actor, Team};
use pitcrew_tools::{Tool, ToolContext, ToolOutcome};
use serde_json::{Value, json};

use super::tool::refusal;
use crate::dropped::as_member;

/// Maximum number of characters of a plan in a message to the lead. The plan file itself can be
/// longer.
pub(crate) const PLAN_CHARS: usize = 50_000;

/// Creates the tool with which a teammate submits its plan.
pub(crate) fn exit_plan_mode(team: &Team, member: &AgentName, plan_file: PathBuf) -> Arc<dyn Tool> {
    Arc::new(ExitPlanMode { team: team.clone(), member: member.clone(), plan_file })
}

/// Creates the tool with which a lead leaves plan mode. The user decides before the call runs. When
/// the call runs, the user has therefore already approved the plan.
pub(crate) fn show_plan(plan_file: PathBuf) -> Arc<dyn Tool> {
    Arc::new(ShowPlan { plan_file })
}

/// Returns the plan of a call. Uses the plan in the call's input. If the input has no plan, uses
/// the plan in the plan file.
///
/// # Errors
/// A message for the model if there is no plan.
pub(crate) async fn plan_of(
    input: &Value,
    plan_file: &Path,
    most_bytes: u64,
) -> Result<String, String> {
    let given = input.get("plan").and_then(Value::as_str);
    let plan = match given {
        Some(plan) => plan.to_owned(),
        None => {
            let file = plan_file.to_owned();
            let read = tokio::task::spawn_blocking(move || {
                read_plain(&file, most_bytes).map_err(|error| error.to_string())
            });
            let read = read.await.unwrap_or_else(|error| Err(error.to_string()));
            read.map_err(|error| {
                format!("Write your plan to {} first: {error}", plan_file.display())
            })?
        }
    };
    if plan.trim().is_empty() {
        return Err(format!("The plan in {} is empty", plan_file.display()));
    }
    Ok(plan)
}

struct ShowPlan {
    plan_file: PathBuf,
}

#[async_trait]
impl Tool for ShowPlan {
    fn name(&self) -> &str {
        EXIT_PLAN_MODE
    }

    fn description(&self) -> &str {
        "Shows the plan in your plan file to the user, who approves it or says what to change."
    }

    async fn call(&self, input: Value, context: &ToolContext) -> ToolOutcome {
        match plan_of(&input, &self.plan_file, context.limits.file_bytes).await {
            Ok(plan) => ToolOutcome::done(
                "The user has approved your plan, and you are no longer in plan mode. Carry the plan out.",
                json!({"plan": plan, "filePath": self.plan_file}),
            ),
            Err(reason) => ToolOutcome::refused(reason),
        }
    }
}

struct ExitPlanMode {
    team: Team,
    member: AgentName,
    plan_file: PathBuf,
}

#[async_trait]
impl Tool for ExitPlanMode {
    fn name(&self) -> &str {
        EXIT_PLAN_MODE
    }

    fn description(&self) -> &str {
        "Hands the plan in your plan file to the lead for approval. End your turn after it: the answer wakes you."
    }

    async fn call(&self, input: Value, context: &ToolContext) -> ToolOutcome {
        if let Some(Err(error)) = TeamCall::parse(EXIT_PLAN_MODE, input.clone()) {
            return ToolOutcome::malformed(&error);
        }
        let plan = match plan_of(&input, &self.plan_file, context.limits.file_bytes).await {
            Ok(plan) => plan,
            Err(reason) => return ToolOutcome::refused(reason),
        };
        let path = self.plan_file.to_string_lossy();
        // The message contains only the beginning of a long plan. It also names the plan file,
        // which contains the whole plan.
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
