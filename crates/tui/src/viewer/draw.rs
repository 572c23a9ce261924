//! Lays out the screen, from top to bottom: the header, the latest message to the whole team, the
//! conversation or a panel, what went wrong, and the status line. On a wide terminal, a panel is
//! beside the conversation.

use pitcrew_view::client_stream::LinesRead;
use pitcrew_view::state::Cleanup;
use pitcrew_view::text::in_one_line;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph};

use super::{End, Feed, Focus, Viewer};
use crate::app::status::counts;
use crate::panels::agent_card;
use crate::panels::cell::{cut, width_of};
use crate::render::wrap;

/// The width from which on a panel is beside the conversation.
const WIDE: u16 = 110;

/// The width of a panel beside the conversation.
const PANEL_WIDTH: u16 = 44;

/// The maximum number of rows of an error or a notice.
const TOLD_ROWS: usize = 3;

/// The least number of rows of the list of agents that has a card below it.
const LIST_ROWS: u16 = 6;

/// The least number of rows of a summary below the card of an agent.
const SUMMARY_ROWS: u16 = 6;

/// The keys, each with its meaning.
const KEYS: &[(&str, &str)] = &[
    ("Tab, Shift-Tab, 1 to 5", "team, conversation, tasks, timeline, session"),
    ("Ctrl-T, Ctrl-K, Ctrl-L", "team, tasks, timeline; again: the conversation"),
    ("Up, Down, j, k", "scroll, or select; PageUp, PageDown, Home, End too"),
    ("Enter", "the agent's conversation, or the task's details"),
    ("f, /, o", "timeline: a kind of entries, a search, whole texts"),
    ("Ctrl-O", "long outputs whole, or their beginnings"),
    ("Esc", "back to the team"),
    ("Ctrl-Z", "suspend"),
    ("q, Ctrl-C", "leave"),
];

