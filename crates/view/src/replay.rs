//! A run as a list of timed events, so that a user interface can show the team as it was at any
//! moment.
//!
//! - [`Replay::of_records`] makes it from the records of a team, and [`StreamReplay`] from the
//!   stream-json of a client, also while the client writes.
//! - `recorder` compares the state of the team with the state after the earlier events, and writes
//!   the differences. So every replay is folded here, and a user interface only replaces fields.
//! - `team` and `journal` bring the records of a team into the order of their times. `step_times`
//!   finds the times of a transcript's steps.
//! - `first_modes` finds the permission modes in which the members began.
//! - `conversation_changes` finds what is new in a conversation.
//!
//! A replay is bounded: [`Replay::EVENTS_MOST`] and [`Replay::BYTES_MOST`]. Its oldest events leave
//! first, and [`Replay::left_out`] counts them.

mod conversation_changes;
mod first_modes;
mod journal;
mod recorder;
mod step_times;
mod stream;
mod team;

use pitcrew_protocol::{AgentName, Task, TaskId};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::conversation::Part;
use crate::host::HostState;
use crate::state::TimelineEntry;

pub use stream::{BEGUN_AGAIN, StreamReplay};

/// A run as timed events.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replay {
    /// The name of the team, or of the file.
    pub name: String,
    /// The meaning of the times.
    pub clock: Clock,
    /// The time at which the replay begins, in milliseconds.
    pub from_ms: i64,
    /// The time of the last event, in milliseconds.
    pub to_ms: i64,
    /// The state before the first event. Its timeline is empty: the events contain the entries.
    pub first: HostState,
    /// The events, in order. No number is left out, and no time is earlier than the one before.
    pub events: Vec<Timed>,
    /// The number of older events that are not in the replay.
    pub left_out: u64,
    /// What could not be read, as texts for a person.
    pub unread: Vec<String>,
}

/// The meaning of the times in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Milliseconds since the Unix epoch.
    Recorded,
    /// The source has no times. Each line of the stream counts for a second.
    Lines,
}

/// An event of a replay. It has the form of a host's event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timed {
    /// The number of the event.
    pub seq: u64,
    /// The time of the event, in milliseconds.
    pub at_ms: i64,
    /// What happened.
    pub what: Change,
}

/// What happened in a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Fields of the team's state have other values.
    Changed(Box<Changed>),
    /// The timeline has another entry.
    Happened(Box<TimelineEntry>),
    /// The conversation of an agent has another part.
    Part(Box<NewPart>),
    /// A tool call in the conversation of an agent was allowed or refused, or has its result.
    Call(Box<ChangedCall>),
}

/// The fields of a team's state that have other values. Every other field keeps its value.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Changed {
    /// Fields of the team: `team`, `lead`, `cleanup` and `session`.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub team: Map<String, Value>,
    /// The changed agents: each has its name and the fields with other values. A name that is not
    /// known yet is a new agent at the end of the list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<Map<String, Value>>,
    /// The names of all agents in their order, if agents were removed or moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Vec<AgentName>>,
    /// The new and changed tasks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Task>,
    /// The tasks that were removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks_gone: Vec<TaskId>,
}

/// A new part of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NewPart {
    /// The agent.
    pub agent: AgentName,
    /// The number of the part in the conversation, from 0 up.
    pub n: usize,
    /// The part. Long texts are shortened.
    pub part: Part,
}

/// New fields of a tool call in a conversation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangedCall {
    /// The agent.
    pub agent: AgentName,
    /// The number of the call's part in the conversation.
    pub n: usize,
    /// The fields: `permission`, `result` or both.
    pub fields: Map<String, Value>,
}

impl Replay {
    /// Maximum number of events.
    pub const EVENTS_MOST: usize = 100_000;
    /// Maximum size of all events as JSON, in bytes.
    pub const BYTES_MOST: usize = 24 << 20;
}
