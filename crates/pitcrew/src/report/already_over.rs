//! The report of a run that ended before the terminal interface reached its host.

use pitcrew_protocol::AgentName;
use pitcrew_team::TeamRecords;
use pitcrew_view::agent_now::AgentNow;
use pitcrew_view::conversation::Part;

use super::records;
use crate::commands::transcript::conversation;
use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::output::{self, printable, shell_word};

/// The end of a run that was completed, as the journal names it.
const COMPLETED: &str = "completed";

/// Prints the last answer of the lead, the agents with what they used, and how the run ended.
///
/// # Errors
/// Returns an error if the run was not completed, or if its records cannot be read.
pub(crate) async fn already_over(context: &Context, team: &str) -> Result<(), Failure> {
    let records = records(context, team).await?;
    let (config, lead) = (records.config().await?, AgentName::lead());
    let recorded = conversation(context, &records, &config, &lead).await?;
    let answer = recorded.and_then(|(_, conversation)| {
        conversation.parts.into_iter().rev().find_map(|part| match part {
            Part::Text { text } => Some(text),
            _ => None,
        })
    });
    if let Some(answer) = answer {
        output::line(&printable(answer.trim_end()))?;
    }
    output::remark(&agents(context, &records).await?);
    let (root, word) = (context.root_flag(), shell_word(team));
    let hint = format!("`pitcrew{root} transcript team-lead --team {word}` shows the conversation");
    let ended = records.summary().await?.runs.ended;
    let end = ended.as_ref().and_then(|ended| ended.end.as_deref());
    if end == Some(COMPLETED) {
        output::remark(&format!("team {team} has completed its work; {hint}"));
        return Ok(());
    }
    let reason = ended.as_ref().and_then(|ended| ended.reason.as_deref());
    let said = match (end, reason) {
        (Some(end), Some(reason)) => format!("the run ended ({end}): {reason}"),
        (Some(end), None) => format!("the run ended ({end})"),
        (None, _) => "the process of the run ended without a word".to_owned(),
    };
    Err(Failure::new(FailureKind::Failed, printable(&said).into_owned())
        .hint(format!("`pitcrew{root} run --resume {word}` goes on with it"))
        .hint(hint))
}

/// Formats the agents as a table, from the records of the team.
async fn agents(context: &Context, records: &TeamRecords) -> Result<String, Failure> {
    let agents = AgentNow::of_team(records, &[], &context.root).await?;
    let rows: Vec<_> = agents.iter().map(AgentNow::cells).collect();
    Ok(output::table(["AGENT", "END", "TURNS", "TOOL CALLS", "TOKENS", "COST"], &rows))
}
