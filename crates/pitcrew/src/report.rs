//! The end of a run, for people: what each agent did, what was kept, and with what the process ends.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::Zoned;
use pitcrew_runtime::gate::allow_flag;
use pitcrew_runtime::run::{AgentSummary, RunEnd, RunOutcome};
use serde_json::{Value, json};

use crate::failure::{Failure, FailureKind};
use crate::live::signals::EndSignal;
use crate::live::view::short;
use crate::output::{self, in_one_line, printable};

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
    for agent in &outcome.agents {
        if let Some(reason) = agent.reason.as_deref().filter(|reason| !fits_the_table(reason)) {
            let _ = write!(text, "\n{} {}: {}", agent.name, end(agent), in_one_line(reason));
        }
    }
    let unpriced: Vec<&str> =
        outcome.unpriced.iter().map(String::as_str).filter(|model| !model.starts_with(SCRIPTED)).collect();
    if !unpriced.is_empty() {
        let _ = write!(text, "\nwithout a price, and so not in the cost: {}", unpriced.join(", "));
    }
    text
}

/// The flags that would have allowed what was refused since nobody was there to ask.
pub(crate) fn refused<'a>(rules: impl Iterator<Item = &'a str>) -> Option<String> {
    let flags: Vec<String> = rules.map(allow_flag).collect();
    let said = "nobody was there to ask; what was refused would have been allowed by: ";
    (!flags.is_empty()).then(|| format!("{said}{}", flags.join(" ")))
}

/// How a run that left its team goes on.
pub(crate) fn resume(outcome: &RunOutcome) -> String {
    format!("pitcrew run --resume {}", outcome.team)
}

fn cells(agent: &AgentSummary, has_price: bool) -> [String; 7] {
    let reason = agent.reason.as_deref().filter(|reason| fits_the_table(reason)).map(|reason| format!(": {reason}"));
    [
        agent.name.to_string(),
        short_model(&agent.model).to_owned(),
        format!("{}{}", end(agent), reason.unwrap_or_default()),
        agent.turns.to_string(),
        agent.tool_calls.to_string(),
        short(agent.usage.context_tokens()),
        if has_price { format!("${:.2}", agent.cost_usd) } else { "-".to_owned() },
    ]
}

/// How an agent ended.
fn end(agent: &AgentSummary) -> String {
    agent.state.as_str().replace('_', " ")
}

/// Whether a reason has its place in the table; a longer one follows the table in a line of its own.
fn fits_the_table(reason: &str) -> bool {
    !reason.contains('\n') && reason.chars().count() <= REASON_CHARS
}

/// What each agent did, for programs: the reason of its end is whole.
pub(crate) fn agents(outcome: &RunOutcome) -> Value {
    let agent = |agent: &AgentSummary| {
        json!({
            "name": agent.name, "agent_type": agent.agent_type, "model": agent.model, "state": agent.state.as_str(),
            "reason": agent.reason, "turns": agent.turns, "tool_calls": agent.tool_calls, "cost_usd": agent.cost_usd,
        })
    };
    outcome.agents.iter().map(agent).collect()
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
        RunEnd::Failed { .. } | RunEnd::Broken { .. } | RunEnd::Parked { .. } | RunEnd::Interrupted => None,
    }
}

/// When and how a parked run goes on.
fn later(retry_after: Option<Duration>, resume: &str, now: &Zoned) -> String {
    let time = retry_after.and_then(|asked| now.checked_add(asked).ok());
    match time {
        Some(time) => format!("resume it after {}: {resume}", time.strftime("%Y-%m-%d %H:%M:%S %Z")),
        None => format!("resume it when the model is available again: {resume}"),
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
        (RunEnd::Broken { reason }, _) => {
            let failure = Failure::new(FailureKind::Internal, reason.clone());
            Err(if outcome.team_deleted { failure } else { failure.hint(format!("once that is mended: {resume}")) })
        }
        (RunEnd::Parked { reason, retry_after }, _) => {
            let parked = format!("the run is parked: {reason}");
            Err(Failure::new(FailureKind::Parked, parked).hint(later(*retry_after, resume, &Zoned::now())))
        }
        (RunEnd::LimitReached { reason, .. }, _) => Err(Failure::new(FailureKind::LimitReached, reason.clone())),
        (RunEnd::Success { .. } | RunEnd::Interrupted, Some(signal)) => {
            Err(Failure::new(signal.failure(), "the run was stopped").hint(resume))
        }
        (RunEnd::Interrupted, None) => Err(Failure::new(FailureKind::Interrupted, "the run was stopped").hint(resume)),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use jiff::tz::TimeZone;
    use pitcrew_model::Usage;
    use pitcrew_protocol::AgentName;
    use pitcrew_runtime::agent::Status;

    use super::*;

    fn outcome(reason: &str) -> RunOutcome {
        let agent = AgentSummary {
            name: AgentName::new("cat").unwrap(),
            agent_type: None,
            model: "m".to_owned(),
            state: Status::Failed,
            reason: Some(reason.to_owned()),
            turns: 1,
            tool_calls: 2,
            usage: Usage::default(),
            cost_usd: 0.0,
        };
        RunOutcome {
            team: "crew".to_owned(),
            end: RunEnd::Interrupted,
            agents: vec![agent],
            unpriced: vec!["m".to_owned()],
            kept: Vec::new(),
            team_deleted: true,
        }
    }

    #[test]
    fn a_long_reason_stands_whole_below_the_table() {
        let reason = format!("the log of cat cannot be used: /{}/x: No space left on device", "folder/".repeat(30));
        let text = table(&outcome(&reason));
        assert!(text.contains(&format!("\ncat failed: {reason}")), "{text}");
        assert!(table(&outcome("no key")).contains("failed: no key"));
        assert_eq!(agents(&outcome(&reason))[0]["reason"], reason);
    }

    #[test]
    fn a_parked_run_says_when_and_how_to_resume_it() {
        let now: Zoned = "2026-11-20T10:00:00Z".parse::<Timestamp>().unwrap().to_zoned(TimeZone::UTC);
        let said = later(Some(Duration::from_secs(3600)), "pitcrew run --resume crew", &now);
        assert_eq!(said, "resume it after 2026-11-20 11:00:00 UTC: pitcrew run --resume crew");
        for unknown in [None, Some(Duration::MAX)] {
            let said = later(unknown, "pitcrew run --resume crew", &now);
            assert_eq!(said, "resume it when the model is available again: pitcrew run --resume crew");
        }
    }
}
