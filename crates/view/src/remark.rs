//! Turns important events of a run into lines of text for a person. The functions are pure, except
//! that `follow` updates the state that it gets.

use std::fmt::Write as _;

use pitcrew_model::Block;
use pitcrew_protocol::{AgentName, Status};
use pitcrew_runtime::events::{AgentStarted, Answered, Compacted, RunEvent, RunStarted, ToolEnded};

use crate::fold::{ViewEvent, fold};
use crate::state::TeamState;
use crate::text::{first_line, in_one_line};
use crate::wording::{ASKED_TO_SHUT_DOWN, doing, short};

/// Maximum number of characters that are shown of a text from an agent.
const SAID_CHARS: usize = 160;

/// A line of text for a person about one event of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The agent that the line is about. `None` means that the line is about the run itself.
    pub agent: Option<AgentName>,
    /// The line, without the agent's name.
    pub text: String,
}

impl Remark {
    /// Returns a remark about an agent. The text becomes one line, because an agent could put a
    /// line break into it (into the name of a tool, for example) to forge a second remark.
    #[must_use]
    pub fn of(agent: &AgentName, text: impl AsRef<str>) -> Self {
        Self { agent: Some(agent.clone()), text: in_one_line(text.as_ref()) }
    }

    /// Returns a remark about the run. The text becomes one line.
    #[must_use]
    pub fn of_run(text: impl AsRef<str>) -> Self {
        Self { agent: None, text: in_one_line(text.as_ref()) }
    }
}

/// Updates the state of a team by an event of a run, and returns the remarks about the event.
pub fn follow(state: &mut TeamState, event: &RunEvent) -> Vec<Remark> {
    let remarks = remarks(state, event);
    *state = fold(std::mem::take(state), &ViewEvent::Run(event));
    remarks
}

/// Returns the remarks about an event of a run. `before` is the state of the team before the event.
#[must_use]
pub fn remarks(before: &TeamState, event: &RunEvent) -> Vec<Remark> {
    match event {
        RunEvent::Answered(answered) => said(answered),
        RunEvent::ModelWaits { agent, .. }
        | RunEvent::ModelSilent { agent, .. }
        | RunEvent::ToolStarted { agent, .. }
        | RunEvent::PermissionAsked { agent, .. } => {
            doing(event).into_iter().map(|text| Remark::of(agent, text)).collect()
        }
        RunEvent::Started(it) => vec![Remark::of_run(run_started(it))],
        RunEvent::AgentStarted(it) => vec![Remark::of(&it.agent, agent_started(it))],
        RunEvent::AgentLaunched { agent, stage } => {
            vec![Remark::of(agent, format!("in its pane: {}", stage.as_str()))]
        }
        RunEvent::TaskChanged { agent, task, change } => {
            vec![Remark::of(agent, format!("{change} task #{task}"))]
        }
        RunEvent::PlanHandedIn { agent } => vec![Remark::of(agent, "hands in a plan")],
        RunEvent::AgentChanged { agent, status, detail } => {
            let text = changed(before, agent, *status, detail.as_deref());
            text.into_iter().map(|text| Remark::of(agent, text)).collect()
        }
        RunEvent::TextDelta { .. } | RunEvent::TurnEnded { .. } => Vec::new(),
        RunEvent::Compacted(it) => vec![Remark::of(&it.agent, compacted(it))],
        RunEvent::ToolEnded(it) => tool_failed(it).into_iter().collect(),
        RunEvent::MailDelivered { agent, from, .. } => vec![Remark::of(agent, mail(from))],
        RunEvent::PermissionAnswered { agent, refused, .. } => {
            vec![Remark::of(agent, answered_permission(refused.as_deref()))]
        }
        RunEvent::AllowedAlways { agent, what } => {
            let said = "may do this from now on, by an answer beside it";
            vec![Remark::of(agent, format!("{said}: {}", in_one_line(what)))]
        }
        RunEvent::ModeChanged { agent, mode } => {
            vec![Remark::of(agent, format!("is in mode {mode} now"))]
        }
        RunEvent::ModelChanged { agent, model } => {
            vec![Remark::of(agent, format!("gets the model {}", in_one_line(model)))]
        }
        RunEvent::ModeRecorded { agent, mode } => {
            let takes =
                "its client takes it with the approval of its plan, else when it is started again";
            vec![Remark::of(agent, format!("has mode {mode} on record; {takes}"))]
        }
        RunEvent::ShuttingDown { reason } => {
            vec![Remark::of_run(format!("shutting down: {reason}"))]
        }
        RunEvent::Warning { text } => {
            vec![Remark::of_run(format!("warning: {}", in_one_line(text)))]
        }
    }
}

