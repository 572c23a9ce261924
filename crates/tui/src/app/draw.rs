//! Lays out the screen, from top to bottom: the header, the conversation or a panel, the waiting
//! messages, the permission request, the notice, the composer and the status line. On a wide
//! terminal, a panel is beside the conversation.

use pitcrew_protocol::AgentName;
use pitcrew_view::text::in_one_line;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Borders, Paragraph};
use unicode_width::UnicodeWidthStr as _;

use super::status::{about, counts, ending, stopping};
use super::{App, CanStart, Focus, Leaving, Places, Stage};
use crate::question::Extent;
use crate::render::wrap;

/// The width from which on a panel is beside the conversation.
const WIDE: u16 = 110;

/// The width of a panel beside the conversation.
const PANEL_WIDTH: u16 = 44;

/// The least number of rows of the conversation.
const CONVERSATION_ROWS: u16 = 3;

/// The maximum number of rows of a notice.
const NOTICE_ROWS: usize = 5;

/// The maximum number of rows of waiting messages.
const QUEUED_MOST: usize = 3;

impl App {
    /// Draws the whole screen.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let whole = frame.area();
        let queued = self.queued_lines();
        let notice = self.notice_lines(whole.width);
        let composer = self.composer.height(whole.width);
        let fixed = 3 + count(&queued) + count(&notice) + composer;
        let room = whole.height.saturating_sub(fixed + CONVERSATION_ROWS);
        self.question.set_extent(self.extent());
        let question = match self.questions.is_empty() {
            true => 0,
            false => self.question.height(whole.width, room).min(room),
        };
        let rows = [
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(count(&queued)),
            Constraint::Length(question),
            Constraint::Length(count(&notice)),
            Constraint::Length(1),
            Constraint::Length(composer),
            Constraint::Length(1),
        ];
        let [header, main, waiting, asked, told, edge, typed, status] =
            Layout::vertical(rows).areas(whole);
        self.draw_header(frame, header);
        self.places = Places { question: asked, ..Places::default() };
        self.draw_main(frame, main);
        frame.render_widget(Paragraph::new(queued), waiting);
        if question > 0 {
            self.question.draw(frame, asked, &self.theme);
        }
        self.end_unread_notice();
        let notice = if self.notice.is_some() { notice } else { Vec::new() };
        frame.render_widget(Paragraph::new(notice), told);
        self.draw_edge(frame, edge);
        let hint = self.hint();
        let is_typing = self.focus == Focus::Conversation || self.writing.is_some();
        let is_asked = self.leaving == Leaving::Asked || self.choosing.is_some();
        let has_focus = is_typing && !is_asked;
        self.composer.draw(frame, typed, &self.theme, (&hint, has_focus));
        self.composer.draw_completions(frame, edge.y, &self.theme);
        self.draw_status(frame, status);
    }

    /// Returns the part of the permission request that the user can see.
    fn extent(&self) -> Extent {
        if self.page.is_some() && self.focus == Focus::Conversation {
            Extent::Heading
        } else if self.composer.has_completions() {
            Extent::Covered
        } else {
            Extent::Whole
        }
    }

    /// Takes back the notice that a part was not on the screen yet, once all of it was. Its rows are
    /// free from the next drawing on.
    fn end_unread_notice(&mut self) {
        let is_unread = match &self.page {
            Some(page) => page.unseen_rows() > 0,
            None => self.question.is_unread(),
        };
        if self.tells_unread && !is_unread {
            (self.notice, self.tells_unread) = (None, false);
        }
    }

    fn draw_header(&self, frame: &mut Frame<'_>, area: Rect) {
        let name = match &self.team {
            Some(_) => self.team_name(),
            None => match &self.completed {
                Some(completed) => in_one_line(&completed.name),
                None => "new team".to_owned(),
            },
        };
        let mut spans = vec![
            Span::styled(" pitcrew ", self.theme.accent),
            Span::styled(name, self.theme.heading),
        ];
        let asks =
            |name: &AgentName| self.questions.iter().any(|open| open.question.asker == *name);
        let counts = counts(&self.state, asks);
        if !counts.is_empty() {
            spans.push(Span::styled(format!("  {counts}"), self.theme.dim));
        }
        let asked = self.questions.len();
        if asked > 0 {
            spans.push(Span::styled(format!("  {asked} waiting for you"), self.theme.warning));
        }
        match self.stage {
            Stage::NoHost if self.team.is_some() => {
                spans.push(Span::styled("  no process runs it", self.theme.error));
            }
            Stage::Over(_) => spans.push(Span::styled("  ended", self.theme.dim)),
            Stage::Goal | Stage::Starting(_) | Stage::Running | Stage::NoHost => {}
        }
        frame.render_widget(Paragraph::new(Line::from(spans)), area);
    }

    /// Draws the conversation, the panel with the focus, or both beside each other.
    fn draw_main(&mut self, frame: &mut Frame<'_>, area: Rect) {
        if let Some(choosing) = &mut self.choosing {
            choosing.picker.draw(frame, area, &choosing.items, &self.theme, true);
            return;
        }
        // Code is wide, so the review has the whole width.
        if self.focus == Focus::Review {
            self.review.draw(frame, area, &self.theme);
            return;
        }
        let has_team = self.state.agents.len() > 1;
        let is_wide = area.width >= WIDE && (has_team || self.focus != Focus::Conversation);
        if is_wide {
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

    fn draw_conversation(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let theme = self.theme.clone();
        self.places.conversation = area;
        if let Some(page) = &mut self.page {
            page.draw(frame, area, &theme);
            // A list of completions covers rows of the page.
            if !self.composer.has_completions() {
                page.saw();
            }
            return;
        }
        let area = match &self.peeked {
            None => area,
            Some(peeked) => {
                let title = format!(" {}: Esc goes back to the lead ", peeked.agent());
                let block =
                    Block::new().borders(Borders::TOP).border_style(theme.accent).title(title);
                let inner = block.inner(area);
                frame.render_widget(block, area);
                inner
            }
        };
        if self.shown().is_empty() {
            // It is where a conversation begins: above the composer.
            let lines = wrap(&self.greeting(), area.width, self.theme.dim);
            let height = count(&lines).min(area.height);
            let last = Rect { y: area.bottom() - height, height, ..area };
            frame.render_widget(Paragraph::new(lines), last);
            return;
        }
        let lines = self.shown().view().lines(area.width, usize::from(area.height), &theme);
        // A short conversation is above the composer, not at the top of the screen.
        let free = area.height.saturating_sub(count(&lines));
        let area = Rect { y: area.y + free, height: area.height - free, ..area };
        frame.render_widget(Paragraph::new(lines), area);
    }

    /// The text in place of an empty conversation.
    fn greeting(&self) -> String {
        if let Some(completed) = self.completed_here() {
            let place = if completed.is_archived { " and in the archive" } else { "" };
            return format!(
                "Team {} is completed{place}.\nA message continues it, Enter shows what it did, /new begins another team.",
                in_one_line(&completed.name)
            );
        }
        let text = match self.stage {
            Stage::Goal => "What shall the team do? /help shows keys and commands.",
            Stage::Starting(_) => "The team is being started.",
            Stage::Running | Stage::NoHost | Stage::Over(_) => "No conversation is recorded yet.",
        };
        text.to_owned()
    }

    fn draw_panel(&mut self, frame: &mut Frame<'_>, area: Rect) {
        self.places.panel = area;
        let (state, theme) = (&self.state, &self.theme);
        let questions = self.questions.make_contiguous();
        match self.focus {
            Focus::Team => self.team_list.draw(frame, area, state, questions, theme, true),
            Focus::Conversation | Focus::Review => {
                self.team_list.draw(frame, area, state, questions, theme, false);
            }
            Focus::Tasks => self.task_board.draw(frame, area, &state.tasks, theme, true),
            Focus::Timeline => self.timeline.draw(frame, area, state, theme, true),
        }
    }

    /// Returns the messages to the shown agent that it has not read yet.
    fn queued_lines(&self) -> Vec<Line<'static>> {
        let waiting: Vec<_> =
            self.queued.iter().filter(|queued| queued.to == *self.receiver()).collect();
        let left_out = waiting.len().saturating_sub(QUEUED_MOST);
        let line = |text: &str| {
            Line::styled(format!("waits to be read: {}", in_one_line(text)), self.theme.dim)
        };
        waiting.into_iter().skip(left_out).map(|queued| line(&queued.text)).collect()
    }

    fn notice_lines(&self, width: u16) -> Vec<Line<'static>> {
        let Some(notice) = &self.notice else { return Vec::new() };
        let style = if notice.is_problem { self.theme.error } else { self.theme.dim };
        let mut lines = wrap(&in_one_line(&notice.text), width, style);
        if lines.len() > NOTICE_ROWS {
            lines.truncate(NOTICE_ROWS - 1);
            lines.push(Line::styled("…", style));
        }
        lines
    }

    fn draw_edge(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let is_away = !self.shown().view().scroll().is_at_end();
        let style = self.theme.dim;
        let mut edge =
            Block::new().borders(Borders::TOP).border_type(BorderType::Plain).border_style(style);
        if is_away {
            edge = edge.title(" more below: PageDown ");
        }
        frame.render_widget(edge, area);
    }

    /// The text in the empty composer.
    fn hint(&self) -> String {
        if let Some(question) = &self.refusing {
            let what = match question.question.is_plan() {
                true => "what must change? {} gets it",
                false => "why not? {} gets the reason",
            };
            let what = what.replace("{}", question.question.asker.as_str());
            return format!("{what}; Esc goes back");
        }
        if let Some(what) = &self.writing {
            return format!("{what}; Esc goes back");
        }
        let is_asked = self.question.is_open();
        if self.focus != Focus::Conversation && self.composer.is_empty() {
            let also = if is_asked { ", where keys answer the request" } else { "" };
            return format!("Esc goes back to the conversation{also}");
        }
        match (&self.stage, self.can_start) {
            (Stage::Goal, _) if self.completed.is_some() => "a message to team-lead".to_owned(),
            (Stage::Goal, _) => "the goal of the team".to_owned(),
            (Stage::Starting(_), _) => "the team is being started".to_owned(),
            (Stage::Over(_), CanStart::Yes) => "Enter closes; a message goes on".to_owned(),
            (Stage::Over(_), CanStart::No) => "Enter closes".to_owned(),
            (Stage::Running | Stage::NoHost, _) => {
                let first = match (is_asked && self.composer.is_empty(), &self.page) {
                    (false, _) => "",
                    (true, Some(_)) => "a blank begins ",
                    (true, None) => "keys answer the request first; a blank begins ",
                };
                format!("{first}a message to {}", self.receiver())
            }
        }
    }

    fn draw_status(&self, frame: &mut Frame<'_>, area: Rect) {
        let (text, style) = match self.leaving {
            Leaving::Asked => (self.leaving_question(), self.theme.warning),
            Leaving::Pressed => ("Ctrl-C again leaves".to_owned(), self.theme.warning),
            Leaving::Ending(until) => (ending(&self.state, until), self.theme.warning),
            Leaving::Stopping => (stopping(&self.state), self.theme.warning),
            Leaving::No => {
                let left = match self.team {
                    Some(_) => about(&self.state, self.receiver()),
                    None => String::new(),
                };
                return draw_ends(frame, area, (&left, "/help  Tab: team"), self.theme.dim);
            }
        };
        frame.render_widget(Paragraph::new(Line::styled(text, style)), area);
    }

    fn leaving_question(&self) -> String {
        format!(
            "team {} is at work: [l]eave it running, [s]top it, Esc stays here",
            self.team_name()
        )
    }
}

/// Draws two texts at the ends of a line. The right one is left out if there is no room.
fn draw_ends(frame: &mut Frame<'_>, area: Rect, (left, right): (&str, &str), style: Style) {
    let left = format!(" {left}");
    let free = usize::from(area.width).saturating_sub(left.width() + right.width() + 1);
    let text = if free > 0 { format!("{left}{}{right}", " ".repeat(free)) } else { left };
    frame.render_widget(Paragraph::new(Line::styled(text, style)), area);
}

fn count(lines: &[Line<'_>]) -> u16 {
    u16::try_from(lines.len()).unwrap_or(u16::MAX)
}
