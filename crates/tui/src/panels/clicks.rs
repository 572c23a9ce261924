//! Finds the item of a list at which the user clicks.

use ratatui::layout::{Position, Rect};

/// The items of a list by the rows in which they were drawn last.
#[derive(Clone, Debug)]
pub(crate) struct RowItems<T> {
    area: Rect,
    items: Vec<Option<T>>,
}

impl<T> Default for RowItems<T> {
    fn default() -> Self {
        Self { area: Rect::default(), items: Vec::new() }
    }
}

impl<T> RowItems<T> {
    /// Notes what was drawn in an area, from its first row on. A row without an item is `None`.
    pub(crate) fn drawn(area: Rect, items: impl Iterator<Item = Option<T>>) -> Self {
        Self { area, items: items.collect() }
    }

    /// Returns the item at a place of the screen.
    pub(crate) fn at(&self, place: Position) -> Option<&T> {
        if !self.area.contains(place) {
            return None;
        }
        self.items.get(usize::from(place.y.checked_sub(self.area.y)?))?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_click_finds_the_item_of_its_row_and_nothing_beside_the_list() {
        let rows = RowItems::drawn(Rect::new(2, 3, 4, 2), [None, Some('b'), Some('c')].into_iter());
        let at = |x, y| rows.at(Position::new(x, y)).copied();
        assert_eq!((at(2, 3), at(2, 4), at(5, 4)), (None, Some('b'), Some('b')));
        assert_eq!((at(6, 4), at(2, 5), at(0, 0)), (None, None, None), "outside of the area");
    }
}
