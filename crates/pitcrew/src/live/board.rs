//! A run on a terminal: one line an agent that changes in place, and remarks that scroll by above them.

use std::collections::BTreeMap;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use pitcrew_protocol::{AgentName, Color};

use super::log;
use super::view::{AgentView, Remark, View};
use crate::output::printable;

/// How often a line at work turns its spinner.
const SPIN: Duration = Duration::from_millis(120);

/// The lines of the agents.
#[derive(Debug, Default)]
pub(crate) struct Board {
    lines: MultiProgress,
    bars: BTreeMap<AgentName, ProgressBar>,
}

impl Board {
    /// Shows remarks, and what every agent does now.
    pub(crate) fn show(&mut self, view: &View, remarks: &[Remark]) {
        for remark in remarks {
            // A terminal that is gone is noticed by whoever must know.
            let _ = self.lines.println(printable(&log::line(remark)));
        }
        for agent in view.agents() {
            let is_known = self.bars.contains_key(&agent.name);
            let bar = self.bars.entry(agent.name.clone()).or_insert_with(|| self.lines.add(ProgressBar::new_spinner()));
            if !is_known {
                bar.set_style(spinner());
                bar.set_prefix(prefix(agent));
                bar.enable_steady_tick(SPIN);
            }
            bar.set_message(agent.line());
            if agent.status.is_over() && !bar.is_finished() {
                bar.finish();
            }
        }
    }

    /// Runs `question` with the lines out of its way.
    pub(crate) fn aside<T>(&self, question: impl FnOnce() -> T) -> T {
        self.lines.suspend(question)
    }

    /// Takes the lines off the terminal; the remarks stay.
    pub(crate) fn clear(&self) {
        for bar in self.bars.values() {
            bar.finish_and_clear();
        }
        let _ = self.lines.clear();
    }
}

fn spinner() -> ProgressStyle {
    // The template is fixed; indicatif's own style is good enough if it should ever refuse it.
    ProgressStyle::with_template("{spinner} {prefix} {wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn prefix(agent: &AgentView) -> String {
    let has_color = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    let style = if has_color { agent.color.map_or(Style::new().bold(), style) } else { Style::new() };
    let name = format!("{:<12}", printable(agent.name.as_str()));
    format!("{style}{name}{style:#}")
}

/// A team's color on a terminal with sixteen of them.
pub(crate) fn style(color: Color) -> Style {
    let ansi = match color {
        Color::Blue => AnsiColor::BrightBlue,
        Color::Green => AnsiColor::Green,
        Color::Yellow => AnsiColor::Yellow,
        Color::Purple => AnsiColor::Magenta,
        Color::Orange => AnsiColor::BrightRed,
        Color::Pink => AnsiColor::BrightMagenta,
        Color::Cyan => AnsiColor::Cyan,
        Color::Red => AnsiColor::Red,
    };
    ansi.on_default()
}
