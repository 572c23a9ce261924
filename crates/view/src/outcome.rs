//! The end of a run as JSON for programs: how the run ended, the work of each agent, and the last
//! message.

use pitcrew_agent::Role;
use pitcrew_protocol::Status;
use pitcrew_runtime::run::{KeptWorktree, RunEnd, RunOutcome, TaskSummary};
use serde_json::{Map, Value, json};

use crate::fold::{ViewEvent, fold};
use crate::state::{AgentState, TeamState};

/// Returns JSON fields that describe the end of a run. The result event does not contain these
/// fields. The reasons in the fields are not shortened.
#[must_use]
pub fn document(outcome: &RunOutcome, resume: Option<&str>) -> Map<String, Value> {
    let agents = fold(TeamState::default(), &ViewEvent::Ended(outcome)).agents;
    let (subagents, members): (Vec<_>, Vec<_>) =
        agents.iter().partition(|agent| agent.role == Some(Role::Subagent));
    let all = |agents: Vec<&AgentState>| agents.into_iter().map(agent).collect::<Value>();
    let kept = |kept: &KeptWorktree| json!({"member": kept.agent, "path": kept.path, "branch": kept.branch, "reason": kept.reason});
    let fields = [
        ("success", matches!(outcome.end, RunEnd::Success { .. }).into()),
        ("end", outcome.end.as_str().into()),
        ("exit_code", 0.into()),
        ("team", outcome.team.as_str().into()),
        ("team_deleted", outcome.team_deleted.into()),
        ("resume", resume.into()),
        ("members", all(members)),
        ("subagents", all(subagents)),
        ("tasks", outcome.tasks.iter().map(task).collect()),
        ("open", outcome.open.in_words().into()),
        ("unpriced_models", outcome.totals.unpriced().collect()),
        ("kept_worktrees", outcome.kept.iter().map(kept).collect()),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn agent(agent: &AgentState) -> Value {
    let counted = |count: Value| if agent.is_counted { count } else { Value::Null };
    json!({
        "name": agent.name, "agent_type": agent.agent_type, "model": agent.model, "state": state_name(agent),
        "reason": agent.reason, "turns": counted(agent.turns.into()), "tool_calls": counted(agent.tool_calls.into()),
        "tokens": counted(agent.usage.context_tokens().into()), "cost_usd": counted(agent.cost_usd.into()),
    })
}

fn task(task: &TaskSummary) -> Value {
    json!({"id": task.id, "subject": task.subject, "status": task.status, "owner": task.owner})
}

/// Returns the state of an agent as a word for JSON. For a teammate that agreed to leave, the word
/// is `shut_down`. This word does not mean that the teammate's tasks are done.
#[must_use]
pub fn state_name(agent: &AgentState) -> &'static str {
    match (agent.status, agent.role) {
        (Status::Completed, Some(Role::Teammate)) => "shut_down",
        (status, Some(Role::Lead | Role::Teammate | Role::Subagent) | None) => status.as_str(),
    }
}

/// Returns the last message of a run. If there is no last message, returns the reason why the run
/// ended.
#[must_use]
pub fn result_text(end: &RunEnd) -> String {
    match end {
        RunEnd::Success { text } => text.clone(),
        RunEnd::Failed { reason } | RunEnd::Broken { reason } | RunEnd::Parked { reason, .. } => {
            reason.clone()
        }
        RunEnd::Unfinished { text, shortfall, .. } => {
            text.clone().unwrap_or_else(|| shortfall.in_words().to_owned())
        }
        RunEnd::Interrupted => "stopped by the user".to_owned(),
        RunEnd::ShutDown => "the user ended the team".to_owned(),
        RunEnd::LimitReached { reason, text, .. } => text.clone().unwrap_or_else(|| reason.clone()),
    }
}

/// Returns the last message of the run's main agent.
#[must_use]
pub fn last_words(outcome: &RunOutcome) -> Option<&str> {
    match &outcome.end {
        RunEnd::Success { text } => Some(text),
        RunEnd::LimitReached { text, .. } | RunEnd::Unfinished { text, .. } => text.as_deref(),
        RunEnd::Failed { .. }
        | RunEnd::Broken { .. }
        | RunEnd::Parked { .. }
        | RunEnd::Interrupted
        | RunEnd::ShutDown => None,
    }
}
