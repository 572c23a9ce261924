//! The entries of a timeline that a filter selects. They are found from the end backwards, as far as
//! they are needed.

use std::collections::VecDeque;
use std::ops::Range;

use pitcrew_view::state::{Timeline, TimelineEntry};

use super::filter::Filter;

/// The selected entries that are known so far. Entries are counted over the whole life of the
/// timeline, so an entry keeps its number when older ones leave.
#[derive(Clone, Debug, Default)]
pub(super) struct Matches {
    filter: Filter,
    /// The numbers of the selected entries, in order.
    numbers: VecDeque<u64>,
    /// The entries to which the filter was applied.
    looked_at: Range<u64>,
    /// The line of the stream that told the last entry to which the filter was applied.
    last_line: Option<u64>,
}

impl Matches {
    /// Returns the number of selected entries that are known.
    pub(super) fn count(&self) -> usize {
        self.numbers.len()
    }

    /// Returns a selected entry. Entries are counted from the end: the last one has the number 0.
    pub(super) fn entry<'a>(
        &self,
        timeline: &'a Timeline,
        from_end: usize,
    ) -> Option<&'a TimelineEntry> {
        let at = self.numbers.len().checked_sub(from_end)?.checked_sub(1)?;
        entry(timeline, *self.numbers.get(at)?)
    }

    /// Prepares for this timeline and this filter. Returns whether the window must go to the end,
    /// because the filter or the timeline is another one than before.
    pub(super) fn prepare(&mut self, timeline: &Timeline, filter: &Filter) -> bool {
        let is_known = self.is_of(timeline);
        if is_known && self.filter == *filter {
            return false;
        }
        let narrows = filter.narrows(&self.filter);
        self.filter = filter.clone();
        if is_known && narrows {
            // While a person types a search, each entry is looked at once for all letters.
            self.numbers.retain(|number| {
                entry(timeline, *number).is_some_and(|entry| filter.selects(entry))
            });
        } else {
            let end = numbers_of(timeline).end;
            self.numbers.clear();
            self.looked_at = end..end;
        }
        true
    }

    /// Whether this timeline is the one that was looked at before, with or without new entries.
    fn is_of(&self, timeline: &Timeline) -> bool {
        let last = self.looked_at.end.checked_sub(1).and_then(|last| entry(timeline, last));
        last.is_some_and(|entry| Some(entry.line) == self.last_line)
    }

    /// Takes in the entries that came and left. Returns the number of new selected entries.
    pub(super) fn follow(&mut self, timeline: &Timeline) -> usize {
        let all = numbers_of(timeline);
        while self.numbers.front().is_some_and(|number| *number < all.start) {
            self.numbers.pop_front();
        }
        let before = self.numbers.len();
        let new = self.looked_at.end.max(all.start)..all.end;
        for number in new {
            if entry(timeline, number).is_some_and(|entry| self.filter.selects(entry)) {
                self.numbers.push_back(number);
            }
        }
        let start = self.looked_at.start.max(all.start);
        self.looked_at = start..all.end;
        self.last_line = timeline.entries().next_back().map(|entry| entry.line);
        self.numbers.len() - before
    }

    /// Finds older selected entries until this number of them is known, or all.
    pub(super) fn reach_back(&mut self, timeline: &Timeline, needed: usize) {
        let first = numbers_of(timeline).start;
        let behind = usize::try_from(self.looked_at.start.saturating_sub(first)).unwrap_or(0);
        let older = timeline.entries().take(behind).rev();
        for entry in older {
            if self.numbers.len() >= needed {
                return;
            }
            self.looked_at.start -= 1;
            if self.filter.selects(entry) {
                self.numbers.push_front(self.looked_at.start);
            }
        }
    }
}

/// Returns the numbers of the entries that are in a timeline now.
fn numbers_of(timeline: &Timeline) -> Range<u64> {
    let count = u64::try_from(timeline.entries().len()).unwrap_or(u64::MAX);
    timeline.left()..timeline.left().saturating_add(count)
}

fn entry(timeline: &Timeline, number: u64) -> Option<&TimelineEntry> {
    let at = number.checked_sub(timeline.left())?;
    // The timeline's iterator skips in constant time.
    timeline.entries().nth(usize::try_from(at).ok()?)
}
