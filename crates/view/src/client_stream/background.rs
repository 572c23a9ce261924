//! Follows the agents that a newer client runs in the background: beside the turns of the agent that
//! started them. The result of the call that starts such an agent says only that it runs. Its tasks
//! tell the rest, and another message begins another task of the same id.
//!
//! Source: a recording of version 2.1.330, `crates/view/tests/it/recordings/named-subagent.ndjson`.

use pitcrew_protocol::{AgentName, Status};

use super::json::fields;
use super::line::Line;
use super::raw::Raw;
use super::session::{Session, set_status};
use crate::state::TeamState;

/// Maximum number of agents in the background that are followed.
const BACKGROUND_MOST: usize = 1_000;

fields! {
    /// The fields of a task that have other values.
    struct Patch<'a> {
        status: Raw<'a> = "status",
    }
}

impl Session {
    /// Reads a line about tasks in the background. Returns false if the line is not known.
    pub(super) fn in_background(&mut self, state: &mut TeamState, line: &Line<'_>) -> bool {
        if line.subtype.is("task_started") {
            if line.task_type.is("local_agent") {
                self.background_started(state, line);
            }
        } else if line.subtype.is("task_notification") {
            self.background_changed(state, line, line.status);
        } else if line.subtype.is("task_updated") {
            let patch: Patch<'_> = line.patch.object().unwrap_or_default();
            self.background_changed(state, line, patch.status);
        } else {
            return line.subtype.is("task_progress") || line.subtype.is("background_tasks_changed");
        }
        true
    }

    fn background_started(&mut self, state: &mut TeamState, line: &Line<'_>) {
        let (Some(task), Some(call)) = (line.task_id.id(), line.tool_use_id.id()) else { return };
        let known = self.background.get(task.as_ref()).cloned();
        let agent = known.unwrap_or_else(|| self.subagent(state, &call, Raw::default()));
        if self.background.len() < BACKGROUND_MOST {
            self.background.insert(task.into_owned(), agent.clone());
        }
        set_status(state, &agent, Status::Active);
    }

    fn background_changed(&mut self, state: &mut TeamState, line: &Line<'_>, status: Raw<'_>) {
        let agent = line.task_id.id().and_then(|task| self.background.get(task.as_ref()));
        let Some(agent) = agent else { return };
        let status = match status.text().as_deref() {
            Some("completed") => Status::Completed,
            Some("failed") => Status::Failed,
            Some("killed" | "stopped") => Status::Killed,
            Some(_) | None => return,
        };
        set_status(state, agent, status);
    }

    /// Returns the subagent that ends with the result of the call that started it.
    pub(super) fn take_foreground(&mut self, call: &str) -> Option<AgentName> {
        let agent = self.subagents.get(call)?;
        if self.background.values().any(|other| other == agent) {
            return None;
        }
        self.subagents.remove(call)
    }
}
