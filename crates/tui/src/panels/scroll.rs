//! Scrolling. [`Scroll`] shows a window over items of different heights, and asks only for the
//! heights of items in or near the window. [`ListWindow`] keeps the selected row of a list in view.

use std::ops::Range;

/// The position of a window over items of different heights.
///
/// Items are counted from the end: the last item has the number 0. A window at the end stays at the
/// end when items are added. Any other window keeps showing the same rows, if its owner reports
/// new items with [`Scroll::added`].
///
/// The movements can be called at any time. They take effect in the next [`Scroll::window`].
#[derive(Clone, Debug, Default)]
pub struct Scroll {
    /// The bottom edge of the window. `None` is the end.
    bottom: Option<Edge>,
    pending: Pending,
    /// The height of the last window.
    height: usize,
}

/// The bottom edge of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Edge {
    /// The item above the edge, counted from the end.
    item: usize,
    /// The number of the item's rows that are above the edge, at least 1.
    rows: usize,
}

/// The movement since the last window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Pending {
    #[default]
    None,
    Up(usize),
    Down(usize),
    Start,
    End,
}

/// The visible part of one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The item, counted from the end.
    pub item: usize,
    /// The number of rows at the top of the item that are above the window.
    pub skip: usize,
    /// The number of rows of the item that are in the window.
    pub rows: usize,
}

impl Scroll {
    /// Returns a window at the end.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the window up by this number of rows.
    pub fn up(&mut self, rows: usize) {
        self.pending = match self.pending {
            Pending::None | Pending::End => Pending::Up(rows),
            Pending::Up(before) => Pending::Up(before.saturating_add(rows)),
            Pending::Down(before) if before >= rows => Pending::Down(before - rows),
            Pending::Down(before) => Pending::Up(rows - before),
            Pending::Start => Pending::Start,
        };
    }

    /// Moves the window down by this number of rows.
    pub fn down(&mut self, rows: usize) {
        self.pending = match self.pending {
            Pending::None | Pending::Start => Pending::Down(rows),
            Pending::Down(before) => Pending::Down(before.saturating_add(rows)),
            Pending::Up(before) if before >= rows => Pending::Up(before - rows),
            Pending::Up(before) => Pending::Down(rows - before),
            Pending::End => Pending::End,
        };
    }

    /// Moves the window up by nearly its height. One row of the old window stays visible.
    pub fn page_up(&mut self) {
        self.up(self.page());
    }

    /// Moves the window down by nearly its height. One row of the old window stays visible.
    pub fn page_down(&mut self) {
        self.down(self.page());
    }

    /// Moves the window to the first item.
    pub fn to_start(&mut self) {
        self.pending = Pending::Start;
    }

    /// Moves the window to the end. It then follows new items.
    pub fn to_end(&mut self) {
        self.pending = Pending::End;
    }

    /// Reports new items at the end. A window that is not at the end keeps showing the same rows.
    pub fn added(&mut self, items: usize) {
        if let Some(edge) = &mut self.bottom {
            edge.item = edge.item.saturating_add(items);
        }
    }

    /// Whether the last window was at the end, and no movement away from it is pending.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        match self.pending {
            Pending::None | Pending::Down(_) => self.bottom.is_none(),
            Pending::Up(_) | Pending::Start => false,
            Pending::End => true,
        }
    }

    /// Returns the number of items at the end that the next window of this height can reach. An
    /// owner that finds its items one by one needs no others.
    #[must_use]
    pub fn reach(&self, height: usize) -> usize {
        let below = self.bottom.map_or(0, |edge| edge.item);
        let up = match self.pending {
            Pending::Start => return usize::MAX,
            Pending::Up(rows) => rows,
            Pending::None | Pending::Down(_) | Pending::End => 0,
        };
        // Each item has at least one row.
        below.saturating_add(up).saturating_add(height).saturating_add(1)
    }

    /// Carries out the pending movement and returns the visible parts of items, from top to bottom.
    /// `count` is the number of items. `height_of` returns the height of an item, which is counted
    /// from the end; a height of 0 counts as 1.
    pub fn window(
        &mut self,
        count: usize,
        height: usize,
        mut height_of: impl FnMut(usize) -> usize,
    ) -> Vec<Part> {
        self.height = height;
        let pending = std::mem::take(&mut self.pending);
        if count == 0 {
            self.bottom = None;
        }
        if count == 0 || height == 0 {
            return Vec::new();
        }
        let mut rows = Rows { count, height_of: |item| height_of(item).max(1) };
        let mut edge = match (pending, self.bottom) {
            (Pending::Start, _) => Edge { item: count - 1, rows: 1 },
            (Pending::End, _) | (_, None) => rows.end(),
            (Pending::None | Pending::Up(_) | Pending::Down(_), Some(edge)) => rows.valid(edge),
        };
        match pending {
            Pending::Up(by) => edge = rows.up(edge, by),
            Pending::Down(by) => edge = rows.down(edge, by),
            Pending::None | Pending::Start | Pending::End => {}
        }
        let (mut parts, free) = rows.above(edge, height);
        if free > 0 {
            edge = rows.down(edge, free);
            (parts, _) = rows.above(edge, height);
        }
        self.bottom = (edge != rows.end()).then_some(edge);
        parts
    }

    fn page(&self) -> usize {
        self.height.saturating_sub(1).max(1)
    }
}

