//! The summary of a session or of a team's runs: how it ended, how long it took, what it cost, and
//! the tokens of each model.

use crossterm::event::KeyEvent;
use pitcrew_view::TeamState;
use pitcrew_view::state::{Cleanup, SessionSummary};
use pitcrew_view::text::in_one_line;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::cell::{cut, width_of};
use super::{Movement, PanelAct, titled};
use crate::render;
use crate::theme::Theme;

/// The summary of a session.
#[derive(Clone, Debug, Default)]
pub struct SessionSummaryView {
    /// The first visible row.
    top: usize,
    /// The number of rows of the last drawing, and of those that were visible.
    drawn: (usize, usize),
}

impl SessionSummaryView {
    /// Returns a summary at its beginning.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) -> PanelAct {
        if key.code == crossterm::event::KeyCode::Esc {
            return PanelAct::Close;
        }
        let Some(movement) = Movement::of_any(key) else { return PanelAct::None };
        let (rows, visible) = self.drawn;
        let positions = rows.saturating_sub(visible) + 1;
        self.top = movement.applied(self.top, positions, visible);
        PanelAct::Redraw
    }

    /// Draws the summary.
    pub fn draw(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        state: &TeamState,
        theme: &Theme,
        is_focused: bool,
    ) {
        let title = Line::styled("session ", theme.heading);
        let area = titled(frame, area, title, theme, is_focused);
        let lines = lines(state, area.width, theme);
        let visible = usize::from(area.height);
        self.drawn = (lines.len(), visible);
        self.top = self.top.min(lines.len().saturating_sub(visible));
        let shown: Vec<Line<'_>> = lines.into_iter().skip(self.top).take(visible).collect();
        frame.render_widget(Paragraph::new(shown), area);
    }
}

fn lines(state: &TeamState, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    match &state.cleanup {
        Some(Cleanup::CleanedUp) => lines.push(Line::styled("team cleaned_up", theme.text)),
        Some(Cleanup::Failed(reason)) => {
            let text = format!("team not cleaned up: {}", in_one_line(reason));
            lines.extend(render::wrap(&text, width, theme.error));
        }
        None => {}
    }
    match &state.session {
        Some(session) => lines.extend(of_session(session, width, theme)),
        None => lines.push(Line::styled("the session has not ended", theme.dim)),
    }
    lines
}

fn of_session(session: &SessionSummary, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let style = if session.is_error { theme.error } else { theme.heading };
    let mut lines = render::wrap(&session.line(), width, style);
    for model in &session.models {
        let cost = model.cost();
        let room = usize::from(width).saturating_sub(width_of(&cost) + 1);
        let name = cut(&model.model, room);
        let gap = usize::from(width).saturating_sub(width_of(&name) + width_of(&cost));
        lines.push(Line::from(vec![
            Span::styled(name, theme.text),
            Span::styled(format!("{}{cost}", " ".repeat(gap)), theme.text),
        ]));
        lines.extend(indented(render::wrap(&model.tokens(), width.saturating_sub(2), theme.dim)));
    }
    if !session.result.trim().is_empty() {
        lines.push(Line::default());
        lines.extend(render::markdown(&session.result, width, theme));
    }
    lines
}

fn indented(lines: Vec<Line<'static>>) -> impl Iterator<Item = Line<'static>> {
    lines.into_iter().map(|mut line| {
        line.spans.insert(0, Span::raw("  "));
        line
    })
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyCode;
    use insta::assert_snapshot;
    use pitcrew_view::state::ModelUse;

    use super::*;
    use crate::panels::sample::{key, screen};
    use crate::theme::ThemeKind;

    fn drawn(view: &mut SessionSummaryView, state: &TeamState, size: (u16, u16)) -> String {
        let theme = Theme::new(ThemeKind::Dark);
        screen(size, |frame, area| view.draw(frame, area, state, &theme, true))
    }

    fn ended() -> TeamState {
        let mut opus = ModelUse { model: "opus".to_owned(), ..ModelUse::default() };
        (opus.cost_usd, opus.usage.input_tokens) = (Some(8.4), 793);
        let mut local = ModelUse { model: "m\u{1b}[2J".repeat(20), ..ModelUse::default() };
        local.usage.output_tokens = 55_704;
        let mut state = TeamState::default();
        state.cleanup = Some(Cleanup::Failed("2 members are active.\nAsk them.".to_owned()));
        state.session = Some(SessionSummary {
            outcome: "success".to_owned(),
            result: "# Done\n\nAll *is* well.".to_owned(),
            duration_ms: Some(65_000),
            turns: Some(2),
            cost_usd: Some(8.56),
            models: vec![opus, local],
            ..SessionSummary::default()
        });
        state
    }

    #[test]
    fn a_summary_has_the_outcome_and_the_tokens_of_each_model() {
        assert_snapshot!(drawn(&mut SessionSummaryView::new(), &ended(), (44, 16)), @r"
        session ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
        team not cleaned up: 2 members are active. |
        Ask them.
        success, lasted 1 min 5 s, 2 turns, $8.56
        opus                                   $8.40
          793 in, 0 out, 0 from the cache, 0 into it
        m�[2Jm�[2Jm�[2Jm�[2Jm�[2Jm�[2Jm�[2Jm�[2Jm… -
          0 in, 55.7k out, 0 from the cache, 0 into
          it

        Done

        All is well.
        ");
    }

    #[test]
    fn a_long_summary_is_scrolled_and_stops_at_its_ends() {
        let mut view = SessionSummaryView::new();
        let first = drawn(&mut view, &ended(), (30, 5));
        assert!(first.contains("team not cleaned up"), "{first}");
        view.key(key(KeyCode::End));
        let last = drawn(&mut view, &ended(), (30, 5));
        assert!(last.contains("All is well."), "{last}");
        view.key(key(KeyCode::Down));
        assert_eq!(drawn(&mut view, &ended(), (30, 5)), last);
        view.key(key(KeyCode::Home));
        assert_eq!(drawn(&mut view, &ended(), (30, 5)), first);
        for size in [(1, 1), (2, 2), (5, 3)] {
            drawn(&mut view, &ended(), size);
        }
    }
}