fn run_started(started: &RunStarted) -> String {
    let verb = if started.resumed { "goes on" } else { "starts" };
    format!("team {} {verb} on {}", started.team, started.model)
}

fn agent_started(started: &AgentStarted) -> String {
    let part = if started.parent_call.is_some() { "as a subagent" } else { "as a teammate" };
    let agent_type = started.agent_type.as_deref().unwrap_or("agent");
    format!("joins {part} ({agent_type}, {}, mode {})", started.model, started.mode)
}

fn changed(
    before: &TeamState,
    name: &AgentName,
    status: Status,
    detail: Option<&str>,
) -> Option<String> {
    let agent = before.agent(name)?;
    if let (Status::Active, Some(detail)) = (status, detail) {
        // The detail comes from a teammate in another process. It says that the teammate waits for
        // its model.
        return Some(in_one_line(detail));
    }
    if agent.status == status || status == Status::Active {
        return None;
    }
    let mut text = match status {
        // This status means that a teammate left the team, or that a lead's run ended. In both
        // cases some work is possibly not done.
        Status::Completed => "has ended".to_owned(),
        Status::Failed => "has failed".to_owned(),
        Status::Killed => "was stopped".to_owned(),
        Status::ShutdownRequested => ASKED_TO_SHUT_DOWN.to_owned(),
        Status::Pending
        | Status::Active
        | Status::Idle
        | Status::AwaitingPlanApproval
        | Status::Parked => format!("is {}", status.as_str().replace('_', " ")),
    };
    if let Some(detail) = detail {
        let _ = write!(text, ": {}", in_one_line(detail));
    }
    Some(text)
}

fn said(answered: &Answered) -> Vec<Remark> {
    let texts = answered.blocks.iter().filter_map(Block::as_text).map(str::trim);
    let said =
        |text: &str| Remark::of(&answered.agent, format!("says: {}", first_line(text, SAID_CHARS)));
    texts.filter(|text| !text.is_empty()).map(said).collect()
}

fn compacted(compacted: &Compacted) -> String {
    let (before, after) = (short(compacted.tokens_before), short(compacted.tokens_after));
    if compacted.tokens_after < compacted.tokens_before {
        format!("sums its conversation up: {before} -> about {after} tokens")
    } else {
        format!("cannot sum its conversation up: it stays at {before} tokens")
    }
}

fn tool_failed(ended: &ToolEnded) -> Option<Remark> {
    let text = || format!("{} failed: {}", ended.tool, first_line(&ended.text, SAID_CHARS));
    ended.is_error.then(|| Remark::of(&ended.agent, text()))
}

fn mail(from: &[String]) -> String {
    // If the teammate runs in another process, some senders are not known. Their names are empty.
    let known: Vec<String> = from.iter().filter(|name| !name.is_empty()).cloned().collect();
    match known.is_empty() {
        true => "reads mail".to_owned(),
        false => format!("reads mail from {}", counted(&known)),
    }
}

/// Returns each different name with the number of its occurrences, in the order of first
/// occurrence.
fn counted(names: &[String]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for name in names {
        match counts.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let shown = counts.iter().map(|(name, count)| match count {
        1 => (*name).to_owned(),
        count => format!("{name} ({count})"),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Returns the text of a remark about the answer to a permission request.
fn answered_permission(refused: Option<&str>) -> String {
    match refused {
        Some(reason) => format!("was refused: {}", first_line(reason, SAID_CHARS)),
        None => "was allowed".to_owned(),
    }
}
