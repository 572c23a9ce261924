//! The permission modes in which the members began. The journal has only the changes after that.
//!
//! The config has the first mode of a member that is still in it. The first mode of a member that has
//! left is known if the call that spawned it has one. That of a lead is not recorded.

use std::collections::{BTreeMap, VecDeque};

use pitcrew_agent::transcript::Step;
use pitcrew_model::Block;
use pitcrew_protocol::{AgentName, CallEffect, Member, PermissionMode, TeamConfig, ToolTraits};
use pitcrew_team::SpawnRecord;
use pitcrew_team::store::{Event, JournalEntry, MemberChange};
use serde_json::Value;

use crate::wording::mode_in_words;

/// The first modes of the members.
#[derive(Debug, Default)]
pub(super) struct FirstModes {
    of_config: BTreeMap<AgentName, String>,
    /// The modes in the calls that spawned members, in their order.
    asked: BTreeMap<AgentName, VecDeque<String>>,
}

impl FirstModes {
    /// Reads the modes in the config.
    pub(super) fn of(config: &TeamConfig, journal: &[JournalEntry]) -> Self {
        let first = |member: &Member| {
            let mode = first_mode(member, journal)?;
            Some((member.name.clone(), mode_in_words(&mode)?))
        };
        let of_config = config.members.iter().filter_map(first).collect();
        Self { of_config, asked: BTreeMap::new() }
    }

    /// Reads the modes in the calls of an agent.
    pub(super) fn read_calls(&mut self, step: &Step) {
        let Step::Assistant { blocks, .. } = step else { return };
        for block in blocks {
            if let Block::ToolUse { name, input, .. } = block
                && ToolTraits::of(name).effect == CallEffect::StartsAgent
                && let Some((agent, mode)) = asked(input)
            {
                self.asked.entry(agent).or_default().push_back(mode);
            }
        }
    }

    /// Returns the first mode of a member.
    pub(super) fn get(&self, name: &AgentName) -> Option<String> {
        let asked = || self.asked.get(name)?.front();
        self.of_config.get(name).or_else(asked).cloned()
    }

    /// Goes on to the next member of this name.
    pub(super) fn took(&mut self, name: &AgentName) {
        if let Some(asked) = self.asked.get_mut(name) {
            asked.pop_front();
        }
    }
}

/// Returns the mode in which a member of the config began.
fn first_mode(member: &Member, journal: &[JournalEntry]) -> Option<String> {
    if member.plan_mode_required == Some(true) {
        return Some(PermissionMode::Plan.to_string());
    }
    let recorded = SpawnRecord::of(member).and_then(|record| record.mode);
    let is_change = |entry: &JournalEntry| {
        matches!(&entry.event, Event::MemberChanged { member: of, state: MemberChange::Mode, .. }
            if *of == member.name)
    };
    // A mode that was never changed is the first one.
    let kept = || member.mode.clone().filter(|_| !journal.iter().any(is_change));
    recorded.or_else(kept)
}

/// Returns the name and the mode in the input of a call that spawns a member.
fn asked(input: &Value) -> Option<(AgentName, String)> {
    let name = AgentName::new(input.get("name")?.as_str()?).ok()?;
    let mode = PermissionMode::named(input.get("mode")?.as_str()?)?;
    Some((name, mode.to_string()))
}
