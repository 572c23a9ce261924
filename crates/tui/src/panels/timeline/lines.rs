//! The lines of a timeline entry: one line, or its whole text.

use std::borrow::Cow;

use jiff::Timestamp;
use pitcrew_view::AgentState;
use pitcrew_view::state::{Happened, Mail, Route, TimelineEntry};
use pitcrew_view::team_log::LogEntry;
use ratatui::text::{Line, Span};

use super::filter::Kind;
use crate::panels::cell::{cut, padded, width_of};
use crate::render::wrap;
use crate::theme::Theme;

/// Maximum width of a name. Its sender chose it.
const NAME_WIDTH: usize = 24;
/// Maximum width of the list of the receivers of a broadcast.
const RECEIVERS_WIDTH: usize = 40;
/// The width of the kind before an entry.
const KIND_WIDTH: usize = 7;
/// The least width of a timeline with the kind of each entry.
const WIDTH_WITH_KIND: u16 = 50;
/// The space before the rows of a whole text.
const INDENT: &str = "  ";

/// Lays out entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryLines<'a> {
    /// The agents, for their colors.
    pub(super) agents: &'a [AgentState],
    pub(super) width: u16,
    pub(super) theme: &'a Theme,
}

/// The parts of an entry.
struct Parts<'a> {
    /// Who did it.
    head: Vec<Span<'static>>,
    /// What happened, for one line.
    brief: Cow<'a, str>,
    /// A title and the whole text below it, if they are more than `brief`.
    whole: Option<(&'a str, &'a str)>,
}

impl EntryLines<'_> {
    /// Returns the entry as one line, which is cut at the width.
    pub(super) fn folded(self, entry: &TimelineEntry) -> Line<'static> {
        let Parts { head, brief, .. } = self.parts(entry);
        self.first_line(entry, head, &brief)
    }

    /// Returns the entry with its whole text.
    pub(super) fn open(self, entry: &TimelineEntry) -> Vec<Line<'static>> {
        let Parts { head, brief, whole } = self.parts(entry);
        let used = self.used(&head);
        let fits = !brief.contains('\n') && used + width_of(&brief) <= usize::from(self.width);
        let (first, below) = match whole {
            Some(whole) => whole,
            None if fits => (brief.as_ref(), ""),
            None => ("", brief.as_ref()),
        };
        let mut lines = vec![self.first_line(entry, head, first)];
        let indent = u16::try_from(INDENT.len()).unwrap_or(0);
        for mut line in wrap(below, self.width.saturating_sub(indent), self.theme.text) {
            line.spans.insert(0, Span::raw(INDENT));
            lines.push(line);
        }
        lines
    }

    fn first_line(
        self,
        entry: &TimelineEntry,
        head: Vec<Span<'static>>,
        text: &str,
    ) -> Line<'static> {
        let rest = usize::from(self.width).saturating_sub(self.used(&head));
        let mut spans = Vec::new();
        if self.has_kind() {
            spans.push(Span::styled(padded(kind(entry), KIND_WIDTH), self.theme.dim));
        }
        spans.extend(head);
        spans.push(Span::styled(cut(text, rest), self.theme.text));
        Line::from(spans)
    }

    /// Returns the width of the parts before the text.
    fn used(self, head: &[Span<'_>]) -> usize {
        let kind = if self.has_kind() { KIND_WIDTH } else { 0 };
        kind + head.iter().map(|span| width_of(&span.content)).sum::<usize>()
    }

    fn has_kind(self) -> bool {
        self.width >= WIDTH_WITH_KIND
    }

    fn parts<'e>(self, entry: &'e TimelineEntry) -> Parts<'e> {
        let short = |head, brief| Parts { head, brief, whole: None };
        match &entry.what {
            Happened::Mail(mail) => self.mail(mail),
            Happened::Said { agent, text } => {
                short(vec![self.name(agent.as_str()), Span::raw(": ")], Cow::Borrowed(text))
            }
            Happened::Task { id, by, change } => {
                let change = format!("task #{id} {change}");
                short(vec![self.name(by.as_str()), Span::raw(": ")], Cow::Owned(change))
            }
            Happened::Spawned { agent, agent_type, model, .. } => {
                let known: Vec<&str> =
                    [agent_type.as_deref(), model.as_deref()].into_iter().flatten().collect();
                let known = match known.is_empty() {
                    true => String::new(),
                    false => format!(" ({})", known.join(", ")),
                };
                let started = format!("started{known}");
                short(vec![self.name(agent.as_str()), Span::raw(" ")], Cow::Owned(started))
            }
            Happened::Logged(entry) => self.logged(entry),
            Happened::TeamCreated { .. }
            | Happened::CleanedUp
            | Happened::CleanupFailed { .. }
            | Happened::SessionEnded { .. } => short(Vec::new(), Cow::Owned(entry.text())),
        }
    }

    fn logged<'e>(self, entry: &'e LogEntry) -> Parts<'e> {
        let at = Timestamp::from_millisecond(entry.at_ms).unwrap_or_default();
        let mut head = vec![Span::styled(at.strftime("%H:%M ").to_string(), self.theme.dim)];
        if let Some(agent) = &entry.agent {
            head.extend([self.name(agent), Span::raw(" ")]);
        }
        let whole = entry.content.as_deref().and_then(|content| {
            // The text of the entry ends with the first line of its content.
            let (title, first) = entry.text.split_once(": ")?;
            (first != content).then_some((title, content))
        });
        Parts { head, brief: Cow::Borrowed(&entry.text), whole }
    }

    fn mail<'e>(self, mail: &'e Mail) -> Parts<'e> {
        let to = match &mail.to {
            Route::Agent(name) => self.name(name.as_str()),
            Route::Team(names) => {
                let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
                let team = format!("team ({})", names.join(", "));
                Span::styled(cut(&team, RECEIVERS_WIDTH), self.theme.accent)
            }
        };
        let kind = match mail.kind.as_str() {
            "message" | "broadcast" => String::new(),
            kind => format!(", {}", cut(&kind.replace('_', " "), NAME_WIDTH)),
        };
        let between = Span::styled(" to ", self.theme.dim);
        let colon = if mail.text.is_empty() { "" } else { ": " };
        let head = vec![self.name(&mail.from), between, to, Span::raw(format!("{kind}{colon}"))];
        match &mail.summary {
            Some(summary) if !summary.is_empty() && *summary != mail.text => {
                let whole = Some((summary.as_str(), mail.text.as_str()));
                Parts { head, brief: Cow::Borrowed(summary), whole }
            }
            Some(_) | None => Parts { head, brief: Cow::Borrowed(&mail.text), whole: None },
        }
    }

    fn name(self, name: &str) -> Span<'static> {
        let agent = self.agents.iter().find(|agent| agent.name.as_str() == name);
        let color = agent.and_then(|agent| agent.color);
        Span::styled(cut(name, NAME_WIDTH), self.theme.agent(color))
    }
}

fn kind(entry: &TimelineEntry) -> &'static str {
    match Kind::of(entry) {
        Kind::All => "",
        Kind::Mail => "mail",
        Kind::Tasks => "task",
        Kind::Texts => "text",
        Kind::Requests => "ask",
        Kind::Agents => "agent",
    }
}
