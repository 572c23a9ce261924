//! Remembers which parts of a call were on the screen.

use std::ops::Range;

use super::body::{Body, Part};

/// A set of places in a text. The ranges are in order and do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Places(Vec<Range<usize>>);

impl Places {
    fn add(&mut self, added: &Range<usize>) {
        let mut added = added.clone();
        self.0.retain(|range| {
            let touches = range.start <= added.end && added.start <= range.end;
            if touches {
                added = added.start.min(range.start)..added.end.max(range.end);
            }
            !touches
        });
        let at = self.0.partition_point(|range| range.start < added.start);
        self.0.insert(at, added);
    }

    fn contains(&self, part: &Range<usize>) -> bool {
        self.0.iter().any(|range| range.start <= part.start && part.end <= range.end)
    }
}

/// What the user has seen of a permission request.
#[derive(Debug, Default)]
pub(super) struct Reading {
    call: Places,
    rules: Places,
    /// Whether the whole call was on the screen.
    has_seen_call: bool,
    has_seen_rules: bool,
    /// Whether the user skipped the rest of the call.
    is_skipped: bool,
    /// The rows of the present layout that were not on the screen.
    unseen: usize,
    /// The width of the layout, if the places depend on it.
    width: Option<usize>,
}

impl Reading {
    /// Takes a layout into account. Places that depend on the width are forgotten if the width has
    /// changed.
    pub(super) fn laid_out(&mut self, body: &Body) {
        let width = body.depends_on_width().then_some(body.width);
        if self.width != width {
            self.width = width;
            self.call = Places::default();
        }
        self.count(body);
    }

    /// Marks rows as seen.
    pub(super) fn saw(&mut self, (body, rows): (&Body, Range<usize>)) {
        for row in body.rows.get(rows).unwrap_or_default() {
            match &row.part {
                Part::Call(range) => self.call.add(range),
                Part::Rules(range) => self.rules.add(range),
            }
        }
        self.count(body);
    }

    /// Skips the rest of the call. The user asked for this.
    pub(super) fn skip(&mut self) {
        self.is_skipped = true;
    }

    /// Returns the number of rows that the user must still see before the call can be allowed.
    pub(super) fn unseen_rows(&self) -> usize {
        if self.is_skipped { 0 } else { self.unseen }
    }

    /// Returns the number of rows that the user skipped.
    pub(super) fn skipped_rows(&self) -> usize {
        if self.is_skipped { self.unseen } else { 0 }
    }

    /// Whether all rules that the request offers were on the screen.
    pub(super) fn has_seen_rules(&self) -> bool {
        self.has_seen_rules
    }

    fn count(&mut self, body: &Body) {
        let is_unseen = |part: &&Part| match part {
            Part::Call(range) => !self.has_seen_call && !self.call.contains(range),
            Part::Rules(_) => false,
        };
        self.unseen = body.rows.iter().map(|row| &row.part).filter(is_unseen).count();
        self.has_seen_call |= self.unseen == 0;
        // Rules that are not among the rows of the call are beside the keys, which are always
        // drawn.
        self.has_seen_rules = body.rows.iter().all(|row| match &row.part {
            Part::Call(_) => true,
            Part::Rules(range) => self.rules.contains(range),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighboring_places_become_one() {
        let mut places = Places::default();
        for range in [10..20, 40..50, 20..30, 0..5, 60..70, 29..41] {
            places.add(&range);
        }
        assert_eq!(places.0, [0..5, 10..50, 60..70]);
        assert!(places.contains(&(12..45)) && !places.contains(&(4..11)));
        places.add(&(0..100));
        assert_eq!(places.0.len(), 1);
    }
}
