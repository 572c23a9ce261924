//! The display of a run on a terminal. Remarks (short messages about the run) scroll up. Below the
//! remarks, a footer shows one line per agent and the current question.

use std::io;

use anstyle::{AnsiColor, Style};
use crossterm::event::Event as Key;
use pitcrew_protocol::Color;
use pitcrew_runtime::question::Section;
use pitcrew_view::asking::{Current, ShownPages};
use pitcrew_view::remark::Remark;
use pitcrew_view::{AgentState, TeamState};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

use super::agent_screen::{Entry, Footer, Terminal, Typed};
use super::log;
use crate::output::{STRONG, printable};

/// The input prompt when the user types a message to the lead.
const PROMPT: &str = "> ";

/// The terminal with its footer and its input line.
#[derive(Debug)]
pub(crate) struct Board {
    terminal: Terminal,
    entry: Entry,
    question: Option<Current>,
    seen: ShownPages,
}

impl Board {
    /// Opens the terminal. Keys are read only if this process is in the foreground. The system
    /// would stop a background job that reads keys.
    ///
    /// # Errors
    /// Returns an error if the terminal cannot be switched to single-key input.
    pub(crate) fn open() -> io::Result<Self> {
        let terminal =
            if is_in_foreground() { Terminal::enter()? } else { Terminal::without_keys() };
        Ok(Self { terminal, entry: Entry::default(), question: None, seen: ShownPages::default() })
    }

    /// Draws new remarks, the current activity of every agent, and the question.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub(crate) fn show(&mut self, state: &TeamState, remarks: &[Remark]) -> io::Result<()> {
        let lines: Vec<String> = remarks
            .iter()
            .flat_map(|remark| {
                printable(&log::line(remark)).lines().map(str::to_owned).collect::<Vec<_>>()
            })
            .collect();
        let agents = state.agents.iter().map(row).collect();
        let prompt = if self.has_keys() { PROMPT } else { "" };
        let footer = Footer::of(agents, self.question.as_ref(), Terminal::room(), prompt);
        if let Some(part) = footer.seen.kept(&self.seen, self.part())
            && let Some(question) = &mut self.question
        {
            question.part = part;
            self.seen = footer.seen;
            return self.show(state, remarks);
        }
        self.terminal.draw(&lines, &footer, &self.entry.parts())?;
        self.seen = footer.seen;
        Ok(())
    }

    /// Returns the part of the question that is shown. After a resize, this part is the page that
    /// contains the previously visible text.
    pub(crate) fn part(&self) -> Section {
        self.question.as_ref().map_or(Section::Ends, |question| question.part)
    }

    /// Sets the question to show. With `None`, no question is shown.
    pub(crate) fn ask(&mut self, question: Option<Current>) {
        let is_another = question.as_ref().map(|it| &it.question)
            != self.question.as_ref().map(|it| &it.question);
        if is_another {
            self.entry.question_changed(self.question.is_some(), question.is_some());
        }
        self.question = question;
    }

    /// Handles a key and returns what the key means.
    pub(crate) fn pressed(&mut self, key: Key) -> Typed {
        self.entry.take(key)
    }

    /// Puts a rejected line of several words back into the input, so that the user can correct it.
    pub(crate) fn put_back(&mut self, line: &str) {
        self.entry.put_back(line);
    }

    /// Suspends the job until the shell resumes it.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        self.terminal.suspend()
    }

    /// Whether this process reads the terminal's keys.
    pub(crate) fn has_keys(&self) -> bool {
        self.terminal.has_keys()
    }

    /// Whether a question is shown.
    pub(crate) fn asks(&self) -> bool {
        self.question.is_some()
    }

    /// Returns the layout of the question on the screen: its pages, and whether its permission
    /// rules are visible.
    pub(crate) fn seen(&self) -> &ShownPages {
        &self.seen
    }
}

/// Returns whether this process is in the foreground and may read from the terminal. The system
/// stops a background process that reads from the terminal.
pub(super) fn is_in_foreground() -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|group| group == getpgrp())
}

/// Formats the footer line that shows an agent's current activity.
fn row(agent: &AgentState) -> (Style, String) {
    let name = printable(agent.name.as_str());
    (agent.color.map_or(STRONG, style), format!("{name:<12} {}", agent.line()))
}

/// Returns the terminal style for a team color. The style uses one of the sixteen standard terminal
/// colors.
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
