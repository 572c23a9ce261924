//! Compaction: when a conversation nearly fills the context window of its model, the model
//! summarises the conversation and continues from the summary. A person can ask for a compaction
//! earlier.
//!
//! A compaction happens only while all tool calls have results. It comes before the next model
//! call, and before waiting mail is delivered. A crash during a compaction does no harm, because
//! the transcript still shows that the conversation is full. A conversation is compacted again only
//! after its model has answered and the conversation has grown. Compactions therefore do not repeat
//! endlessly.

use pitcrew_model::Usage;
use pitcrew_protocol::Status;

use super::machine::{Agent, Phase};
use super::{Compaction, Effect, Effects, Mail, Summary};
use crate::transcript::{LEAST_CHARS, Step, TOKEN_CHARS, tokens_of};

/// The size of the context window is divided by this number to get the least free room after a
/// compaction: a tenth of the window. If the last compaction left less room, another compaction is
/// not worth its cost.
const LEAST_ROOM: u64 = 10;

/// Maximum number of times that a summary is requested again because it was empty.
const EMPTY_SUMMARIES: u32 = 2;

/// The state of the compaction in progress.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Compacting {
    /// The error of the model that refused the conversation as too long. `None` if the conversation
    /// is only nearly full.
    too_long: Option<String>,
    /// Maximum number of characters of the conversation that the model gets for the summary. `None`
    /// means the whole conversation.
    most: Option<usize>,
    /// Whether the agent compacts between two turns, to make room for the texts that start its next
    /// turn.
    is_between_turns: bool,
    /// Whether a person asked for the compaction while the agent was idle. The agent is idle again
    /// afterwards.
    is_at_rest: bool,
    /// The number of empty summaries in this compaction so far.
    empty: u32,
    /// The tokens and cost of the empty summaries in this compaction.
    spent: (Usage, Option<f64>),
}

impl Agent {
    /// Whether the conversation must be compacted before the next model call.
    pub(super) fn is_to_compact(&self) -> bool {
        let is_full = self.compact_above().is_some_and(|most| self.conversation.filled() > most);
        self.stop.is_none()
            && self.conversation.can_be_compacted()
            && self.has_calls_left()
            && (is_full || self.is_compaction_asked)
    }

    /// Handles a person's request for a compaction. An idle agent compacts at once. A working agent
    /// compacts before its next model call, or else at the end of its turn.
    pub(super) fn compaction_asked(&mut self, fx: &mut Effects) {
        if self.phase == Phase::Compacting {
            return;
        }
        self.is_compaction_asked = true;
        if self.phase == Phase::Idle {
            self.compact_at_rest(fx);
        }
    }

    /// Begins the compaction that a person asked for, if there is such a request. The agent is
    /// idle, and it is idle again after the compaction. If the conversation cannot be compacted,
    /// reports that it stays as it is.
    pub(super) fn compact_at_rest(&mut self, fx: &mut Effects) {
        let waits = self.is_parked || self.conversation.plan().is_some();
        if !self.is_compaction_asked || waits {
            return;
        }
        if !self.conversation.can_be_compacted() || !self.has_calls_left() {
            self.is_compaction_asked = false;
            let tokens = self.conversation.filled_about();
            return fx.push(Effect::ReportCompaction(Compaction {
                tokens_before: tokens,
                tokens_after: tokens,
                usage: Usage::default(),
                cost_usd: None,
            }));
        }
        self.compact(None, fx);
        self.compacting.is_at_rest = true;
    }

    /// Whether the agent compacts although it has no turn.
    pub(super) fn is_compacting_at_rest(&self) -> bool {
        self.phase == Phase::Compacting && self.compacting.is_at_rest
    }

    /// Whether the first waiting message fits into the context window only after a compaction.
    pub(super) fn mail_needs_room(&self) -> bool {
        let filled = self.conversation.filled_about();
        let needs =
            |mail: &Mail| tokens_of(mail.rendered.chars().count()) > self.room_in_window(filled);
        let is_of_use = filled > self.profile.context.window / 2;
        let may_compact =
            self.stop.is_none() && self.conversation.can_be_compacted() && self.has_calls_left();
        may_compact && is_of_use && self.pending.first().is_some_and(needs)
    }

    /// Returns how many waiting messages to deliver at once: as many as fit, but at least one.
    /// After the delivery, the conversation must still be below the limit for a compaction.
    /// Together, the messages must also fit into a quarter of the context window, so that there is
    /// room for them beside a summary. Two characters count as one token here, although a token
    /// usually has about four. The estimate is high on purpose: if it were too low, the messages
    /// could be too long for the model, and would have to be shortened.
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

    /// Whether the agent is allowed to call its model twice more. A summary needs one model call,
    /// and is useless without a second call after it.
    fn has_calls_left(&self) -> bool {
        self.profile.max_turns.is_none_or(|most| self.conversation.turns().saturating_add(1) < most)
    }

    /// Returns the number of tokens above which the conversation is compacted: the limit in the
    /// agent's profile, or a higher number after a compaction. The higher number is the size right
    /// after the last compaction plus half of the window that was free at that time. Returns `None`
    /// if less than a tenth of the window was free at that time. In that case, a full conversation
    /// alone does not start a compaction.
    fn compact_above(&self) -> Option<u64> {
        let bound = self.profile.context;
        let room = bound.window.saturating_sub(self.conversation.floor());
        (room >= bound.window / LEAST_ROOM)
            .then(|| bound.compact_above.max(self.conversation.floor() + room / 2))
    }

