//! Makes a member the lead of a team whose lead is dead. The member's conversation becomes the
//! lead's conversation.
//!
//! This process holds the lease of the run during the take-over, and no agent has started yet. The
//! take-over is recorded before its first step, and each step can be repeated. A crash in between
//! therefore loses nothing.

use std::path::Path;
use std::time::Duration;

use pitcrew_agent::transcript::{Conversation, Entry, Step, read};
use pitcrew_protocol::{
    AgentName, ApiError, ErrorCode, LEAD_NAME, TaskListed, TaskRow, TaskStatus, TeamConfig,
    neutralised,
};
use pitcrew_team::store::{LeaseName, LogName};
use pitcrew_team::{Actor, TakeOver, Team};

use super::start::store_error;
use crate::prompts::Prompt;
use crate::run::RunError;
use crate::supervision::{RecordedPanes, stop_member};

/// Text that becomes the result of a call that the take-over interrupted.
const CUT_OFF: &str = "Cut off: the lead of the team died, and you took its place. See what this did before you make it again.";

/// Records that `member` will become the lead. Ends the member's own process, which waits for a
/// lead.
///
/// # Errors
/// If `member` is not a member of the team, if another client runs it, if it has ended, or if it
/// has no stored conversation. Also if the member's process cannot be stopped. This includes a
/// process that joined the team by itself, because it has no record of a start by a lead.
pub(super) async fn begin_take_over(
    team: &Team,
    member: &AgentName,
    panes: &RecordedPanes,
    grace: Duration,
) -> Result<(), RunError> {
    let member = team.member(member.as_str()).await?.name;
    let conversation = conversation(team, &member).await?.1;
    if conversation == Conversation::default() || conversation.ended().is_some() {
        let said = format!("nothing is kept of the conversation of '{member}' that could go on");
        return Err(ApiError::new(ErrorCode::InvalidStatus, said)
            .with("agent", member.as_str())
            .into());
    }
    // End the member's process first. Its transcript then no longer changes while it is copied.
    stop_own_process(team, &member, panes, grace).await?;
    team.begin_take_over(&Actor::User, &member).await?;
    Ok(())
}

/// Completes a take-over that is recorded but not complete. Replaces the lead's conversation by the
/// member's conversation, keeps a copy of the lead's old conversation, and removes the member from
/// the team.
///
/// # Errors
/// When the team's files cannot be read or written.
pub(super) async fn finish_take_over(team: &Team, cwd: &Path) -> Result<(), RunError> {
    let Some(noted) = team.take_over().await? else { return Ok(()) };
    replace_transcript(team, &noted, cwd).await?;
    if team.config().await?.member(noted.member.as_str()).is_some() {
        team.remove_member(&Actor::User, &noted.member).await?;
    }
    Ok(team.end_take_over().await?)
}

async fn stop_own_process(
    team: &Team,
    member: &AgentName,
    panes: &RecordedPanes,
    grace: Duration,
) -> Result<(), RunError> {
    if let Some(started) = team.started().await?.remove_entry(member) {
        let stopped = stop_member(team, panes, grace, started).await?;
        tracing::info!(%member, end = ?stopped.end, "its process makes room for the lead");
    }
    let holder = team.lease_holder(&LeaseName::of_member(member)).await;
    match holder.map_err(|error| store_error(team, error))? {
        None => Ok(()),
        Some(holder) => Err(RunError::MemberHeld { agent: member.clone(), pid: holder.pid }),
    }
}

