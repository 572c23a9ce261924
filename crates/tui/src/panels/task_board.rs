//! The board of the tasks: those in progress, the ready ones, those that wait for others, and the
//! completed ones. The details of a task can be opened below the list.

mod details;
mod order;
mod row;

use crossterm::event::{KeyCode, KeyEvent};
use pitcrew_protocol::{AgentName, Task, TaskId};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::text::Line;

use super::cell::cut;
use super::scroll::{ListWindow, Scroll};
use super::{Movement, PanelAct, RowItems, draw_line, letter, mark_selected, titled};
use crate::theme::Theme;
use order::{Group, Placed, in_order};
use row::Columns;

/// The least height of a list beside the details of a task.
const LIST_HEIGHT_LEAST: u16 = 4;

/// The board of the tasks.
#[derive(Clone, Debug, Default)]
pub struct TaskBoard {
    selected: Option<TaskId>,
    /// The tasks in the order of the last drawing, with their owners.
    drawn: Vec<(TaskId, Option<String>)>,
    window: ListWindow,
    page: usize,
    rows: RowItems<TaskId>,
    /// The position in the details, if they are open.
    details: Option<Scroll>,
}

/// A row of the list.
enum Row<'a> {
    Heading(Group, usize),
    Task(&'a Placed<'a>),
}

impl TaskBoard {
    /// Returns a board without a selected task. The first drawing selects the first task.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) -> PanelAct {
        if let Some(details) = &mut self.details {
            match key.code {
                KeyCode::PageUp => details.page_up(),
                KeyCode::PageDown => details.page_down(),
                KeyCode::Esc | KeyCode::Enter => self.details = None,
                _ => return self.list_key(key),
            }
            return PanelAct::Redraw;
        }
        match key.code {
            KeyCode::Esc => PanelAct::Close,
            KeyCode::Enter if self.selected.is_some() => {
                self.open_details();
                PanelAct::Redraw
            }
            _ => self.list_key(key),
        }
    }

    /// Handles a key that means the same with open and closed details.
    fn list_key(&mut self, key: KeyEvent) -> PanelAct {
        if letter(key) == Some('p') {
            return self.owner().map_or(PanelAct::None, PanelAct::Peek);
        }
        let Some(movement) = Movement::of_any(key) else { return PanelAct::None };
        let at = self.position().unwrap_or(0);
        let moved = movement.applied(at, self.drawn.len(), self.page);
        if moved == at {
            return PanelAct::None;
        }
        self.selected = self.drawn.get(moved).map(|(id, _)| id.clone());
        if self.details.is_some() {
            self.open_details();
        }
        PanelAct::Redraw
    }

    /// Selects the task at which the user clicks.
    pub fn click(&mut self, place: Position) {
        if let Some(task) = self.rows.at(place) {
            self.selected = Some(task.clone());
            if self.details.is_some() {
                self.open_details();
            }
        }
    }

    /// Draws the board.
    pub fn draw(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        tasks: &[Task],
        theme: &Theme,
        is_focused: bool,
    ) {
        let placed = in_order(tasks);
        let drawn = placed.iter().map(|it| (it.task.id.clone(), it.task.owner.clone()));
        self.drawn = drawn.collect();
        if self.position().is_none() {
            self.selected = self.drawn.first().map(|(id, _)| id.clone());
            self.details = None;
        }
        let title = Line::styled(title(&placed, usize::from(area.width)), theme.heading);
        let area = titled(frame, area, title, theme, is_focused);
        let list = self.draw_details(frame, area, tasks, &placed, theme);
        self.page = usize::from(list.height);
        let rows = rows(&placed);
        let selected = rows.iter().position(|row| self.is_selected(row)).unwrap_or(0);
        let visible = self.window.rows(rows.len(), self.page, selected);
        let columns = Columns::of(list.width, &placed);
        for (at, row) in rows.iter().skip(visible.start).take(visible.len()).enumerate() {
            let line = match row {
                Row::Heading(group, count) => columns.heading(*group, *count, theme),
                Row::Task(placed) => columns.task(placed, theme),
            };
            draw_line(frame, list, at, &line);
            if is_focused && self.is_selected(row) {
                mark_selected(frame, list, at, theme.selected);
            }
        }
        let drawn = rows.iter().skip(visible.start).take(visible.len()).map(|row| match row {
            Row::Heading(..) => None,
            Row::Task(placed) => Some(placed.task.id.clone()),
        });
        self.rows = RowItems::drawn(list, drawn);
        if rows.is_empty() {
            draw_line(frame, list, 0, &Line::styled("no tasks yet", theme.dim));
        }
    }

    /// Draws the details of the selected task if they are open. Returns the area that is left.
    fn draw_details(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        tasks: &[Task],
        placed: &[Placed<'_>],
        theme: &Theme,
    ) -> Rect {
        let selected = placed.iter().find(|it| Some(&it.task.id) == self.selected.as_ref());
        let (Some(scroll), Some(selected)) = (&mut self.details, selected) else { return area };
        let lines = details::lines(selected, tasks, area.width, theme);
        let wanted = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(1);
        let most = area.height.saturating_sub(LIST_HEIGHT_LEAST).min(area.height.div_ceil(2));
        let parts = [Constraint::Min(0), Constraint::Length(wanted.min(most))];
        let [list, below] = Layout::vertical(parts).areas(area);
        let title = format!("task #{} ", selected.task.id);
        let below = titled(frame, below, Line::styled(title, theme.heading), theme, false);
        let last = lines.len().saturating_sub(1);
        let visible = scroll.window(lines.len(), usize::from(below.height), |_| 1);
        for (at, part) in visible.iter().enumerate() {
            if let Some(line) = lines.get(last - part.item) {
                draw_line(frame, below, at, line);
            }
        }
        list
    }

    fn open_details(&mut self) {
        let mut scroll = Scroll::new();
        scroll.to_start();
        self.details = Some(scroll);
    }

    fn owner(&self) -> Option<AgentName> {
        let (_, owner) = self.drawn.get(self.position()?)?;
        AgentName::new(owner.as_deref()?).ok()
    }

    fn position(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.drawn.iter().position(|(id, _)| id == selected)
    }

    fn is_selected(&self, row: &Row<'_>) -> bool {
        match row {
            Row::Heading(..) => false,
            Row::Task(placed) => Some(&placed.task.id) == self.selected.as_ref(),
        }
    }
}

fn count(placed: &[Placed<'_>], group: Group) -> usize {
    placed.iter().filter(|placed| placed.group == group).count()
}

/// Returns the title, with the number of completed tasks.
fn title(placed: &[Placed<'_>], width: usize) -> String {
    let done = count(placed, Group::Completed);
    cut(&format!("tasks  {done} of {} completed", placed.len()), width.saturating_sub(1)) + " "
}

/// Returns the rows: a heading and the tasks of each group that has any.
fn rows<'a>(placed: &'a [Placed<'a>]) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    let mut group = None;
    for placed_task in placed {
        if group.replace(placed_task.group) != Some(placed_task.group) {
            rows.push(Row::Heading(placed_task.group, count(placed, placed_task.group)));
        }
        rows.push(Row::Task(placed_task));
    }
    rows
}

#[cfg(test)]
mod tests;
