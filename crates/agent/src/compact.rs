//! A conversation near the end of what its model can read: the model sums it up, and goes on from the summary.
//!
//! That happens at a boundary before a call of the model, where no call of a tool is open, and before waiting mail is
//! delivered. A crash in it leaves nothing behind: the transcript still tells that the conversation is full. It comes to
//! an end in any case, as a conversation is compacted again only after its model has answered, and only when it has grown.

use pitcrew_model::Usage;
use pitcrew_protocol::Status;

use super::machine::{Agent, Phase};
use super::{Compaction, Effect, Effects, Mail, Summary};
use crate::transcript::{LEAST_CHARS, Step, TOKEN_CHARS, tokens_of};

/// The part of the window, as a divisor, that must be free right after a compaction for another to be worth its price.
const LEAST_ROOM: u64 = 10;

/// How often a summary without a word is asked for again.
const EMPTY_SUMMARIES: u32 = 2;

/// A compaction that is being made.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Compacting {
    /// What the model said when it could not read the conversation; none when that is only near.
    too_long: Option<String>,
    /// How many characters of the conversation are shown; all when absent.
    most: Option<usize>,
    /// The turn it is made for has not begun: only mail called for it.
    is_between_turns: bool,
    /// How many summaries came without a word.
    empty: u32,
    /// What those used and cost.
    spent: (Usage, Option<f64>),
}

impl Agent {
    /// Whether the conversation is to be compacted before the model is called.
    pub(super) fn is_to_compact(&self) -> bool {
        let is_full = self.compact_above().is_some_and(|most| self.conversation.filled() > most);
        self.stop.is_none()
            && self.conversation.can_be_compacted()
            && self.has_calls_left()
            && is_full
    }

    /// Whether the first message that waits needs the room of what a summary would take the place of.
    pub(super) fn mail_needs_room(&self) -> bool {
        let filled = self.conversation.filled_about();
        let needs =
            |mail: &Mail| tokens_of(mail.rendered.chars().count()) > self.room_in_window(filled);
        let is_of_use = filled > self.profile.context.window / 2;
        let may_compact =
            self.stop.is_none() && self.conversation.can_be_compacted() && self.has_calls_left();
        may_compact && is_of_use && self.pending.first().is_some_and(needs)
    }

    /// How many messages are delivered at once: those that fit into what may be filled, and into a quarter of the window, so
    /// that they fit beside a summary too. One is always delivered. They are counted as dense text, of which a token is two
    /// characters: what does not fit would have to be shortened.
    pub(super) fn mail_that_fits(&self) -> usize {
        let room = self
            .room_in_window(self.conversation.filled_about())
            .min(self.profile.context.window / 4);
        let mut room = chars_of(room) / 2;
        let fits = self.pending.iter().take_while(|mail| {
            let size = mail.rendered.chars().count();
            let fits = size <= room;
            room = room.saturating_sub(size);
            fits
        });
        fits.count().max(1).min(self.pending.len())
    }

    fn room_in_window(&self, filled: u64) -> u64 {
        self.profile.context.compact_above.saturating_sub(filled)
    }

    /// Whether another call of the model can follow the next: a summary is a call too, and of no use without another after it.
    fn has_calls_left(&self) -> bool {
        self.profile.max_turns.is_none_or(|most| self.conversation.turns().saturating_add(1) < most)
    }

    /// What may be filled. After a compaction that left much, half of the rest must fill up before the next; after one that
    /// left too much, the model itself says when it is enough.
    fn compact_above(&self) -> Option<u64> {
        let bound = self.profile.context;
        let room = bound.window.saturating_sub(self.conversation.floor());
        (room >= bound.window / LEAST_ROOM)
            .then(|| bound.compact_above.max(self.conversation.floor() + room / 2))
    }

    /// Whether it can go on only from a summary.
    #[cfg(test)]
    pub(super) fn is_stuck(&self) -> bool {
        self.compacting.too_long.is_some()
    }

