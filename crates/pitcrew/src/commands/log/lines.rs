//! Draws the entries of a log as lines of text.

use std::fmt::Write as _;

use pitcrew_view::team_log::LogEntry;
use pitcrew_view::wording::short;

use crate::output::{FAINT, STRONG, first_line};
use crate::when::{day, time_of_day};

/// The maximum width of the column with the agents' names.
const NAME_CHARS: usize = 20;

/// Draws entries as lines. A line with the date comes before the first entry of each day.
#[derive(Debug)]
pub(super) struct Lines {
    name_chars: usize,
    day: Option<String>,
}

impl Lines {
    /// `longest` is the number of characters of the longest name of an agent.
    pub(super) fn new(longest: usize) -> Self {
        Self { name_chars: longest.min(NAME_CHARS), day: None }
    }

    /// Draws an entry.
    pub(super) fn of(&mut self, entry: &LogEntry) -> String {
        let mut text = String::new();
        // A message of another program can have no time. It counts as the oldest.
        let day = Some(entry.at_ms).filter(|at_ms| *at_ms != 0).and_then(day);
        let time = day.as_ref().and_then(|_| time_of_day(entry.at_ms)).unwrap_or_default();
        if day != self.day {
            let shown = day.as_deref().unwrap_or("at no known time");
            let _ = writeln!(text, "{FAINT}{shown}{FAINT:#}");
            self.day = day;
        }
        let name = first_line(entry.agent.as_deref().unwrap_or_default(), NAME_CHARS);
        let width = self.name_chars;
        let _ = write!(
            text,
            "{FAINT}{time:<8}{FAINT:#}  {STRONG}{name:<width$}{STRONG:#}  {}",
            entry.text
        );
        if let Some(tokens) = entry.tokens.filter(|tokens| *tokens > 0) {
            let cost = entry.cost_usd.map_or_else(String::new, |usd| format!(", ${usd:.2}"));
            let _ = write!(text, "  {FAINT}({} tokens{cost}){FAINT:#}", short(tokens));
        }
        text
    }
}
