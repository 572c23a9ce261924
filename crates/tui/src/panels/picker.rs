//! A list to choose from: searchable, and grouped under headings.

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};

use super::cell::{cut, padded, width_of};
use super::query::{self, Query, Searched};
use super::scroll::ListWindow;
use super::{Movement, PanelAct, RowItems, draw_line, mark_selected, titled};
use crate::theme::Theme;

/// Maximum width of the first column, as a part of the whole width.
const LABEL_PART: usize = 3;

/// The width of the mark before an item.
const MARK_WIDTH: usize = 2;

/// An item of a list. The texts may contain any characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PickerItem {
    /// The heading. Items with the same heading must follow each other.
    pub group: String,
    /// The name of the item.
    pub label: String,
    /// More about the item.
    pub detail: String,
}

/// A list from which the user chooses an item. Typed letters search it.
#[derive(Clone, Debug)]
pub struct Picker {
    title: String,
    query: Query,
    /// The index of the selected item.
    selected: Option<usize>,
    /// The selected item, as the last drawing showed it. `None` after a movement.
    drawn: Option<PickerItem>,
    /// The indices of the items that the search found in the last drawing.
    found: Vec<usize>,
    window: ListWindow,
    page: usize,
    rows: RowItems<usize>,
}

/// A row of the list.
enum Row<'a> {
    Heading(&'a str),
    Item(usize, &'a PickerItem),
}

impl Searched for PickerItem {
    fn has_name(&self, beginning: &str) -> bool {
        query::begins_with(&self.label, beginning)
    }

    fn has_text(&self, part: &str) -> bool {
        [&self.label, &self.detail, &self.group].into_iter().any(|text| query::contains(text, part))
    }
}

impl Picker {
    /// Returns a list with this title.
    #[must_use]
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            query: Query::default(),
            selected: None,
            drawn: None,
            found: Vec::new(),
            window: ListWindow::default(),
            page: 1,
            rows: RowItems::default(),
        }
    }

    /// Handles a key. [`PanelAct::Chosen`] has the index of an item of the last drawing.
    pub fn key(&mut self, key: KeyEvent) -> PanelAct {
        match key.code {
            KeyCode::Enter => return self.selected.map_or(PanelAct::None, PanelAct::Chosen),
            KeyCode::Esc if self.query.is_empty() => return PanelAct::Close,
            KeyCode::Esc => {
                self.query.clear();
                return PanelAct::Redraw;
            }
            _ => {}
        }
        if let Some(movement) = Movement::of(key) {
            let at = self.position();
            let moved = movement.applied(at, self.found.len(), self.page);
            (self.selected, self.drawn) = (self.found.get(moved).copied(), None);
            return if moved == at { PanelAct::None } else { PanelAct::Redraw };
        }
        if self.query.key(key) {
            (self.selected, self.drawn) = (None, None);
            return PanelAct::Redraw;
        }
        PanelAct::None
    }

    /// Selects the item at which the user clicks.
    pub fn click(&mut self, place: Position) {
        if let Some(index) = self.rows.at(place) {
            (self.selected, self.drawn) = (Some(*index), None);
        }
    }

    /// Draws the list.
    pub fn draw(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        items: &[PickerItem],
        theme: &Theme,
        is_focused: bool,
    ) {
        self.look_up(items);
        let title = format!("{} ({} of {}) ", self.title, self.found.len(), items.len());
        let title = Line::styled(title, theme.heading);
        let area = titled(frame, area, title, theme, is_focused);
        self.draw_search(frame, area, theme);
        let list = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
        if area.height < 2 {
            return;
        }
        self.page = usize::from(list.height);
        let rows = self.rows(items);
        let index = self.selected;
        let is_selected = |row: &Row<'_>| matches!(row, Row::Item(item, _) if Some(*item) == index);
        let selected = rows.iter().position(is_selected).unwrap_or(0);
        let visible = self.window.rows(rows.len(), self.page, selected);
        let label_width = label_width(&rows, usize::from(list.width));
        for (at, row) in rows.iter().skip(visible.start).take(visible.len()).enumerate() {
            let is_selected = is_selected(row);
            draw_line(frame, list, at, &line(row, label_width, list.width, is_selected, theme));
            if is_selected {
                mark_selected(frame, list, at, theme.selected);
            }
        }
        let drawn = rows.iter().skip(visible.start).take(visible.len()).map(|row| match row {
            Row::Heading(_) => None,
            Row::Item(index, _) => Some(*index),
        });
        self.rows = RowItems::drawn(list, drawn);
        if rows.is_empty() {
            let said = if items.is_empty() { "nothing to choose from" } else { "nothing found" };
            draw_line(frame, list, 0, &Line::styled(said, theme.dim));
        }
    }

    fn draw_search(&self, frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
        let line = match self.query.is_empty() {
            true => Line::styled("type to search, Enter chooses, Esc leaves", theme.dim),
            false => Line::from(vec![
                Span::styled("search: ", theme.dim),
                Span::styled(cut(self.query.text(), usize::from(area.width)), theme.text),
                Span::styled("_", theme.accent),
            ]),
        };
        draw_line(frame, area, 0, &line);
    }

    /// Searches the items. The same item stays selected if the list changed, else the first found
    /// one is selected.
    fn look_up(&mut self, items: &[PickerItem]) {
        let found = items.iter().enumerate().filter(|(_, item)| self.query.finds(*item));
        self.found = found.map(|(index, _)| index).collect();
        let index = match (self.selected, &self.drawn) {
            (Some(index), Some(drawn)) if items.get(index) != Some(drawn) => {
                items.iter().position(|item| item == drawn)
            }
            (index, _) => index,
        };
        let index = index.filter(|index| self.found.binary_search(index).is_ok());
        self.selected = index.or(self.found.first().copied());
        self.drawn = self.selected.and_then(|index| items.get(index).cloned());
    }

    /// Returns the position of the selected item among the found ones.
    fn position(&self) -> usize {
        let index = self.selected.unwrap_or(0);
        self.found.binary_search(&index).unwrap_or(0)
    }

    fn rows<'a>(&self, items: &'a [PickerItem]) -> Vec<Row<'a>> {
        let mut rows = Vec::new();
        let mut group = None;
        for index in &self.found {
            let Some(item) = items.get(*index) else { continue };
            if !item.group.is_empty() && group != Some(&item.group) {
                rows.push(Row::Heading(&item.group));
            }
            group = Some(&item.group);
            rows.push(Row::Item(*index, item));
        }
        rows
    }
}

