//! A run on a terminal: remarks that scroll by, and a foot below them with a line an agent and the question that is asked.

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

/// What stands before a message to the lead that is being typed.
const PROMPT: &str = "> ";

/// The foot, and what is typed into it.
#[derive(Debug)]
pub(crate) struct Board {
    terminal: Terminal,
    entry: Entry,
    question: Option<Current>,
    seen: ShownPages,
}

impl Board {
    /// Takes the terminal over, and its keys unless a job in the background would be stopped for that.
    ///
    /// # Errors
    /// When it cannot be read key by key.
    pub(crate) fn open() -> io::Result<Self> {
        let terminal =
            if is_in_foreground() { Terminal::enter()? } else { Terminal::without_keys() };
        Ok(Self { terminal, entry: Entry::default(), question: None, seen: ShownPages::default() })
    }

    /// Shows remarks, what every agent does now, and the question.
    ///
    /// # Errors
    /// When the terminal is gone.
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

    /// The part of the question that is shown: after a resize the page with the same text.
    pub(crate) fn part(&self) -> Section {
        self.question.as_ref().map_or(Section::Ends, |question| question.part)
    }

    /// Takes the question in that is to be shown from now on.
    pub(crate) fn ask(&mut self, question: Option<Current>) {
        let is_another = question.as_ref().map(|it| &it.question)
            != self.question.as_ref().map(|it| &it.question);
        if is_another {
            self.entry.question_changed(self.question.is_some(), question.is_some());
        }
        self.question = question;
    }

    /// Takes a key in, and says what it came to.
    pub(crate) fn pressed(&mut self, key: Key) -> Typed {
        self.entry.take(key)
    }

    /// Puts a line back that is to be corrected.
    pub(crate) fn put_back(&mut self, line: &str) {
        self.entry.put_back(line);
    }

    /// Stops the job until its shell goes on with it.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        self.terminal.suspend()
    }

    /// Whether the terminal's keys come here.
    pub(crate) fn has_keys(&self) -> bool {
        self.terminal.has_keys()
    }

    /// Whether a question is shown.
    pub(crate) fn asks(&self) -> bool {
        self.question.is_some()
    }

    /// What of the question is to be seen.
    pub(crate) fn seen(&self) -> &ShownPages {
        &self.seen
    }
}

/// Whether this process may read the terminal: one in the background is stopped when it tries.
fn is_in_foreground() -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|group| group == getpgrp())
}

/// What an agent does now.
fn row(agent: &AgentState) -> (Style, String) {
    let name = printable(agent.name.as_str());
    (agent.color.map_or(STRONG, style), format!("{name:<12} {}", agent.line()))
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