async fn replace_transcript(team: &Team, noted: &TakeOver, cwd: &Path) -> Result<(), RunError> {
    let lead = LogName::Transcript(AgentName::lead());
    // The file name contains the recorded time of the take-over. If the take-over is repeated after
    // a crash, it finds the same file.
    let former = LogName::Former { agent: AgentName::lead(), until_ms: noted.at_ms };
    let log = async |log: &LogName| team.log(log).await.map_err(|error| store_error(team, error));
    let kept = log(&former).await?;
    // If a copy of the old transcript exists and differs from the current transcript, the
    // transcript was already replaced before a crash.
    if !kept.is_empty() && kept != log(&lead).await? {
        return Ok(());
    }
    let (mut entries, conversation) = conversation(team, &noted.member).await?;
    let next = entries.last().map_or(1, |entry| entry.seq + 1);
    let told = Step::Told { text: inputs(team, noted, cwd).await? };
    let mut known = team.ended_members().await?;
    // The step `Parted` lists the members whose end the lead knows. The list includes all members
    // that have ended, and the member that becomes the lead. The new lead is then not informed of
    // these ends again.
    known.push(noted.member.clone());
    let parted = Step::Parted { members: known, ids: Vec::new(), text: String::new() };
    let steps = closing(&conversation).into_iter().chain([parted, told]);
    entries.extend((next..).zip(steps).map(|(seq, step)| Entry { seq, step }));
    let lines: Result<Vec<String>, _> = entries.iter().map(serde_json::to_string).collect();
    let lines = lines.map_err(|source| damaged(team, source))?;
    let replaced = team.replace_log(&lead, &lines, &former).await;
    replaced.map_err(|error| store_error(team, error))
}

async fn conversation(
    team: &Team,
    member: &AgentName,
) -> Result<(Vec<Entry>, Conversation), RunError> {
    let lines = team.log(&LogName::Transcript(member.clone())).await;
    let read = read(&lines.map_err(|error| store_error(team, error))?)
        .map_err(|source| damaged(team, source))?;
    let entries = read.entries;
    let mut conversation = Conversation::default();
    entries.iter().for_each(|entry| conversation.apply(&entry.step));
    Ok((entries, conversation))
}

/// Returns the steps that end what is still open in the member's conversation: its unanswered tool
/// calls, its plan that waits for approval, and a shutdown request.
fn closing(conversation: &Conversation) -> Vec<Step> {
    let cut_off = |call: &str| Step::Result {
        call: call.to_owned(),
        text: CUT_OFF.to_owned(),
        is_error: true,
        context: Vec::new(),
        seen: Vec::new(),
    };
    let calls = conversation.open_calls().iter().map(|open| cut_off(&open.call.id));
    let plan =
        conversation.plan().map(|request| Step::PlanAnswered { request: request.to_owned() });
    let shutdown = conversation.shutdown().map(|_| Step::ShutdownRefused);
    calls.chain(plan).chain(shutdown).collect()
}

/// Returns the text that informs the new lead about the team. Names and task subjects come from
/// other agents, so tags in them are escaped.
async fn inputs(team: &Team, noted: &TakeOver, cwd: &Path) -> Result<String, RunError> {
    let (config, tasks) = (team.config().await?, team.tasks().await?);
    let members = lines_or_none(members(&config, &noted.member));
    let tasks = lines_or_none(
        TaskListed::of(&tasks).tasks.iter().map(|task| row(task, &noted.member)).collect(),
    );
    let cwd = cwd.to_string_lossy();
    let values = [
        ("name", noted.member.as_str()),
        ("team", config.name.as_str()),
        ("cwd", &cwd),
        ("members", &members),
        ("tasks", &tasks),
    ];
    let text = Prompt::TookOver.render(&values).map_err(|source| damaged(team, source))?;
    Ok(format!("<system-reminder>\n{}\n</system-reminder>", neutralised(&text)))
}

fn members(config: &TeamConfig, gone: &AgentName) -> Vec<String> {
    let others = config.teammates().filter(|member| member.name != *gone);
    others
        .map(|member| {
            format!("- {} ({})", member.name, member.agent_type.as_deref().unwrap_or("agent"))
        })
        .collect()
}

fn row(task: &TaskRow, gone: &AgentName) -> String {
    let TaskRow { id, subject, status, owner, .. } = task;
    match owner.as_deref() {
        Some(owner) if owner == gone.as_str() && *status != TaskStatus::Completed => {
            format!("- #{id} [{}] {subject}", TaskStatus::Pending.as_str())
        }
        Some(LEAD_NAME) => format!("- #{id} [{}, yours] {subject}", status.as_str()),
        Some(owner) => format!("- #{id} [{}, {owner}] {subject}", status.as_str()),
        None => format!("- #{id} [{}] {subject}", status.as_str()),
    }
}

fn lines_or_none(lines: Vec<String>) -> String {
    if lines.is_empty() { "- none".to_owned() } else { lines.join("\n") }
}

fn damaged(team: &Team, source: impl std::error::Error + Send + Sync + 'static) -> RunError {
    RunError::Store { team: team.name().to_string(), source: Box::new(source) }
}
