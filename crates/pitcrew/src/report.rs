//! The report for people at the end of a run: the result of each agent and the worktrees that were
//! kept. This module also determines the exit code.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::Zoned;
use pitcrew_agent::Role;
use pitcrew_model::in_dollars;
use pitcrew_permission::gate::allow_flag;
use pitcrew_protocol::{AgentName, Status};
use pitcrew_runtime::run::{RunEnd, RunOutcome, Shortfall};
use pitcrew_view::outcome::state_name;
use pitcrew_view::wording::short;
use pitcrew_view::{AgentState, TeamState, ViewEvent, fold};

use crate::archive;
use crate::failure::{Failure, FailureKind};
use crate::live::signals::EndSignal;
use crate::output::{self, in_one_line, printable, shell_word};

mod already_over;
mod work;

pub(crate) use already_over::already_over;
pub(crate) use work::Work;
use work::records;

/// The prefix in the name of a scripted model. A scripted model costs nothing.
const SCRIPTED: &str = "script:";

/// The maximum number of characters of a reason in the table.
const REASON_CHARS: usize = 50;

/// Formats the result of a whole team. `archive` is the name of the archived team, or `None` if the
/// team was not archived. The commands in the text have the flag `root` ([`Context::root_flag`]).
///
/// [`Context::root_flag`]: crate::context::Context::root_flag
pub(crate) fn summary(
    root: &str,
    outcome: &RunOutcome,
    work: &Work,
    archive: Option<&str>,
) -> String {
    let mut text = table(outcome);
    for line in work.lines(outcome) {
        let _ = write!(text, "\n{line}");
    }
    if archive.is_some() {
        let _ =
            write!(text, "\nthe team is in the archive: {}", archive::hint(root, &outcome.team));
    } else if let Some(resume) = resume(root, outcome) {
        let _ = write!(text, "\nthe team is still there: {resume}");
    }
    if let Some(again) = work.look_again(root, &outcome.team) {
        let _ = write!(text, "\n{again}");
    }
    text
}

/// Formats a table with the result of every agent, and remarks below the table.
pub(crate) fn table(outcome: &RunOutcome) -> String {
    let state = fold(TeamState::default(), &ViewEvent::Ended(outcome));
    let rows: Vec<_> = state.agents.iter().map(|agent| cells(agent, &outcome.end)).collect();
    let mut text = output::remarked_table(
        ["AGENT", "MODEL", "END", "TURNS", "TOOL CALLS", "TOKENS", "COST"],
        &rows,
    );
    for kept in &outcome.kept {
        let place = kept.path.display().to_string();
        let _ = write!(
            text,
            "\nkept {}'s worktree {} on {}: {}",
            kept.agent,
            printable(&place),
            kept.branch,
            kept.reason
        );
    }
    for agent in &state.agents {
        if let Some(reason) = agent.reason.as_deref().filter(|reason| !fits_the_table(reason)) {
            let _ = write!(
                text,
                "\n{} {}: {}",
                agent.name,
                end_of(agent, &outcome.end),
                in_one_line(reason)
            );
        }
    }
    let unpriced: Vec<&str> =
        outcome.totals.unpriced().filter(|model| !model.starts_with(SCRIPTED)).collect();
    if !unpriced.is_empty() {
        let _ = write!(text, "\nwithout a price, and so not in the cost: {}", unpriced.join(", "));
    }
    text
}

/// Returns a text about tool calls that were denied because the run asks nobody. The text contains
/// the flags that would have allowed these calls.
pub(crate) fn refused<'a>(rules: impl Iterator<Item = &'a str>) -> Option<String> {
    let flags: Vec<String> = rules.map(allow_flag).collect();
    let said = "the run asked nobody; these rules would have allowed the refused calls: ";
    (!flags.is_empty()).then(|| format!("{said}{}", flags.join(" ")))
}

/// Returns the command that resumes the team. Returns `None` if the team was deleted.
pub(crate) fn resume(root: &str, outcome: &RunOutcome) -> Option<String> {
    let team = shell_word(&outcome.team);
    (!outcome.team_deleted).then(|| format!("pitcrew{root} run --resume {team}"))
}

fn cells(agent: &AgentState, end: &RunEnd) -> [String; 7] {
    let reason = agent
        .reason
        .as_deref()
        .filter(|reason| fits_the_table(reason))
        .map(|reason| format!(": {reason}"));
    // If another client runs the agent and stores no conversation, the number of the agent's model
    // calls is not known. The table then shows `-`, because a zero would be wrong.
    let counted = |count: String| if agent.is_counted { count } else { "-".to_owned() };
    [
        agent.name.to_string(),
        short_model(agent.model.as_deref().unwrap_or_default()).to_owned(),
        format!("{}{}", end_of(agent, end), reason.unwrap_or_default()),
        counted(agent.turns.to_string()),
        counted(agent.tool_calls.to_string()),
        counted(short(agent.usage.context_tokens())),
        if agent.has_price && agent.is_counted {
            in_dollars(agent.cost_usd)
        } else {
            "-".to_owned()
        },
    ]
}

