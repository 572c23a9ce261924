//! A run on a terminal: remarks that scroll by, and a foot below them with a line an agent and the question that is asked.

use std::io;

use anstyle::{AnsiColor, Style};
use crossterm::event::Event as Key;
use pitcrew_protocol::Color;

use super::asking::{Current, Seen};
use super::desk::{Entry, Foot, Terminal, Typed};
use super::log;
use super::view::{AgentView, Remark, View};
use crate::output::{STRONG, printable};

/// The foot, and what is typed into it.
#[derive(Debug)]
pub(crate) struct Board {
    terminal: Terminal,
    entry: Entry,
    question: Option<Current>,
    seen: Seen,
}

/// Whether somebody at the terminal is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Person {
    /// The keys are theirs to answer with.
    Asked,
    /// The keys are left alone.
    Watches,
}

impl Board {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// When it cannot be read key by key.
    pub(crate) fn open(person: Person) -> io::Result<Self> {
        let terminal = match person {
            Person::Asked => Terminal::enter()?,
            Person::Watches => Terminal::without_keys(),
        };
        Ok(Self { terminal, entry: Entry::default(), question: None, seen: Seen::default() })
    }

    /// Shows remarks, what every agent does now, and the question.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub(crate) fn show(&mut self, view: &View, remarks: &[Remark]) -> io::Result<()> {
        let lines: Vec<String> = remarks
            .iter()
            .flat_map(|remark| printable(&log::line(remark)).lines().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        let agents = view.agents().iter().map(row).collect();
        let foot = Foot::of(agents, self.question.as_ref(), Terminal::room(), "");
        self.seen = foot.seen;
        // What is typed while nothing is asked goes nowhere, and is not shown.
        let typed = if self.question.is_some() { self.entry.parts() } else { <_>::default() };
        self.terminal.draw(&lines, &foot, &typed)
    }

    /// Takes the question in that is to be shown from now on.
    pub(crate) fn ask(&mut self, question: Option<Current>) {
        if question.is_none() {
            self.entry = Entry::default();
        }
        self.question = question;
    }

    /// Takes a key in, and says what it came to.
    pub(crate) fn pressed(&mut self, key: Key) -> Typed {
        let typed = self.entry.take(key);
        if self.question.is_none() {
            self.entry = Entry::default();
        }
        typed
    }

    /// Stops the job until its shell goes on with it.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        self.terminal.suspend()
    }

    /// What of the question is to be seen.
    pub(crate) fn seen(&self) -> Seen {
        self.seen
    }
}

/// What an agent does now.
fn row(agent: &AgentView) -> (Style, String) {
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