    /// Whether the model refused the conversation as too long, so that the agent needs a summary to
    /// continue.
    #[cfg(test)]
    pub(super) fn is_stuck(&self) -> bool {
        self.compacting.too_long.is_some()
    }

    /// Makes the conversation shorter after the model refused it as too long. First removes old
    /// tool results, and next asks for a summary. If a summary cannot help, shortens the messages
    /// that the model has not answered.
    pub(super) fn too_long(&mut self, reason: String, fx: &mut Effects) {
        let is_compacting = self.phase == Phase::Compacting;
        if let Some(keep) = self.conversation.next_cut() {
            self.write(vec![Step::Cut { keep }], fx);
            return if is_compacting { self.compact_again(fx) } else { self.call_model(fx) };
        }
        if is_compacting {
            return self.compact_less(reason, fx);
        }
        // If the messages that the model has not answered take more than half of the context
        // window, a summary of the earlier text does not help enough. Shorten these messages
        // instead.
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

    /// Shortens the messages that the model has not answered, until their estimated size fits into
    /// the context window.
    pub(super) fn fit_unanswered(&mut self, fx: &mut Effects) {
        let window = chars_of(self.profile.context.window);
        while self.conversation.unanswered_size() > window && self.shorten(fx) {}
    }

    fn shorten(&mut self, fx: &mut Effects) -> bool {
        let Some(most) = self.conversation.next_shortened() else { return false };
        self.write(vec![Step::Shortened { most }], fx);
        true
    }

    /// Asks the model for a summary. If the conversation seems longer than the context window (for
    /// example after a change of model), the model gets only the part that fits. If the
    /// conversation seems to fit but the model refused it as too long, the model gets seven eighths
    /// of it.
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
        self.is_compaction_asked = false;
        self.compacting = Compacting { too_long, most, is_between_turns, ..Compacting::default() };
        self.compact_again(fx);
    }

    pub(super) fn compact_again(&mut self, fx: &mut Effects) {
        self.phase = Phase::Compacting;
        fx.push(Effect::Compact { most: self.compacting.most });
    }

    /// Requests the summary again, because the model refused the last summary request as too long.
    /// The new request contains half as much of the conversation. If this is too little text to
    /// summarise, the agent fails.
    fn compact_less(&mut self, reason: String, fx: &mut Effects) {
        match self.conversation.next_shown(self.compacting.most) {
            Some(most) => {
                self.compacting.most = Some(most);
                self.compact_again(fx);
            }
            None => self.finish(Status::Failed, Some(reason), fx),
        }
    }

    /// Replaces the conversation by the summary, if the summary makes the conversation shorter.
    pub(super) fn summarised(&mut self, summary: Summary, fx: &mut Effects) {
        if self.phase != Phase::Compacting {
            return;
        }
        let Summary { briefing, text, usage, cost_usd } = summary;
        let (before_usage, before_cost) = self.compacting.spent;
        // Empty summaries cost tokens too. `Effect::ReportCompaction` therefore reports the tokens
        // and the cost of all summary calls of this compaction.
        let spent = (before_usage + usage, added(before_cost, cost_usd));
        if text.is_none() && self.compacting.empty < EMPTY_SUMMARIES && self.has_calls_left() {
            self.compacting.empty += 1;
            self.compacting.spent = spent;
            self.write(vec![Step::NotCompacted { usage, cost_usd }], fx);
            return self.compact_again(fx);
        }
        // After a compaction, the texts that the model has not answered may take at most a third of
        // the context window. The rest of the window is needed for the briefing (a description of
        // the team and the agent's task), for the summary, and for new text.
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
        let Compacting { too_long, is_between_turns, is_at_rest, .. } =
            std::mem::take(&mut self.compacting);
        match too_long {
            Some(reason) if !is_shorter && !self.shorten(fx) => {
                self.finish(Status::Failed, Some(reason), fx)
            }
            Some(_) | None if is_at_rest => self.boundary(Phase::Idle, fx),
            Some(_) | None => self.boundary(self.after_compaction(is_between_turns), fx),
        }
    }

    /// Returns the phase after a compaction. If the team lost its lead during a compaction between
    /// two turns, the agent does not start the turn for which it was compacting.
    fn after_compaction(&self, is_between_turns: bool) -> Phase {
        match (is_between_turns && self.is_parked, self.conversation.rested()) {
            (false, _) => Phase::Boundary,
            (true, true) => Phase::Idle,
            (true, false) => Phase::TurnEnd,
        }
    }
}

/// Returns `whole * part / all`. The multiplication does not overflow.
fn share(whole: u64, part: u64, all: u64) -> u64 {
    let [whole, part, all] = [whole, part, all.max(1)].map(u128::from);
    u64::try_from(whole.saturating_mul(part) / all).unwrap_or(u64::MAX)
}

/// Returns the approximate number of characters in this number of tokens.
fn chars_of(tokens: u64) -> usize {
    usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(TOKEN_CHARS)
}

/// Adds two costs. A cost that is not known counts as zero. Returns `None` if neither is known.
fn added(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(|one, other| one + other)
}