/// Formats the table cell for an agent's result. `end` is the end of the whole run.
fn end_of(agent: &AgentState, end: &RunEnd) -> String {
    match (agent.status, agent.role, end) {
        // The lead's status is "completed" at the end of every run. If the run did not succeed, the
        // table shows "ended" for the lead, because "completed" would be misleading.
        (Status::Completed, Some(Role::Lead), end) if !matches!(end, RunEnd::Success { .. }) => {
            "ended".to_owned()
        }
        (Status::Killed, ..) => "stopped".to_owned(),
        _ => state_name(agent).replace('_', " "),
    }
}

/// Returns whether a reason fits into the table. A longer reason is printed on its own line below
/// the table.
fn fits_the_table(reason: &str) -> bool {
    !reason.contains('\n') && reason.chars().count() <= REASON_CHARS
}

/// Shortens the name of a model. The name of a scripted model is shown without the folders of its
/// script.
fn short_model(model: &str) -> &str {
    match model.strip_prefix(SCRIPTED) {
        Some(file) => file.rsplit('/').next().unwrap_or(file),
        None => model,
    }
}

/// Returns a hint that says when and how the user can resume a run that stopped because its model
/// was unavailable.
fn later(retry_after: Option<Duration>, resume: &str, now: &Zoned) -> String {
    let time = retry_after.and_then(|asked| now.checked_add(asked).ok());
    match time {
        Some(time) => {
            format!("resume it after {}: {resume}", time.strftime("%Y-%m-%d %H:%M:%S %Z"))
        }
        None => format!("resume it when the model is available again: {resume}"),
    }
}

/// Returns hints that say how the lead is made to answer the plan of a teammate, which only the lead
/// can sign. `resume` is the command that resumes the run.
pub(crate) fn plan_hints(resume: &str, member: &AgentName) -> [String; 2] {
    let asking = |request: &str| format!("{resume} {}", shell_word(request));
    [
        format!("to approve it: {}", asking(&format!("Approve the plan of {member}."))),
        format!(
            "to have it changed: {}",
            asking(&format!("Reject the plan of {member}: WHAT TO CHANGE"))
        ),
    ]
}

