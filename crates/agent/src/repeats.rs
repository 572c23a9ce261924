//! Detects an agent that repeats the same tool call and gets the same result each time. First the
//! agent is warned. After more repeats, each further repeat needs a permission. Finally the agent
//! is stopped.
//!
//! Two cases were observed: a model wrote the same file 1,596 times, and another model continued
//! for 1,091 turns until a timeout.
//!
//! When any call returns a new result, this is progress, and earlier repeats no longer count. An
//! agent can therefore run tests after each of its changes, even if the tests fail in the same way
//! each time.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use pitcrew_protocol::CallEffect;

use crate::transcript::ToolCall;

/// The number of equal results of a call after which the agent is warned.
const TOLD_AFTER: u32 = 5;

/// The text of the warning for the model.
pub(super) const TOLD: &str = "<system-reminder>\nYou made this call five times, and each time the result was the same. Making it \
    again changes nothing. Do something else; or, if you wait for somebody, end your turn: you are called when there is news.\n\
    </system-reminder>";

/// The number of equal results of a call after which each further repeat needs a permission.
const ASKED_AFTER: u32 = 10;

/// The number of answered permission requests about one repeated call after which the agent is
/// stopped. The next repeat stops the agent, even if all answers allowed the call. So many answers
/// mean that no person answers, or that the person does not read the requests.
const MOST_ANSWERS: u32 = 3;

/// Maximum number of different calls that are remembered.
const MOST_KNOWN: usize = 4096;

/// The past tool calls of an agent, and the number of consecutive calls that returned nothing new.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// How often each call returned each result. The key has the hash of the call and of the
    /// result.
    made: HashMap<(u64, u64), u32>,
    /// The number of consecutive results that the agent had already got before.
    known_in_a_row: u32,
    /// The calls whose repeats need a permission, each with the number of answers to such
    /// permission requests.
    exhausted: HashMap<u64, u32>,
    /// Whether the agent was stopped because it repeated the same call.
    pub(super) has_stopped: bool,
}

/// The decision about a repeated call before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// The call is allowed to run.
    Fine,
    /// The call needs a permission first.
    Ask,
    /// The agent must be stopped instead of running the call.
    Stop,
}

impl Repeats {
    /// Records the result of a call. Returns true if the agent must be warned now.
    pub(super) fn note(&mut self, call: &ToolCall, effect: CallEffect, result: &str) -> bool {
        let key = call_key(call);
        // Further repeats of this call already need a permission. If the permission was refused,
        // the result is only the text of the refusal, and is not progress.
        if self.exhausted.contains_key(&key) {
            return false;
        }
        if self.made.len() >= MOST_KNOWN {
            self.made.clear();
        }
        let count = self.made.entry((key, hash(&result))).or_default();
        *count += 1;
        if *count == 1 {
            // A new result is progress. All earlier repeats no longer count.
            self.known_in_a_row = 0;
            self.exhausted.clear();
            return false;
        }
        self.known_in_a_row += 1;
        let in_vain = (*count).min(self.known_in_a_row + 1);
        // Calls that check the progress of tasks are useful to repeat. For such a call, the agent
        // is only warned, and no permission is needed.
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

    /// Counts an answer to a permission request about a repeated call.
    pub(super) fn answered(&mut self, call: &ToolCall) {
        if let Some(answers) = self.exhausted.get_mut(&call_key(call)) {
            *answers += 1;
        }
    }

    /// Forgets all past calls, because a person gave a new instruction.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// Returns the text that explains why the agent was stopped after repeating this call.
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
