//! The events and the state of a host, in the form in which other processes receive them.

use pitcrew_protocol::{Task, TeamConfig};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::question::{Choice, PermissionQuestion};
use pitcrew_runtime::run::RunOutcome;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::notification::Notification;
use crate::state::TeamState;

/// Something that happened in a host, with its number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostEvent {
    /// The number of the event. The first event of a host has the number 0, and no number is left
    /// out.
    pub seq: u64,
    /// The time of the event, in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// What happened.
    pub what: What,
}

/// What happened in a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// An event of the run.
    Run(RunEvent),
    /// A person must answer a permission request. Any user interface can answer it.
    QuestionOpened(Box<OpenQuestion>),
    /// A permission request needs no answer any more.
    QuestionClosed {
        /// The id of the permission request.
        id: String,
        /// How the permission request was closed.
        closed: Closed,
    },
    /// The team's tasks changed. The list has all tasks. A host reads the tasks only while another
    /// process follows it.
    Tasks(Vec<Task>),
    /// The team's config changed. A host reads the config only while another process follows it.
    Config(Box<TeamConfig>),
    /// The user must be notified. Only one user interface shows it.
    Notify(Box<Notification>),
    /// The run ended. This is the last event of a host.
    Ended(Box<RunOutcome>),
}

/// A permission request that waits for the answer of a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenQuestion {
    /// The id of the permission request. No other request of the same host has this id.
    pub id: String,
    /// When the request was opened, in milliseconds since the Unix epoch.
    pub since_ms: i64,
    /// The permission request in the form in which it is shown. An answer needs its digest.
    pub question: PermissionQuestion,
    /// The unchanged input of the call, for programs that need the data and not the shown text.
    pub input: Value,
}

/// How a permission request was closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Closed {
    /// A person answered at one of the user interfaces. If the call changed in the meantime, the
    /// run does not take the answer and opens a new permission request.
    Answered(Choice),
    /// The permission request needs no answer: a rule or the member's own user answered it, or its
    /// agent ended.
    Withdrawn,
}

/// The state of a host before the event with the number `next_seq`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostState {
    /// The number of the first event that is not part of this state.
    pub next_seq: u64,
    /// The state of the team.
    pub team: TeamState,
    /// The tasks of the team.
    pub tasks: Vec<Task>,
    /// The permission requests that wait for an answer, in the order in which they were opened.
    pub questions: Vec<OpenQuestion>,
}

/// A line of the event stream, as a follower reads it.
#[derive(Debug)]
pub(crate) enum Line {
    /// The state of the host.
    Snapshot(Box<HostState>),
    /// An event.
    Event(Box<HostEvent>),
    /// A line that only a newer version knows, with its number if it is an event.
    Unknown(Option<u64>),
}

/// Returns the line of an event. Returns `None` if a value in it cannot be written as JSON.
pub(super) fn line_of(event: &HostEvent) -> Option<String> {
    Some(serde_json::to_string(event).ok()? + "\n")
}

/// Returns the line of a snapshot. Returns `None` if a value in it cannot be written as JSON.
pub(super) fn snapshot_line(state: &HostState) -> Option<String> {
    #[derive(Serialize)]
    struct Snapshot<'a> {
        snapshot: &'a HostState,
    }
    Some(serde_json::to_string(&Snapshot { snapshot: state }).ok()? + "\n")
}

/// Reads a line of the event stream. An unknown event, or an event with an unknown value, is not an
/// error, because the host may be newer.
///
/// # Errors
/// If the line is not a JSON object, or is a snapshot that this version cannot read.
pub(crate) fn read_line(line: &[u8]) -> Result<Line, serde_json::Error> {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(default)]
        snapshot: Option<IgnoredAny>,
        #[serde(default)]
        seq: Option<u64>,
    }
    #[derive(Deserialize)]
    struct Snapshot {
        snapshot: HostState,
    }
    let kind: Kind = serde_json::from_slice(line)?;
    if kind.snapshot.is_some() {
        let Snapshot { snapshot } = serde_json::from_slice(line)?;
        return Ok(Line::Snapshot(Box::new(snapshot)));
    }
    Ok(serde_json::from_slice(line).map_or(Line::Unknown(kind.seq), Line::Event))
}
