//! The tool calls of a stream that have no result yet.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use pitcrew_protocol::{
    AgentName, PermissionMode, SendMessageInput, TaskCreateInput, TaskUpdateInput, TeamCall,
    ToolKind, ToolTraits,
};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::raw::Raw;
use crate::state::bounded;
use crate::wording::TELLING;

/// The team tool of older clients. Its parameter `operation` names what it does.
const TEAMMATE: &str = "Teammate";

/// Maximum number of open calls. An agent has a few at most. If there are more, the results of the
/// earlier ones are missing from the stream.
const CALLS_MOST: usize = 1_000;

/// Maximum size of an input that is kept, in bytes of JSON. A longer input is of another tool, or
/// its result says enough.
const INPUT_BYTES_MOST: usize = 64 << 10;

/// Maximum number of characters that are kept of a call's most informative field.
const TELLING_CHARS: usize = 400;

/// The calls that have no result yet, by their ids.
#[derive(Debug, Default)]
pub(super) struct Calls(HashMap<String, Call>);

/// A tool call.
#[derive(Debug)]
pub(super) struct Call {
    /// The agent that made the call.
    pub(super) agent: AgentName,
    pub(super) tool: String,
    pub(super) ask: Ask,
}

/// The part of a call's input that is needed together with the result.
#[derive(Debug)]
pub(super) enum Ask {
    /// The call is not about the team. Its result is not read.
    Other,
    /// The result says everything.
    Team,
    /// Ends the team.
    Cleanup,
    /// Starts an agent.
    Spawn { agent_type: Option<String>, model: Option<String>, mode: Option<PermissionMode> },
    /// Sends a message.
    Send { kind: &'static str, to: Option<String>, text: String },
    /// Creates a task.
    CreateTask(TaskCreateInput),
    /// Changes a task.
    ChangeTask(TaskUpdateInput),
}

impl Calls {
    pub(super) fn put(&mut self, id: &str, call: Call) {
        if self.0.len() >= CALLS_MOST {
            self.0.clear();
        }
        self.0.insert(id.to_owned(), call);
    }

    pub(super) fn get(&self, id: &str) -> Option<&Call> {
        self.0.get(id)
    }

    pub(super) fn take(&mut self, id: &str) -> Option<Call> {
        self.0.remove(id)
    }
}

impl Ask {
    /// Reads the input of a call.
    pub(super) fn of(tool: &str, input: Raw<'_>) -> Self {
        if tool == TEAMMATE {
            let operation = input.object::<Operation<'_>>().unwrap_or_default().operation;
            return if operation.is("cleanup") { Self::Cleanup } else { Self::Team };
        }
        match ToolTraits::of(tool).kind {
            ToolKind::Spawn | ToolKind::Talk | ToolKind::TeamControl | ToolKind::ExitPlan
                if input.json_bytes() > INPUT_BYTES_MOST =>
            {
                Self::Team
            }
            ToolKind::Spawn | ToolKind::Talk | ToolKind::TeamControl | ToolKind::ExitPlan => {
                // A client can have parameters that are unknown here. The result still tells what
                // happened.
                let call = input.read().and_then(|input| TeamCall::parse(tool, input)?.ok());
                call.map_or(Self::Team, Self::of_team)
            }
            ToolKind::Shell
            | ToolKind::Reader
            | ToolKind::Writer
            | ToolKind::Output
            | ToolKind::Other => Self::Other,
        }
    }

    fn of_team(call: TeamCall) -> Self {
        match call {
            TeamCall::TeamDelete(_) => Self::Cleanup,
            TeamCall::Spawn(input) => Self::Spawn {
                agent_type: input.subagent_type,
                model: input.model,
                mode: input.mode.as_deref().and_then(PermissionMode::named),
            },
            TeamCall::SendMessage(input) => Self::send(input),
            TeamCall::TaskCreate(input) => Self::CreateTask(TaskCreateInput {
                description: bounded(input.description.into()),
                metadata: None,
                ..input
            }),
            TeamCall::TaskUpdate(input) => Self::ChangeTask(TaskUpdateInput {
                description: input.description.map(|text| bounded(text.into())),
                metadata: None,
                ..input
            }),
            TeamCall::TeamCreate(_)
            | TeamCall::TaskGet(_)
            | TeamCall::TaskList
            | TeamCall::ExitPlanMode(_)
            | TeamCall::TaskStop(_) => Self::Team,
        }
    }

    fn send(input: SendMessageInput) -> Self {
        let (kind, to, text) = match input {
            SendMessageInput::Message { recipient, content, .. } => {
                ("message", Some(recipient), Some(content))
            }
            SendMessageInput::Broadcast { content, .. } => ("broadcast", None, Some(content)),
            SendMessageInput::ShutdownRequest { recipient, content } => {
                ("shutdown_request", Some(recipient), content)
            }
            SendMessageInput::ShutdownResponse { content, .. } => {
                ("shutdown_response", None, content)
            }
            SendMessageInput::PlanApprovalResponse { recipient, content, .. } => {
                ("plan_approval_response", Some(recipient), content)
            }
        };
        Self::Send { kind, to, text: bounded(text.unwrap_or_default().into()) }
    }
}

/// Returns the most informative field of a call's input, shortened. The rest of the input can be
/// large, and is not shown.
pub(super) fn telling(input: Raw<'_>) -> Value {
    let Some(Telling(Some((rank, text)))) = input.object() else { return Value::Null };
    let (Some(field), Some(text)) = (TELLING.get(rank), text.text()) else { return Value::Null };
    let text: String = text.chars().take(TELLING_CHARS).collect();
    Value::Object(Map::from_iter([((*field).to_owned(), text.into())]))
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Operation<'a> {
    operation: Raw<'a>,
}

/// The most informative text of an input, with its place in [`TELLING`].
struct Telling<'a>(Option<(usize, Raw<'a>)>);

struct TellingVisitor;

#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Visitor<'de> for TellingVisitor {
    type Value = Telling<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the input of a call")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut best: Option<(usize, Raw<'de>)> = None;
        while let Some((Key(key), value)) = map.next_entry::<Key<'de>, Raw<'de>>()? {
            let rank = TELLING.iter().position(|field| *field == key).filter(|_| value.is_text());
            let is_better = |rank: &usize| best.is_none_or(|(best, _)| *rank < best);
            if let Some(rank) = rank.filter(is_better) {
                best = Some((rank, value));
            }
        }
        Ok(Telling(best))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Telling<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TellingVisitor)
    }
}
