//! An agent that makes the same call with the same result again and again: it is told, then somebody is asked, and at last
//! it is stopped.
//!
//! What was seen: a model that wrote the same file 1,596 times, and one that went on for 1,091 turns until a timeout. Calls
//! that bring something new in between count as work: who runs the tests after each change may see them fail alike.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use pitcrew_protocol::CallEffect;

use crate::transcript::ToolCall;

/// After so many the agent is told.
const TOLD_AFTER: u32 = 5;

/// What it is told.
pub(super) const TOLD: &str = "<system-reminder>\nYou made this call five times, and each time the result was the same. Making it \
    again changes nothing. Do something else; or, if you wait for somebody, end your turn: you are called when there is news.\n\
    </system-reminder>";

/// From so many on, each further one needs a yes.
const ASKED_AFTER: u32 = 10;

/// So many answers, whatever they say, and the agent is stopped at the next: nobody is at the other end, or nobody who
/// looks.
const MOST_ANSWERS: u32 = 3;

/// How many different calls are remembered.
const MOST_KNOWN: usize = 4096;

/// The calls of an agent, and how long they have brought nothing new.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// How often each call was made with each result.
    made: HashMap<(u64, u64), u32>,
    /// How many results in a row were known.
    known_in_a_row: u32,
    /// The calls that need a yes, and how many answers there were for each.
    exhausted: HashMap<u64, u32>,
    /// The agent was stopped since it repeated itself.
    pub(super) has_stopped: bool,
}

/// What is to be done about a call that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// Nothing.
    Fine,
    /// Somebody is asked.
    Ask,
    /// The agent is stopped.
    Stop,
}

impl Repeats {
    /// Takes note of the result of a call; says whether the agent is to be told now that nothing changes.
    pub(super) fn note(&mut self, call: &ToolCall, effect: CallEffect, result: &str) -> bool {
        let key = call_key(call);
        // What is said of a call that was made too often is nothing new.
        if self.exhausted.contains_key(&key) {
            return false;
        }
        if self.made.len() >= MOST_KNOWN {
            self.made.clear();
        }
        let count = self.made.entry((key, hash(&result))).or_default();
        *count += 1;
        if *count == 1 {
            self.known_in_a_row = 0;
            self.exhausted.clear();
            return false;
        }
        self.known_in_a_row += 1;
        let in_vain = (*count).min(self.known_in_a_row + 1);
        // To look again how tasks come on is the use of such a call: the agent is told, and nobody is asked.
        if in_vain >= ASKED_AFTER && effect != CallEffect::ChecksTasks {
            self.exhausted.insert(key, 0);
        }
        in_vain == TOLD_AFTER
    }

    /// Says what is to be done about a call before it is made.
    pub(super) fn before(&self, call: &ToolCall) -> Again {
        match self.exhausted.get(&call_key(call)) {
            None => Again::Fine,
            Some(answers) if *answers < MOST_ANSWERS => Again::Ask,
            Some(_) => Again::Stop,
        }
    }

    /// Takes note of an answer to the question about a call.
    pub(super) fn answered(&mut self, call: &ToolCall) {
        if let Some(answers) = self.exhausted.get_mut(&call_key(call)) {
            *answers += 1;
        }
    }

    /// Begins anew: the agent was told something by a person.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// Why an agent was stopped that makes this call again and again.
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