impl Viewer {
    /// Draws the whole screen.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        self.follow_conversation();
        let whole = frame.area();
        let told = self.told_lines(whole.width);
        let rows = [
            Constraint::Length(1),
            Constraint::Length(u16::from(self.broadcast.is_some())),
            Constraint::Min(0),
            Constraint::Length(u16::try_from(told.len()).unwrap_or(u16::MAX)),
            Constraint::Length(1),
            Constraint::Length(1),
        ];
        let [header, banner, main, below, edge, status] = Layout::vertical(rows).areas(whole);
        self.draw_header(frame, header);
        self.draw_banner(frame, banner);
        self.draw_main(frame, main);
        frame.render_widget(Paragraph::new(told), below);
        let title = match self.talk.scroll().is_at_end() || self.focus != Focus::Conversation {
            true => " read-only: it sends no messages and no answers ",
            false => " read-only; more below: PageDown ",
        };
        let line = Block::new().borders(Borders::TOP).border_style(self.theme.dim).title(title);
        frame.render_widget(line, edge);
        self.draw_status(frame, status);
    }

    fn draw_header(&self, frame: &mut Frame<'_>, area: Rect) {
        let name = match self.state.team.as_str() {
            "" => "no team",
            name => name,
        };
        let mut spans = vec![
            Span::styled(" pitcrew ", self.theme.accent),
            Span::styled(in_one_line(name), self.theme.heading),
        ];
        let counts = counts(&self.state, |_| false);
        if !counts.is_empty() {
            spans.push(Span::styled(format!("  {counts}"), self.theme.dim));
        }
        match &self.state.cleanup {
            Some(Cleanup::CleanedUp) => spans.push(Span::styled("  cleaned_up", self.theme.text)),
            Some(Cleanup::Failed(_)) => {
                spans.push(Span::styled("  not cleaned up", self.theme.error));
            }
            None => {}
        }
        if let Some(session) = &self.state.session {
            let style = if session.is_error { self.theme.error } else { self.theme.dim };
            let outcome = in_one_line(&session.outcome.replace('_', " "));
            spans.push(Span::styled(format!("  ended: {outcome}"), style));
        }
        frame.render_widget(Paragraph::new(Line::from(spans)), area);
    }

    fn draw_banner(&self, frame: &mut Frame<'_>, area: Rect) {
        if let Some(text) = &self.broadcast {
            let text = cut(text, usize::from(area.width).saturating_sub(2));
            frame.render_widget(Line::styled(format!(" {text}"), self.theme.warning), area);
        }
    }

    /// Draws the conversation, the panel with the focus, or both beside each other.
    fn draw_main(&mut self, frame: &mut Frame<'_>, area: Rect) {
        if self.focus == Focus::Help {
            return self.draw_help(frame, area);
        }
        if area.width >= WIDE {
            let columns =
                [Constraint::Min(0), Constraint::Length(1), Constraint::Length(PANEL_WIDTH)];
            let [left, _gap, right] = Layout::horizontal(columns).areas(area);
            self.draw_conversation(frame, left);
            self.draw_panel(frame, right);
        } else if self.focus == Focus::Conversation {
            self.draw_conversation(frame, area);
        } else {
            self.draw_panel(frame, area);
        }
    }

    fn draw_help(&self, frame: &mut Frame<'_>, area: Rect) {
        let row = |(keys, about): &(&'static str, &'static str)| {
            Line::from(vec![
                Span::styled(format!(" {keys:<23} "), self.theme.accent),
                Span::raw(*about),
            ])
        };
        let lines: Vec<Line<'_>> = KEYS.iter().map(row).collect();
        frame.render_widget(Paragraph::new(lines), area);
    }

    fn draw_conversation(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let is_focused = self.focus == Focus::Conversation;
        let style = if is_focused { self.theme.accent } else { self.theme.dim };
        let title = format!(" {} ", self.shown.agent);
        let block = Block::new().borders(Borders::TOP).border_style(style).title(title);
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let lines = self.talk.lines(inner.width, usize::from(inner.height), &self.theme);
        if lines.is_empty() {
            frame.render_widget(Paragraph::new(self.nothing_told(inner.width)), inner);
        } else {
            frame.render_widget(Paragraph::new(lines), inner);
        }
    }

    /// The text in place of an empty conversation.
    fn nothing_told(&self, width: u16) -> Vec<Line<'static>> {
        let text = match &self.feed {
            Feed::Stream(_, End::NotYet) => "Nothing of this conversation has come yet.",
            Feed::Stream(..) => {
                "The stream has nothing of this conversation. It has the turns of the lead and its \
                 subagents, and the prompts and the mail of teammates."
            }
            Feed::Records => "No conversation is recorded.",
        };
        wrap(text, width, self.theme.dim)
    }

    fn draw_panel(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let (state, theme) = (&self.state, &self.theme);
        match self.focus {
            Focus::Team | Focus::Conversation | Focus::Help => self.draw_team(frame, area),
            Focus::Tasks => self.task_board.draw(frame, area, &state.tasks, theme, true),
            Focus::Timeline => self.timeline.draw(frame, area, state, theme, true),
            Focus::Summary => self.summary.draw(frame, area, state, theme, true),
        }
    }

    /// Draws the list of the agents, the card of the selected one, and the summary of the session.
    fn draw_team(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let (state, theme) = (&self.state, &self.theme);
        let room = area.height.saturating_sub(LIST_ROWS);
        let card = if room >= agent_card::HEIGHT { agent_card::HEIGHT } else { 0 };
        // A row for each agent, each group, the title and the keys.
        let rows = u16::try_from(state.agents.len()).unwrap_or(u16::MAX).saturating_add(6);
        let left = area.height.saturating_sub(card).saturating_sub(rows);
        let has_summary = state.session.is_some() && left >= SUMMARY_ROWS;
        let parts = [
            Constraint::Min(0),
            Constraint::Length(card),
            Constraint::Length(if has_summary { left } else { 0 }),
        ];
        let [list, below, summary] = Layout::vertical(parts).areas(area);
        self.team_list.draw(frame, list, state, &[], theme, self.focus == Focus::Team);
        let selected = self.team_list.selected().and_then(|name| state.agent(name));
        if let Some(agent) = selected.filter(|_| card > 0) {
            agent_card::draw(frame, below, agent, theme);
        }
        if has_summary {
            self.summary.draw(frame, summary, state, theme, false);
        }
    }

    /// The error of the team's end, and the answer to the latest key.
    fn told_lines(&self, width: u16) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        if let Some(Cleanup::Failed(reason)) = &self.state.cleanup {
            let text = format!("team not cleaned up: {}", in_one_line(reason));
            lines.extend(wrap(&text, width, self.theme.error).into_iter().take(TOLD_ROWS));
        }
        if let Some(notice) = &self.notice {
            let notice = wrap(&in_one_line(notice), width, self.theme.dim);
            lines.extend(notice.into_iter().take(TOLD_ROWS));
        }
        lines
    }

    fn draw_status(&self, frame: &mut Frame<'_>, area: Rect) {
        let right = "?: keys  q: leaves ";
        let room = usize::from(area.width).saturating_sub(right.len() + 2);
        let read = self.lines_read().map_or_else(|| "recorded".to_owned(), in_words);
        let known = format!("{read}{}", self.end_in_words());
        // The numbers stay when a long name is cut.
        let source = cut(&self.source, room.saturating_sub(width_of(&known) + 2));
        let left = cut(&format!("{source}  {known}"), room);
        let gap = " ".repeat(room.saturating_sub(width_of(&left)) + 1);
        frame.render_widget(Line::styled(format!(" {left}{gap}{right}"), self.theme.dim), area);
    }

    fn end_in_words(&self) -> String {
        let Feed::Stream(stream, end) = &self.feed else { return String::new() };
        let text = match end {
            End::NotYet | End::BegunAgain => "more can come",
            End::ForNow if stream.has_begun_line() => "the last line is not whole yet",
            End::ForNow => "more can come",
            End::Reached => "the stream has ended",
            End::Broken(reason) => return format!("; {}", in_one_line(reason)),
        };
        format!("; {text}")
    }
}

/// Describes how many lines were read, and how many of them could not be used.
fn in_words(read: LinesRead) -> String {
    let LinesRead { lines, unknown, unreadable, too_long, cut } = read;
    let noun = if lines == 1 { "line" } else { "lines" };
    let unused = [
        (unknown, "unknown"),
        (unreadable, "unreadable"),
        (too_long, "too long"),
        (cut, "incomplete"),
    ];
    let unused = unused.into_iter().filter(|(count, _)| *count > 0);
    let unused: String = unused.map(|(count, what)| format!(", {count} {what}")).collect();
    format!("{lines} {noun}{unused}")
}
