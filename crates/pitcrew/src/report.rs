//! The end of a run, for people: what each agent did, what was kept, and with what the process ends.

use std::fmt::Write as _;

use pitcrew_runtime::run::{AgentSummary, RunEnd, RunOutcome};

use crate::failure::{Failure, FailureKind};
use crate::live::signals::EndSignal;
use crate::live::view::short;
use crate::output::{self, first_line, printable};

/// What the name of a scripted model begins with; it costs nothing.
const SCRIPTED: &str = "script:";

/// The widest reason in the table.
const REASON_CHARS: usize = 50;

/// What came of a whole team.
pub(crate) fn summary(outcome: &RunOutcome) -> String {
    let mut text = table(outcome);
    if !outcome.team_deleted {
        let _ = write!(text, "\nthe team is still there: {}", resume(outcome));
    }
    text
}

/// What every agent did, in a table, with what needs to be known besides.
pub(crate) fn table(outcome: &RunOutcome) -> String {
    let cells = |agent: &AgentSummary| cells(agent, !outcome.unpriced.contains(&agent.model));
    let rows: Vec<_> = outcome.agents.iter().map(cells).collect();
    let mut text = output::table(["AGENT", "MODEL", "END", "TURNS", "TOOL CALLS", "TOKENS", "COST"], &rows);
    for kept in &outcome.kept {
        let place = kept.path.display().to_string();
        let _ =
            write!(text, "\nkept {}'s worktree {} on {}: {}", kept.agent, printable(&place), kept.branch, kept.reason);
    }
    let unpriced: Vec<&str> =
        outcome.unpriced.iter().map(String::as_str).filter(|model| !model.starts_with(SCRIPTED)).collect();
    if !unpriced.is_empty() {
        let _ = write!(text, "\nwithout a price, and so not in the cost: {}", unpriced.join(", "));
    }
    text
}

/// How a run that left its team goes on.
pub(crate) fn resume(outcome: &RunOutcome) -> String {
    format!("pitcrew run --resume {}", outcome.team)
}

fn cells(agent: &AgentSummary, has_price: bool) -> [String; 7] {
    let end = agent.state.as_str().replace('_', " ");
    let reason = agent.reason.as_deref().map(|reason| format!(": {}", first_line(reason, REASON_CHARS)));
    [
        agent.name.to_string(),
        short_model(&agent.model).to_owned(),
        format!("{end}{}", reason.unwrap_or_default()),
        agent.turns.to_string(),
        agent.tool_calls.to_string(),
        short(agent.usage.context_tokens()),
        if has_price { format!("${:.2}", agent.cost_usd) } else { "-".to_owned() },
    ]
}

/// A model's name without the folders of a script.
fn short_model(model: &str) -> &str {
    match model.strip_prefix(SCRIPTED) {
        Some(file) => file.rsplit('/').next().unwrap_or(file),
        None => model,
    }
}

/// The last words of the agent that the run was about.
pub(crate) fn last_words(outcome: &RunOutcome) -> Option<&str> {
    match &outcome.end {
        RunEnd::Success { text } => Some(text),
        RunEnd::LimitReached { text, .. } => text.as_deref(),
        RunEnd::Failed { .. } | RunEnd::Interrupted => None,
    }
}

/// With what the process ends; `resume` is the command that goes on where it was stopped.
///
/// # Errors
/// Unless the agent that the run was about said its last word.
pub(crate) fn ended(outcome: &RunOutcome, signal: Option<EndSignal>, resume: &str) -> Result<(), Failure> {
    match (&outcome.end, signal) {
        (RunEnd::Success { .. }, None) => Ok(()),
        (RunEnd::Failed { reason }, _) => Err(Failure::new(FailureKind::Failed, reason.clone())),
        (RunEnd::LimitReached { reason, .. }, _) => Err(Failure::new(FailureKind::LimitReached, reason.clone())),
        (RunEnd::Success { .. } | RunEnd::Interrupted, Some(signal)) => {
            Err(Failure::new(signal.failure(), "the run was stopped").hint(resume))
        }
        (RunEnd::Interrupted, None) => Err(Failure::new(FailureKind::Interrupted, "the run was stopped").hint(resume)),
    }
}
