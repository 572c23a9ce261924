//! A row of the team list. Columns are left out where the list is narrow.

use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::order::{Group, Placed};
use crate::panels::cell::{cut, padded, right_aligned, width_of};
use crate::theme::Theme;

const MARK_WIDTH: usize = 2;
const TOKENS_WIDTH: usize = 7;
const COST_WIDTH: usize = 8;
const MODEL_WIDTH: usize = 18;
/// The space between two columns.
const GAP: usize = 2;

/// The least width of a list with the tokens and the cost of each agent.
const WIDTH_WITH_COST: usize = 60;
/// The least width of a list with the task of each agent.
const WIDTH_WITH_TASK: usize = 90;
/// The least width of a list with the model of each agent.
const WIDTH_WITH_MODEL: usize = 120;

/// The widths of the columns. A column that is left out has the width 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    width: usize,
    name: usize,
    now: usize,
    task: usize,
    model: usize,
    has_cost: bool,
}

impl Columns {
    pub(super) fn of(width: u16, placed: &[Placed<'_>]) -> Self {
        let width = usize::from(width);
        let longest = placed.iter().map(|it| width_of(it.agent.name.as_str())).max().unwrap_or(0);
        let name = longest.min((width / 4).max(10));
        let has_cost = width >= WIDTH_WITH_COST;
        let model = if width >= WIDTH_WITH_MODEL { MODEL_WIDTH + GAP } else { 0 };
        let cost = if has_cost { TOKENS_WIDTH + COST_WIDTH + 2 * GAP } else { 0 };
        let rest = width.saturating_sub(MARK_WIDTH + name + GAP + model + cost);
        let task = if width >= WIDTH_WITH_TASK { rest * 2 / 5 } else { 0 };
        Self { width, name, now: rest - task, task, model, has_cost }
    }

    pub(super) fn heading(self, group: Group, count: usize, theme: &Theme) -> Line<'static> {
        let style = match group {
            Group::NeedsInput => theme.warning,
            Group::Working | Group::Idle | Group::Ended => theme.dim,
        };
        let text = format!("{} ({count})", group.heading());
        Line::styled(cut(&text, self.width), style.add_modifier(Modifier::BOLD))
    }

    pub(super) fn agent(self, placed: &Placed<'_>, theme: &Theme) -> Line<'static> {
        let Placed { agent, group, now } = placed;
        let (name_style, now_style) = match group {
            Group::NeedsInput => (theme.agent(agent.color), theme.warning),
            Group::Working => (theme.agent(agent.color), theme.text),
            Group::Idle => (theme.agent(agent.color), theme.dim),
            Group::Ended => (theme.dim, theme.dim),
        };
        let mut spans = vec![
            Span::styled(group.mark(), now_style),
            Span::styled(padded(agent.name.as_str(), self.name), name_style),
            Span::raw(" ".repeat(GAP)),
            Span::styled(padded(now, self.now), now_style),
        ];
        if self.task > 0 {
            let task = agent.task.as_ref().map(|task| format!("#{} {}", task.id, task.subject));
            let task = padded(&task.unwrap_or_default(), self.task - GAP);
            spans.push(Span::styled(format!("{}{task}", " ".repeat(GAP)), theme.text));
        }
        if self.model > 0 {
            let model = padded(agent.model.as_deref().unwrap_or("-"), self.model - GAP);
            spans.push(Span::styled(format!("{}{model}", " ".repeat(GAP)), theme.dim));
        }
        if self.has_cost {
            let gap = " ".repeat(GAP);
            let known = |number: Option<String>| number.unwrap_or_else(|| "-".to_owned());
            let tokens = right_aligned(&known(agent.tokens()), TOKENS_WIDTH);
            let cost = right_aligned(&known(agent.cost()), COST_WIDTH);
            spans.push(Span::styled(format!("{gap}{tokens}{gap}{cost}"), theme.dim));
        }
        Line::from(spans)
    }
}
