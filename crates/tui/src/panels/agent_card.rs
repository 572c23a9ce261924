//! The card of an agent: its state, type, model, mode, task and tokens.

use pitcrew_protocol::counted;
use pitcrew_view::AgentState;
use pitcrew_view::text::in_one_line;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::cell::cut;
use super::{draw_line, titled};
use crate::theme::Theme;

/// The number of rows of a card, with its title.
pub const HEIGHT: u16 = 7;

/// The width of the names of the fields.
const NAME_WIDTH: usize = 7;

/// Draws the card of an agent.
pub fn draw(frame: &mut Frame<'_>, area: Rect, agent: &AgentState, theme: &Theme) {
    let title = Line::styled(format!("{} ", agent.name), theme.agent(agent.color));
    let area = titled(frame, area, title, theme, false);
    for (row, line) in lines(agent, usize::from(area.width), theme).iter().enumerate() {
        draw_line(frame, area, row, line);
    }
}

fn lines(agent: &AgentState, width: usize, theme: &Theme) -> Vec<Line<'static>> {
    let field = |name: &'static str, text: Option<&str>, style: Style| {
        let text = cut(text.unwrap_or("-"), width.saturating_sub(NAME_WIDTH));
        Line::from(vec![
            Span::styled(format!("{name:<NAME_WIDTH$}"), theme.dim),
            Span::styled(text, style),
        ])
    };
    let state = match &agent.reason {
        Some(reason) => format!("{}: {reason}", agent.now()),
        None => agent.now(),
    };
    let color = agent.color.map(|color| color.as_str());
    let kind: Vec<&str> = [agent.agent_type.as_deref(), color].into_iter().flatten().collect();
    let kind = Some(kind.join(", ")).filter(|kind| !kind.is_empty());
    let task = agent.task.as_ref().map(|task| format!("#{} {}", task.id, task.subject));
    vec![
        field("state", Some(&state), theme.text),
        field("type", kind.as_deref(), theme.agent(agent.color)),
        field("model", agent.model.as_deref().filter(|model| !model.is_empty()), theme.text),
        field("mode", agent.mode.as_deref(), theme.text),
        field("task", task.as_deref(), theme.text),
        field("used", Some(&used(agent)), theme.text),
    ]
}

/// Describes the work of an agent in numbers.
fn used(agent: &AgentState) -> String {
    let tokens = agent.tokens().map(|tokens| format!("{tokens} tokens"));
    let turns = (agent.turns > 0).then(|| counted(agent.turns, "turn"));
    let calls = (agent.tool_calls > 0).then(|| counted(agent.tool_calls, "call"));
    let parts = [tokens, agent.cost(), turns, calls].into_iter().flatten();
    let used = parts.collect::<Vec<_>>().join(", ");
    if used.is_empty() { "nothing is known".to_owned() } else { in_one_line(&used) }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use pitcrew_protocol::{Color, Status};

    use super::*;
    use crate::panels::sample::{agent, screen, team};
    use crate::theme::ThemeKind;

    fn drawn(agent: &AgentState, width: u16) -> String {
        let theme = Theme::new(ThemeKind::Dark);
        screen((width, HEIGHT), |frame, area| draw(frame, area, agent, &theme))
    }

    #[test]
    fn a_card_names_type_color_and_model_of_an_agent() {
        let mut card = agent("expert", Some(Color::Blue), Status::ShutdownRequested);
        card.agent_type = Some("general-purpose".to_owned());
        card.model = Some("claude-opus-4-6".to_owned());
        card.mode = Some("plan".to_owned());
        assert_snapshot!(drawn(&card, 44), @r"
        expert ─────────────────────────────────────
        state  shutting down
        type   general-purpose, blue
        model  claude-opus-4-6
        mode   plan
        task   -
        used   nothing is known
        ");
        let lead = &team().agents[0];
        assert_snapshot!(drawn(lead, 20), @r"
        team-lead ──────────
        state  thinks
        type   -
        model  claude-opus-…
        mode   -
        task   -
        used   23.4k tokens…
        ");
    }
}
