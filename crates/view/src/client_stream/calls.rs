//! The tool calls of a stream that have no result yet.

use std::collections::HashMap;

use pitcrew_protocol::{
    AgentName, CallEffect, PermissionMode, TaskCreateInput, TaskUpdateInput, ToolKind, ToolTraits,
};

use super::input::Input;

/// The team tool of older clients. Its parameter `operation` names what it does.
const TEAMMATE: &str = "Teammate";

/// Maximum number of open calls. An agent has a few at most. If there are more, the results of the
/// earlier ones are missing from the stream.
const CALLS_MOST: usize = 1_000;

/// The calls that have no result yet, by their ids.
#[derive(Debug, Default)]
pub(super) struct Calls(HashMap<String, Call>);

/// A tool call.
#[derive(Debug)]
pub(super) struct Call {
    /// The agent that made the call.
    pub(super) agent: AgentName,
    pub(super) effect: CallEffect,
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
    Spawn {
        name: Option<String>,
        agent_type: Option<String>,
        model: Option<String>,
        mode: Option<PermissionMode>,
        prompt: Option<String>,
    },
    /// Sends a message.
    Send { kind: &'static str, to: Option<String>, text: String },
    /// Creates a task.
    CreateTask(TaskCreateInput),
    /// Changes a task.
    ChangeTask(TaskUpdateInput),
}

impl Calls {
    pub(super) fn put(&mut self, id: String, call: Call) {
        if self.0.len() >= CALLS_MOST {
            self.0.clear();
        }
        self.0.insert(id, call);
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
    pub(super) fn of(tool: &str, traits: ToolTraits, input: &Input<'_>) -> Self {
        if tool == TEAMMATE {
            return if input.is_cleanup() { Self::Cleanup } else { Self::Team };
        }
        match traits.kind {
            ToolKind::Spawn | ToolKind::Talk | ToolKind::TeamControl | ToolKind::ExitPlan => {
                Self::of_team(traits.effect, input).unwrap_or(Self::Team)
            }
            ToolKind::Shell
            | ToolKind::Reader
            | ToolKind::Writer
            | ToolKind::Output
            | ToolKind::Other => Self::Other,
        }
    }

    /// Returns `None` if nothing is needed from the input, or if it has something unknown. The
    /// result still tells what happened.
    fn of_team(effect: CallEffect, input: &Input<'_>) -> Option<Self> {
        match effect {
            CallEffect::EndsTeam => Some(Self::Cleanup),
            CallEffect::StartsAgent => Some(input.spawn()),
            CallEffect::SendsMessage => input.send(),
            CallEffect::CreatesTask => input.new_task(),
            CallEffect::ChangesTask => input.task_change(),
            CallEffect::None
            | CallEffect::WritesFile
            | CallEffect::EditsFile
            | CallEffect::SubmitsPlan
            | CallEffect::ChecksTasks => None,
        }
    }
}