/// The items below a window.
struct Rows<F> {
    count: usize,
    height_of: F,
}

impl<F: FnMut(usize) -> usize> Rows<F> {
    fn end(&mut self) -> Edge {
        Edge { item: 0, rows: (self.height_of)(0) }
    }

    /// Returns an edge that exists, also if items left or became lower.
    fn valid(&mut self, edge: Edge) -> Edge {
        let item = edge.item.min(self.count - 1);
        let rows = if item == edge.item { edge.rows } else { 1 };
        Edge { item, rows: rows.clamp(1, (self.height_of)(item)) }
    }

    fn up(&mut self, mut edge: Edge, mut by: usize) -> Edge {
        while by >= edge.rows {
            if edge.item + 1 >= self.count {
                return Edge { rows: 1, ..edge };
            }
            by -= edge.rows;
            let item = edge.item + 1;
            edge = Edge { item, rows: (self.height_of)(item) };
        }
        Edge { rows: edge.rows - by, ..edge }
    }

    fn down(&mut self, mut edge: Edge, mut by: usize) -> Edge {
        loop {
            let all = (self.height_of)(edge.item);
            let below = all.saturating_sub(edge.rows);
            if by <= below {
                return Edge { rows: edge.rows + by, ..edge };
            }
            if edge.item == 0 {
                return Edge { rows: all, ..edge };
            }
            by -= below;
            edge = Edge { item: edge.item - 1, rows: 0 };
        }
    }

    /// Returns the parts of the items above an edge, from top to bottom, and the number of rows of
    /// the window for which there is no item.
    fn above(&mut self, edge: Edge, height: usize) -> (Vec<Part>, usize) {
        let (mut parts, mut free) = (Vec::new(), height);
        let (mut item, mut visible) = (edge.item, edge.rows);
        loop {
            let rows = visible.min(free);
            parts.push(Part { item, skip: visible - rows, rows });
            free -= rows;
            item += 1;
            if free == 0 || item >= self.count {
                break;
            }
            visible = (self.height_of)(item);
        }
        parts.reverse();
        (parts, free)
    }
}

/// The position of a window over a list of rows of equal height.
#[derive(Clone, Debug, Default)]
pub struct ListWindow {
    first: usize,
}