/// Returns the result of the run, which determines the exit code. `resume` is the command that
/// resumes the run.
///
/// # Errors
/// Returns an error if the run did not end with success.
#[expect(clippy::disallowed_methods, reason = "the report says when a run may be resumed")]
pub(crate) fn ended(
    outcome: &RunOutcome,
    signal: Option<EndSignal>,
    resume: Option<&str>,
) -> Result<(), Failure> {
    let by_signal = signal.map_or(FailureKind::Interrupted, EndSignal::failure);
    let failure = match &outcome.end {
        // A run that was already completed succeeds, even if a signal arrived at the end.
        RunEnd::Success { .. } => return Ok(()),
        RunEnd::Unfinished { shortfall, open, .. } => {
            let said = std::iter::once(shortfall.in_words().to_owned());
            let all: Vec<String> = said.chain(open.in_words()).chain(open.causes()).collect();
            let said = format!(
                "the run ended before its work was complete ({}): {}",
                shortfall.as_str(),
                all.join("; ")
            );
            let failure = Failure::new(FailureKind::Unfinished, said);
            match resume {
                // The user must decide about the plan, so there is one hint for approving the plan
                // and one hint for having the plan changed.
                Some(resume) if *shortfall == Shortfall::PlanUnapproved => {
                    return Err(failure
                        .hint(format!(
                            "to approve it: {resume} --permission-mode acceptEdits \"The plan is approved.\""
                        ))
                        .hint(format!("to have it changed: {resume} --permission-mode plan \"WHAT TO CHANGE\"")));
                }
                // A resumed lead that says nothing about the plan would end in the same way.
                Some(resume) if !open.plans.is_empty() => {
                    let hints = open.plans.iter().flat_map(|member| plan_hints(resume, member));
                    return Err(hints.fold(failure, Failure::hint));
                }
                Some(_) | None => failure,
            }
        }
        RunEnd::Failed { reason } => return Err(Failure::new(FailureKind::Failed, reason.clone())),
        RunEnd::Broken { reason } => {
            let failure = Failure::new(FailureKind::Internal, reason.clone());
            return Err(match resume {
                Some(resume) => failure.hint(format!("when that is solved: {resume}")),
                None => failure,
            });
        }
        RunEnd::Parked { reason, retry_after } => {
            let failure = Failure::new(FailureKind::Parked, format!("the run is parked: {reason}"));
            return Err(match resume {
                Some(resume) => failure.hint(later(*retry_after, resume, &Zoned::now())),
                None => failure,
            });
        }
        RunEnd::LimitReached { limit, reason, .. } => {
            let failure = Failure::new(FailureKind::LimitReached, reason.clone());
            let flag = limit.flag();
            return Err(match resume {
                // A resumed run keeps the limits of this run, so the user must set a higher limit.
                Some(resume) => failure.hint(format!("{resume} goes on, with a higher {flag}")),
                None => failure,
            });
        }
        RunEnd::Interrupted => Failure::new(by_signal, "the run was stopped"),
        RunEnd::ShutDown => Failure::new(by_signal, "the user ended the team"),
    };
    Err(match resume {
        Some(resume) => failure.hint(resume),
        None => failure,
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use jiff::tz::TimeZone;
    use pitcrew_model::Usage;
    use pitcrew_protocol::{TaskId, TaskStatus};
    use pitcrew_runtime::run::{AgentSummary, OpenWork, TaskSummary, Totals};
    use pitcrew_view::outcome::document;
    use serde_json::Value;

    use super::*;

    fn outcome(reason: &str) -> RunOutcome {
        let agent = AgentSummary {
            name: AgentName::new("cat").unwrap(),
            role: Role::Teammate,
            agent_type: None,
            model: "m".to_owned(),
            state: Status::Failed,
            reason: Some(reason.to_owned()),
            turns: 1,
            tool_calls: 2,
            usage: Usage::default(),
            cost_usd: 0.0,
            is_counted: true,
        };
        RunOutcome {
            team: "crew".to_owned(),
            end: RunEnd::Interrupted,
            agents: vec![agent],
            totals: Totals::default(),
            tasks: Vec::new(),
            open: OpenWork::default(),
            kept: Vec::new(),
            team_deleted: true,
        }
    }

    #[test]
    fn a_long_reason_stands_whole_below_the_table() {
        let reason = format!(
            "the log of cat cannot be used: /{}/x: No space left on device",
            "folder/".repeat(30)
        );
        let text = table(&outcome(&reason));
        assert!(text.contains(&format!("\ncat failed: {reason}")), "{text}");
        assert!(table(&outcome("no key")).contains("failed: no key"));
        assert_eq!(document(&outcome(&reason), None)["members"][0]["reason"], reason);
    }

    #[test]
    fn what_is_not_known_of_a_client_is_no_number() {
        let mut client = outcome("no key");
        client.agents[0].is_counted = false;
        assert!(
            table(&client).contains("failed: no key  -      -           -       -"),
            "{}",
            table(&client)
        );
        let member = &document(&client, None)["members"][0];
        for field in ["turns", "tool_calls", "tokens", "cost_usd"] {
            assert_eq!(member[field], Value::Null, "{field}");
        }
    }

    #[test]
    fn a_teammate_that_left_has_shut_down_and_not_completed_anything() {
        let mut left = outcome("");
        (left.agents[0].state, left.agents[0].reason) = (Status::Completed, None);
        assert!(table(&left).contains("shut down"), "{}", table(&left));
        assert_eq!(document(&left, None)["members"][0]["state"], "shut_down");
        left.agents[0].role = Role::Lead;
        assert!(table(&left).contains(" ended "), "{}", table(&left));
        left.end = RunEnd::Success { text: String::new() };
        assert!(table(&left).contains("completed"), "{}", table(&left));
    }

    #[test]
    fn an_unfinished_run_says_why_and_what_is_open() {
        let task = TaskSummary {
            id: TaskId::from_number(1),
            subject: "Do it".to_owned(),
            status: TaskStatus::Pending,
            owner: Some("bob".to_owned()),
        };
        let open = OpenWork {
            plans: vec![AgentName::new("cat").unwrap()],
            never_started: vec![AgentName::new("dan").unwrap()],
            ..OpenWork::of_tasks(&[task])
        };
        let end = RunEnd::Unfinished { shortfall: Shortfall::FailedToStart, open, text: None };
        let outcome = RunOutcome { end, ..outcome("") };
        let failure = ended(&outcome, None, Some("pitcrew run --resume crew")).unwrap_err();
        let said = "the run ended before its work was complete (failed_to_start): a teammate never started; 1 task is open: #1 Do it \
                    (pending, owner bob); the plan of cat waits for an answer; dan never started to work";
        assert_eq!(failure.chain(), said);
        assert_eq!(
            failure.hints(),
            [
                "to approve it: pitcrew run --resume crew 'Approve the plan of cat.'",
                "to have it changed: pitcrew run --resume crew 'Reject the plan of cat: WHAT TO CHANGE'"
            ]
        );
        assert_eq!(document(&outcome, None)["end"], "failed_to_start");
    }

    #[test]
    fn a_parked_run_says_when_and_how_to_resume_it() {
        let now: Zoned =
            "2026-11-20T10:00:00Z".parse::<Timestamp>().unwrap().to_zoned(TimeZone::UTC);
        let said = later(Some(Duration::from_secs(3600)), "pitcrew run --resume crew", &now);
        assert_eq!(said, "resume it after 2026-11-20 11:00:00 UTC: pitcrew run --resume crew");
        for unknown in [None, Some(Duration::MAX)] {
            let said = later(unknown, "pitcrew run --resume crew", &now);
            assert_eq!(
                said,
                "resume it when the model is available again: pitcrew run --resume crew"
            );
        }
    }
}
