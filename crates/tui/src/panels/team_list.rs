//! The list of the agents of a team, with what each of them does. Agents that need input come first.

mod order;
mod row;

use crossterm::event::{KeyCode, KeyEvent};
use pitcrew_protocol::AgentName;
use pitcrew_view::TeamState;
use pitcrew_view::host::OpenQuestion;
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;

use super::cell::cut;
use super::scroll::ListWindow;
use super::{Movement, PanelAct, RowItems, draw_line, letter, mark_selected, titled};
use crate::theme::Theme;
use order::{Group, Placed, in_order};
use row::Columns;

/// The least height at which the list shows its keys.
const HEIGHT_WITH_KEYS: u16 = 6;

/// The list of the agents.
#[derive(Clone, Debug, Default)]
pub struct TeamList {
    selected: Option<AgentName>,
    /// The agents in the order of the last drawing.
    drawn: Vec<AgentName>,
    window: ListWindow,
    page: usize,
    /// Whether no message can be sent and no pane opened.
    is_read_only: bool,
    rows: RowItems<AgentName>,
}

/// A row of the list.
enum Row<'a> {
    Heading(Group, usize),
    Agent(&'a Placed<'a>),
}

impl TeamList {
    /// Returns a list without a selected agent. The first drawing selects the first agent.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a list for an interface that only displays a team.
    #[must_use]
    pub fn read_only() -> Self {
        Self { is_read_only: true, ..Self::default() }
    }

    /// Returns the selected agent.
    #[must_use]
    pub fn selected(&self) -> Option<&AgentName> {
        self.selected.as_ref()
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) -> PanelAct {
        if let Some(movement) = Movement::of_any(key) {
            let at = self.position().unwrap_or(0);
            let moved = movement.applied(at, self.drawn.len(), self.page);
            self.selected = self.drawn.get(moved).cloned();
            return if moved == at { PanelAct::None } else { PanelAct::Redraw };
        }
        let act: fn(AgentName) -> PanelAct = match (key.code, letter(key)) {
            (KeyCode::Esc, _) => return PanelAct::Close,
            (KeyCode::Enter, _) => PanelAct::Peek,
            (_, Some('o')) if !self.is_read_only => PanelAct::OpenPane,
            (_, Some('m')) if !self.is_read_only => PanelAct::Message,
            (_, Some(_) | None) => return PanelAct::None,
        };
        self.selected.clone().map_or(PanelAct::None, act)
    }

    /// Selects the agent at which the user clicks.
    pub fn click(&mut self, place: Position) {
        if let Some(agent) = self.rows.at(place) {
            self.selected = Some(agent.clone());
        }
    }

    /// Draws the list.
    pub fn draw(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        state: &TeamState,
        questions: &[OpenQuestion],
        theme: &Theme,
        is_focused: bool,
    ) {
        let placed = in_order(state, questions);
        self.drawn = placed.iter().map(|placed| placed.agent.name.clone()).collect();
        if self.position().is_none() {
            self.selected = self.drawn.first().cloned();
        }
        let title = Line::styled(title(&placed, usize::from(area.width)), theme.heading);
        let mut list = titled(frame, area, title, theme, is_focused);
        if is_focused && area.height >= HEIGHT_WITH_KEYS {
            list.height = list.height.saturating_sub(1);
            let keys = match self.is_read_only {
                true => "Enter: conversation",
                false => "Enter: conversation  m: message  o: pane",
            };
            let line = Line::styled(cut(keys, usize::from(area.width)), theme.dim);
            draw_line(frame, Rect { height: area.height, ..list }, usize::from(list.height), &line);
        }
        self.page = usize::from(list.height);
        let rows = rows(&placed);
        let selected = rows.iter().position(|row| self.is_selected(row)).unwrap_or(0);
        let visible = self.window.rows(rows.len(), self.page, selected);
        let columns = Columns::of(list.width, &placed);
        for (at, row) in rows.iter().skip(visible.start).take(visible.len()).enumerate() {
            let line = match row {
                Row::Heading(group, count) => columns.heading(*group, *count, theme),
                Row::Agent(placed) => columns.agent(placed, theme),
            };
            draw_line(frame, list, at, &line);
            if is_focused && self.is_selected(row) {
                mark_selected(frame, list, at, theme.selected);
            }
        }
        let drawn = rows.iter().skip(visible.start).take(visible.len()).map(|row| match row {
            Row::Heading(..) => None,
            Row::Agent(placed) => Some(placed.agent.name.clone()),
        });
        self.rows = RowItems::drawn(list, drawn);
        if rows.is_empty() {
            draw_line(frame, list, 0, &Line::styled("no agents yet", theme.dim));
        }
    }

    fn position(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.drawn.iter().position(|name| name == selected)
    }

    fn is_selected(&self, row: &Row<'_>) -> bool {
        match row {
            Row::Heading(..) => false,
            Row::Agent(placed) => Some(&placed.agent.name) == self.selected.as_ref(),
        }
    }
}

fn count(placed: &[Placed<'_>], group: Group) -> usize {
    placed.iter().filter(|placed| placed.group == group).count()
}

/// Returns the title, with the number of agents in each group.
fn title(placed: &[Placed<'_>], width: usize) -> String {
    let mut title = "team".to_owned();
    for group in Group::ALL {
        match count(placed, group) {
            0 => {}
            some => title.push_str(&format!("  {some} {}", group.heading())),
        }
    }
    cut(&title, width.saturating_sub(1)) + " "
}

/// Returns the rows: a heading and the agents of each group that has any.
fn rows<'a>(placed: &'a [Placed<'a>]) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    let mut group = None;
    for placed_agent in placed {
        if group.replace(placed_agent.group) != Some(placed_agent.group) {
            rows.push(Row::Heading(placed_agent.group, count(placed, placed_agent.group)));
        }
        rows.push(Row::Agent(placed_agent));
    }
    rows
}

#[cfg(test)]
mod tests;