/// Returns the width of the first column: that of the longest label, within its limit.
fn label_width(rows: &[Row<'_>], width: usize) -> usize {
    let width_of = |row: &Row<'_>| match row {
        Row::Heading(_) => 0,
        Row::Item(_, item) => width_of(&item.label),
    };
    let longest = rows.iter().map(width_of).max().unwrap_or(0);
    longest.min((width / LABEL_PART).max(12))
}

fn line(
    row: &Row<'_>,
    label_width: usize,
    width: u16,
    is_selected: bool,
    theme: &Theme,
) -> Line<'static> {
    let width = usize::from(width);
    match row {
        Row::Heading(group) => Line::styled(cut(group, width), theme.heading),
        Row::Item(_, item) => {
            let rest = width.saturating_sub(MARK_WIDTH + label_width + 2);
            Line::from(vec![
                Span::styled(if is_selected { "> " } else { "  " }, theme.accent),
                Span::styled(padded(&item.label, label_width), theme.text),
                Span::styled(format!("  {}", cut(&item.detail, rest)), theme.dim),
            ])
        }
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use proptest::prelude::*;

    use super::*;
    use crate::panels::sample::{key, screen};
    use crate::theme::ThemeKind;

    fn items(list: &[(&str, &str, &str)]) -> Vec<PickerItem> {
        let item = |(group, label, detail): &(&str, &str, &str)| PickerItem {
            group: (*group).to_owned(),
            label: (*label).to_owned(),
            detail: (*detail).to_owned(),
        };
        list.iter().map(item).collect()
    }

    fn teams() -> Vec<PickerItem> {
        items(&[
            ("~/code/parser", "parser", "runs, 4 members  make the tests pass"),
            ("~/code/parser", "parser-2", "stopped, 2 of 5 tasks  write the docs"),
            ("~/code/site\u{1b}[2J", "site", "ended, $1.20  a page for the release"),
        ])
    }

    fn drawn(picker: &mut Picker, size: (u16, u16), items: &[PickerItem]) -> String {
        let theme = Theme::new(ThemeKind::Dark);
        screen(size, |frame, area| picker.draw(frame, area, items, &theme, true))
    }

    fn typed(picker: &mut Picker, text: &str) {
        for c in text.chars() {
            picker.key(key(KeyCode::Char(c)));
        }
    }

    #[test]
    fn a_list_is_grouped_and_searched() {
        let mut picker = Picker::new("resume");
        assert_snapshot!(drawn(&mut picker, (60, 12), &teams()), @"
        resume (3 of 3) ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
        type to search, Enter chooses, Esc leaves
        ~/code/parser
        > parser    runs, 4 members  make the tests pass
          parser-2  stopped, 2 of 5 tasks  write the docs
        ~/code/site�[2J
          site      ended, $1.20  a page for the release
        ");
        typed(&mut picker, "RELEASE");
        assert_snapshot!(drawn(&mut picker, (60, 12), &teams()), @"
        resume (1 of 3) ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
        search: RELEASE_
        ~/code/site�[2J
        > site  ended, $1.20  a page for the release
        ");
        assert_eq!(picker.key(key(KeyCode::Enter)), PanelAct::Chosen(2));
        assert_eq!(picker.key(key(KeyCode::Esc)), PanelAct::Redraw);
        drawn(&mut picker, (60, 12), &teams());
        assert_eq!(picker.key(key(KeyCode::Esc)), PanelAct::Close);
    }

    #[test]
    fn the_same_item_stays_selected_when_the_list_changes() {
        let (mut picker, mut list) = (Picker::new("attach"), teams());
        drawn(&mut picker, (60, 12), &list);
        picker.key(key(KeyCode::Down));
        drawn(&mut picker, (60, 12), &list);
        list.remove(0);
        drawn(&mut picker, (60, 12), &list);
        assert_eq!(picker.key(key(KeyCode::Enter)), PanelAct::Chosen(0));
        list.remove(0);
        drawn(&mut picker, (60, 12), &list);
        assert_eq!(picker.key(key(KeyCode::Enter)), PanelAct::Chosen(0), "the first one now");
        assert!(drawn(&mut picker, (60, 12), &[]).contains("nothing to choose from"));
        assert_eq!(picker.key(key(KeyCode::Enter)), PanelAct::None);
    }

    #[test]
    fn a_search_that_was_not_drawn_yet_chooses_nothing() {
        let mut picker = Picker::new("resume");
        drawn(&mut picker, (60, 12), &teams());
        typed(&mut picker, "site");
        assert_eq!(picker.key(key(KeyCode::Enter)), PanelAct::None);
    }

    proptest! {
        #[test]
        fn the_chosen_item_is_the_marked_one_and_was_found(
            labels in prop::collection::vec("[a-c]{1,4}", 0..30),
            search in "[a-c]{0,2}",
            moves in prop::collection::vec(0..6_usize, 0..20),
            height in 3..12_u16,
        ) {
            let items: Vec<PickerItem> = labels
                .iter()
                .enumerate()
                .map(|(n, label)| PickerItem {
                    group: format!("group {}", n / 4),
                    label: format!("{label}.{n}"),
                    detail: String::new(),
                })
                .collect();
            let mut picker = Picker::new("resume");
            typed(&mut picker, &search);
            drawn(&mut picker, (40, height), &items);
            let codes = [
                KeyCode::Up, KeyCode::Down, KeyCode::PageUp, KeyCode::PageDown, KeyCode::Home,
                KeyCode::End,
            ];
            for at in moves {
                picker.key(key(codes[at]));
            }
            let shown = drawn(&mut picker, (40, height), &items);
            let marked = shown.lines().find_map(|line| line.strip_prefix("> "));
            match picker.key(key(KeyCode::Enter)) {
                PanelAct::Chosen(index) => {
                    prop_assert_eq!(marked.map(str::trim), Some(items[index].label.as_str()));
                    prop_assert!(items[index].label.contains(&search));
                }
                _ => prop_assert!(!labels.iter().any(|label| label.contains(&search))),
            }
        }
    }
}
