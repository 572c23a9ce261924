//! The keys and commands, as the help shows them.

use ratatui::text::{Line, Span};

use crate::commands::COMMANDS;
use crate::theme::Theme;

/// The keys, each with its meaning. Keys and commands together fit on 24 rows.
const KEYS: &[(&str, &str)] = &[
    ("Enter", "send; Alt-Enter or Ctrl-J breaks the line"),
    ("Esc", "close, clear a typed text, or interrupt the agent's turn"),
    ("Ctrl-C twice, Ctrl-Z", "leave (it asks about a team at work); suspend"),
    ("Tab, Ctrl-T -K -L -R", "the next panel; team, tasks, timeline, review"),
    ("Ctrl-O", "long outputs whole, or their beginnings"),
    ("PageUp/Down, Up/Down", "scroll; earlier messages"),
    ("@ and /", "names of files and commands; Tab completes"),
];

/// Returns the lines of the help.
pub(super) fn lines(theme: &Theme) -> Vec<Line<'static>> {
    let keys = KEYS.iter().map(|(key, about)| row(key, about, theme));
    // Who reads this has found the command for the help.
    let others = COMMANDS.iter().filter(|command| command.name != "help");
    let commands = others.map(|command| {
        let name = format!("/{} {}", command.name, command.arguments);
        row(name.trim_end(), command.about, theme)
    });
    keys.chain(commands).collect()
}

fn row(name: &str, about: &'static str, theme: &Theme) -> Line<'static> {
    Line::from(vec![Span::styled(format!("{name:<21} "), theme.accent), Span::raw(about)])
}
