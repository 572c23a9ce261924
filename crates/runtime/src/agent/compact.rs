//! A conversation near the end of what its model can read: the model sums it up, and goes on from the summary.
//!
//! That happens at a boundary before a call of the model, where no call of a tool is open, and before waiting mail is
//! delivered. A crash in it leaves nothing behind: the transcript still tells that the conversation is full. It comes to
//! an end in any case, as a conversation is compacted again only after its model has answered, and only when it has grown.

use super::machine::{Agent, Phase};
use super::{Compaction, Effect, Effects, Status, Summary};
use crate::transcript::{Step, tokens_of};

/// The part of the window, as a divisor, that must be free right after a compaction for another to be worth its price.
const LEAST_ROOM: u64 = 10;

/// A compaction that is being made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Compacting {
    /// What the model said when it could not read the conversation; none when that is only near.
    too_long: Option<String>,
    /// How many messages after the first are not shown.
    left_out: usize,
    /// The turn it is made for has not begun: only mail called for it.
    is_between_turns: bool,
}

impl Agent {
    /// Whether the conversation is to be compacted before the model is called.
    pub(super) fn is_to_compact(&self) -> bool {
        let conversation = &self.conversation;
        // The summary is a call too, and of no use without another after it.
        let has_calls_left = self.profile.max_turns.is_none_or(|most| conversation.turns().saturating_add(1) < most);
        self.stop.is_none()
            && conversation.can_be_compacted()
            && has_calls_left
            && self.compact_above().is_some_and(|most| conversation.filled() > most)
    }

    /// What may be filled. After a compaction that left much, half of the rest must fill up before the next; after one that
    /// left too much, the model itself says when it is enough.
    fn compact_above(&self) -> Option<u64> {
        let bound = self.profile.context;
        let room = bound.window.saturating_sub(self.conversation.floor());
        (room >= bound.window / LEAST_ROOM).then(|| bound.compact_above.max(self.conversation.floor() + room / 2))
    }

    /// Whether it can go on only from a summary.
    #[cfg(test)]
    pub(super) fn is_stuck(&self) -> bool {
        self.compacting.too_long.is_some()
    }

    /// Has the model sum the conversation up.
    pub(super) fn compact(&mut self, too_long: Option<String>, fx: &mut Effects) {
        let is_between_turns = matches!(self.phase, Phase::Pending | Phase::TurnEnd | Phase::Idle);
        self.compacting = Compacting { too_long, left_out: 0, is_between_turns };
        self.compact_again(fx);
    }

    pub(super) fn compact_again(&mut self, fx: &mut Effects) {
        self.phase = Phase::Compacting;
        fx.push(Effect::Compact { left_out: self.compacting.left_out });
    }

    /// Goes on when not even the summary can be made of all: with less of the conversation, as long as there is any.
    pub(super) fn compact_less(&mut self, reason: String, fx: &mut Effects) {
        match self.conversation.next_left_out(self.compacting.left_out) {
            Some(left_out) => {
                self.compacting.left_out = left_out;
                self.compact_again(fx);
            }
            None => self.finish(Status::Failed, Some(reason), fx),
        }
    }

    /// Puts the summary in place of the conversation, when that makes it shorter.
    pub(super) fn summarised(&mut self, summary: Summary, fx: &mut Effects) {
        if self.phase != Phase::Compacting {
            return;
        }
        let Summary { briefing, text, usage, cost_usd } = summary;
        let before = self.conversation.size();
        let summed_up = text.map(|text| (self.conversation.size_compacted(&briefing, &text), text));
        let tokens_before = match self.conversation.filled() {
            0 => tokens_of(before),
            filled => filled,
        };
        let mut report = Compaction { tokens_before, tokens_after: tokens_before, usage, cost_usd };
        let is_shorter = match summed_up.filter(|(after, _)| *after < before) {
            Some((after, summary)) => {
                report.tokens_after = share(tokens_before, after, before);
                self.write(vec![Step::Compacted { briefing, summary, usage, cost_usd }], fx);
                true
            }
            None => {
                self.write(vec![Step::NotCompacted { usage, cost_usd }], fx);
                false
            }
        };
        fx.push(Effect::ReportCompaction(report));
        let Compacting { too_long, is_between_turns, .. } = std::mem::take(&mut self.compacting);
        match too_long {
            Some(reason) if !is_shorter => self.finish(Status::Failed, Some(reason), fx),
            Some(_) | None => self.boundary(self.after_compaction(is_between_turns), fx),
        }
    }

    /// Where it goes on: an agent that was parked meanwhile does not begin the turn that it was called for.
    fn after_compaction(&self, is_between_turns: bool) -> Phase {
        match (is_between_turns && self.is_parked, self.conversation.rested()) {
            (false, _) => Phase::Boundary,
            (true, true) => Phase::Idle,
            (true, false) => Phase::TurnEnd,
        }
    }
}

/// As much of `whole` as `part` is of `all`.
fn share(whole: u64, part: usize, all: usize) -> u64 {
    let [whole, part, all] = [u128::from(whole), part as u128, all.max(1) as u128];
    u64::try_from(whole.saturating_mul(part) / all).unwrap_or(u64::MAX)
}
