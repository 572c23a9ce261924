//! Detects an agent that repeats a call with the same result. The agent is warned first, then each
//! repeat needs a permission, and at last the agent is stopped.
//!
//! Observed cases: a model that wrote the same file 1,596 times, and one that continued for 1,091
//! turns until a timeout. Repeats with new results in between count as work. For example, tests
//! that run after each change may fail the same way each time.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use pitcrew_protocol::CallEffect;

use crate::transcript::ToolCall;

/// Number of repeats after which the agent is warned.
const TOLD_AFTER: u32 = 5;

/// The warning.
pub(super) const TOLD: &str = "<system-reminder>\nYou made this call five times, and each time the result was the same. Making it \
    again changes nothing. Do something else; or, if you wait for somebody, end your turn: you are called when there is news.\n\
    </system-reminder>";

/// Number of repeats after which each further one needs a permission.
const ASKED_AFTER: u32 = 10;

/// After this many answers about a call, whatever they are, the next repeat stops the agent. So
/// many answers mean that no person answers, or that the person does not look.
const MOST_ANSWERS: u32 = 3;

/// Maximum number of different calls that are remembered.
const MOST_KNOWN: usize = 4096;

/// An agent's past calls, and the number of calls in a row that returned nothing new.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// How often each call returned each result.
    made: HashMap<(u64, u64), u32>,
    /// How many results in a row were already known.
    known_in_a_row: u32,
    /// The calls that need a permission, with the number of answers for each.
    exhausted: HashMap<u64, u32>,
    /// Whether the agent was stopped because it repeated itself.
    pub(super) has_stopped: bool,
}

/// The decision about a call before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// The call may run.
    Fine,
    /// A permission is needed.
    Ask,
    /// The agent must be stopped.
    Stop,
}

impl Repeats {
    /// Records the result of a call. Returns true if the agent must be warned now.
    pub(super) fn note(&mut self, call: &ToolCall, effect: CallEffect, result: &str) -> bool {
        let key = call_key(call);
        // The refusal of a call that was repeated too often is not a new result.
        if self.exhausted.contains_key(&key) {
            return false;
        }
        if self.made.len() >= MOST_KNOWN {
            self.made.clear();
        }
        let count = self.made.entry((key, hash(&result))).or_default();
        *count += 1;
        if *count == 1 {
            // A new result is progress, so all earlier repeats are forgiven.
            self.known_in_a_row = 0;
            self.exhausted.clear();
            return false;
        }
        self.known_in_a_row += 1;
        let in_vain = (*count).min(self.known_in_a_row + 1);
        // Calls that check the progress of tasks are meant to be repeated. So the agent is warned,
        // but needs no permission.
        if in_vain >= ASKED_AFTER && effect != CallEffect::ChecksTasks {
            self.exhausted.insert(key, 0);
        }
        in_vain == TOLD_AFTER
    }

    /// Decides about a call before it runs.
    pub(super) fn before(&self, call: &ToolCall) -> Again {
        match self.exhausted.get(&call_key(call)) {
            None => Again::Fine,
            Some(answers) if *answers < MOST_ANSWERS => Again::Ask,
            Some(_) => Again::Stop,
        }
    }

    /// Records an answer to the permission question about a call.
    pub(super) fn answered(&mut self, call: &ToolCall) {
        if let Some(answers) = self.exhausted.get_mut(&call_key(call)) {
            *answers += 1;
        }
    }

    /// Forgets all calls, because a person gave a new instruction.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// Returns the reason for stopping an agent that repeats this call.
pub(super) fn stopped(call: &ToolCall) -> String {
    format!(
        "it is looping: again and again it called {} with the same input, and the result was the same",
        call.tool
    )
}

fn call_key(call: &ToolCall) -> u64 {
    hash(&(call.tool.as_str(), call.input.to_string()))
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