impl ListWindow {
    /// Returns the rows in a window of this height. The window moves no further than needed to
    /// show the selected row and the row before it, which may be its heading. It has no free rows at
    /// its end while there are rows above it.
    pub fn rows(&mut self, count: usize, height: usize, selected: usize) -> Range<usize> {
        let last_first = count.saturating_sub(height);
        let least = (selected + 1).saturating_sub(height);
        let most = selected.saturating_sub(1).max(least);
        self.first = self.first.clamp(least, most).min(last_first);
        self.first..(self.first + height).min(count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The rows in a window, each as its item, counted from the start, and its row in the item.
    fn shown(scroll: &mut Scroll, heights: &[usize], height: usize) -> Vec<(usize, usize)> {
        let last = heights.len().saturating_sub(1);
        let parts = scroll.window(heights.len(), height, |item| heights[last - item]);
        let rows = |part: &Part| {
            let item = last - part.item;
            (part.skip..part.skip + part.rows).map(move |row| (item, row))
        };
        parts.iter().flat_map(rows).collect()
    }

    fn all(heights: &[usize]) -> Vec<(usize, usize)> {
        let rows = |(item, height): (usize, &usize)| (0..*height).map(move |row| (item, row));
        heights.iter().enumerate().flat_map(rows).collect()
    }

    #[derive(Clone, Debug)]
    enum Step {
        Up(usize),
        Down(usize),
        Start,
        End,
        Add(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..30_usize).prop_map(Step::Up),
            (0..30_usize).prop_map(Step::Down),
            Just(Step::Start),
            Just(Step::End),
            (1..5_usize).prop_map(Step::Add),
        ]
    }

    proptest! {
        /// Beside the window runs the plain way: the first visible row in the list of all rows.
        #[test]
        fn a_window_shows_the_same_rows_as_a_plain_list_of_all_rows(
            mut heights in prop::collection::vec(1..6_usize, 1..40),
            height in 1..12_usize,
            steps in prop::collection::vec(step(), 0..20),
        ) {
            let mut scroll = Scroll::new();
            let top_most = |heights: &[usize]| all(heights).len().saturating_sub(height);
            let mut top = top_most(&heights);
            shown(&mut scroll, &heights, height);
            for step in steps {
                let is_at_end = top == top_most(&heights);
                match step {
                    Step::Up(rows) => { scroll.up(rows); top = top.saturating_sub(rows); }
                    Step::Down(rows) => {
                        scroll.down(rows);
                        top = (top + rows).min(top_most(&heights));
                    }
                    Step::Start => { scroll.to_start(); top = 0; }
                    Step::End => { scroll.to_end(); top = top_most(&heights); }
                    Step::Add(rows) => {
                        heights.push(rows);
                        scroll.added(1);
                        if is_at_end { top = top_most(&heights); }
                    }
                }
                prop_assert!(scroll.reach(height) >= 1);
                let rows = all(&heights);
                let end = (top + height).min(rows.len());
                prop_assert_eq!(shown(&mut scroll, &heights, height), &rows[top..end]);
                prop_assert_eq!(scroll.is_at_end(), top == top_most(&heights));
            }
        }

        #[test]
        fn a_window_asks_for_no_item_beyond_its_reach(
            steps in prop::collection::vec((0..200_usize, any::<bool>()), 1..10),
        ) {
            let mut scroll = Scroll::new();
            for (rows, is_up) in steps {
                if is_up { scroll.up(rows) } else { scroll.down(rows) }
                let reach = scroll.reach(10);
                let mut farthest = 0;
                scroll.window(100_000, 10, |item| { farthest = farthest.max(item); 2 });
                prop_assert!(farthest < reach, "{farthest} of {reach}");
            }
        }

        #[test]
        fn the_selected_row_of_a_list_is_always_in_view(
            count in 1..50_usize,
            height in 1..20_usize,
            selected in prop::collection::vec(0..50_usize, 1..20),
        ) {
            let mut window = ListWindow::default();
            for selected in selected {
                let selected = selected.min(count - 1);
                let rows = window.rows(count, height, selected);
                prop_assert!(rows.contains(&selected), "{selected} is not in {rows:?}");
                prop_assert_eq!(rows.len(), height.min(count));
            }
        }
    }

    #[test]
    fn a_window_stays_where_it_is_while_its_last_item_grows() {
        let mut scroll = Scroll::new();
        shown(&mut scroll, &[1, 9], 3);
        scroll.up(2);
        let before = shown(&mut scroll, &[1, 9], 3);
        assert_eq!(shown(&mut scroll, &[1, 20], 3), before);
    }

    #[test]
    fn a_window_at_the_end_follows_its_last_item() {
        let mut scroll = Scroll::new();
        shown(&mut scroll, &[1, 9], 3);
        assert_eq!(shown(&mut scroll, &[1, 12], 3), [(1, 9), (1, 10), (1, 11)]);
    }

    #[test]
    fn a_window_goes_on_when_items_left_or_the_width_changed() {
        let mut scroll = Scroll::new();
        let heights = [5; 20];
        shown(&mut scroll, &heights, 4);
        scroll.to_start();
        assert_eq!(shown(&mut scroll, &heights, 4), all(&heights)[..4]);
        assert_eq!(shown(&mut scroll, &heights[..3], 4), all(&heights)[..4]);
        assert_eq!(shown(&mut scroll, &[1, 1], 4), [(0, 0), (1, 0)]);
        assert_eq!(shown(&mut scroll, &[], 4), []);
    }

    #[test]
    fn a_page_keeps_one_row_of_the_window_before() {
        let (mut scroll, heights) = (Scroll::new(), [1; 30]);
        shown(&mut scroll, &heights, 10);
        scroll.page_up();
        let before = shown(&mut scroll, &heights, 10);
        scroll.page_up();
        assert_eq!(shown(&mut scroll, &heights, 10).last(), before.first());
    }
}