    /// Makes a conversation shorter that its model cannot read: first old results are cut, then it is summed up, and what
    /// cannot be summed up is shortened.
    pub(super) fn too_long(&mut self, reason: String, fx: &mut Effects) {
        let is_compacting = self.phase == Phase::Compacting;
        if let Some(keep) = self.conversation.next_cut() {
            self.write(vec![Step::Cut { keep }], fx);
            return if is_compacting { self.compact_again(fx) } else { self.call_model(fx) };
        }
        if is_compacting {
            return self.compact_less(reason, fx);
        }
        // A summary of what came before is no help against a single text that fills the window.
        let unanswered = self.conversation.unanswered_size();
        let is_oversized = unanswered > chars_of(self.profile.context.window / 2);
        if (is_oversized || !self.conversation.can_be_compacted()) && self.shorten(fx) {
            return self.call_model(fx);
        }
        if self.conversation.can_be_compacted() {
            return self.compact(Some(reason), fx);
        }
        self.finish(Status::Failed, Some(reason), fx);
    }

    /// Shortens what the model has not answered yet, as long as it is longer than all that the model can read, about.
    pub(super) fn fit_unanswered(&mut self, fx: &mut Effects) {
        let window = chars_of(self.profile.context.window);
        while self.conversation.unanswered_size() > window && self.shorten(fx) {}
    }

    fn shorten(&mut self, fx: &mut Effects) -> bool {
        let Some(most) = self.conversation.next_shortened() else { return false };
        self.write(vec![Step::Shortened { most }], fx);
        true
    }

    /// Has the model sum the conversation up. Of one that is longer than the window, as when its model was changed, only as
    /// much is shown as fits; of one that the model could not read, an eighth less.
    pub(super) fn compact(&mut self, too_long: Option<String>, fx: &mut Effects) {
        let is_between_turns = matches!(self.phase, Phase::Pending | Phase::TurnEnd | Phase::Idle);
        let (filled, bound) = (self.conversation.filled_about(), self.profile.context);
        let size = self.conversation.size();
        let most = if filled > bound.window {
            let size = u64::try_from(size).unwrap_or(u64::MAX);
            Some(usize::try_from(share(size, bound.compact_above, filled)).unwrap_or(usize::MAX))
        } else {
            too_long.as_ref().map(|_| size - size / 8).filter(|most| *most >= LEAST_CHARS)
        };
        self.compacting = Compacting { too_long, most, is_between_turns, ..Compacting::default() };
        self.compact_again(fx);
    }

    pub(super) fn compact_again(&mut self, fx: &mut Effects) {
        self.phase = Phase::Compacting;
        fx.push(Effect::Compact { most: self.compacting.most });
    }

    /// Goes on when not even the summary can be made of all: with half of what was shown, as long as there is any.
    fn compact_less(&mut self, reason: String, fx: &mut Effects) {
        match self.conversation.next_shown(self.compacting.most) {
            Some(most) => {
                self.compacting.most = Some(most);
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
        let (before_usage, before_cost) = self.compacting.spent;
        let spent = (before_usage + usage, added(before_cost, cost_usd));
        if text.is_none() && self.compacting.empty < EMPTY_SUMMARIES && self.has_calls_left() {
            self.compacting.empty += 1;
            self.compacting.spent = spent;
            self.write(vec![Step::NotCompacted { usage, cost_usd }], fx);
            return self.compact_again(fx);
        }
        // A third of the window: the briefing takes another, and the summary a tenth.
        let kept_chars = Some(chars_of(self.profile.context.window / 3));
        let before = self.conversation.size();
        let summed_up =
            text.map(|text| (self.conversation.size_compacted(&briefing, &text, kept_chars), text));
        let tokens_before = self.conversation.filled_about();
        let mut report = Compaction {
            tokens_before,
            tokens_after: tokens_before,
            usage: spent.0,
            cost_usd: spent.1,
        };
        let is_shorter = match summed_up.filter(|(after, _)| *after < before) {
            Some((after, summary)) => {
                let sizes =
                    [after, before.max(1)].map(|size| u64::try_from(size).unwrap_or(u64::MAX));
                report.tokens_after = share(tokens_before, sizes[0], sizes[1]);
                self.write(
                    vec![Step::Compacted { briefing, summary, kept_chars, usage, cost_usd }],
                    fx,
                );
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
            Some(reason) if !is_shorter && !self.shorten(fx) => {
                self.finish(Status::Failed, Some(reason), fx)
            }
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
fn share(whole: u64, part: u64, all: u64) -> u64 {
    let [whole, part, all] = [whole, part, all.max(1)].map(u128::from);
    u64::try_from(whole.saturating_mul(part) / all).unwrap_or(u64::MAX)
}

/// How many characters so many tokens are, about.
fn chars_of(tokens: u64) -> usize {
    usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(TOKEN_CHARS)
}

/// The sum of what is known of two costs.
fn added(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(|one, other| one + other)
}
