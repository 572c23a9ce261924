//! The keys and commands, as the help shows them.

use ratatui::text::{Line, Span};

use crate::commands::COMMANDS;
use crate::theme::Theme;

/// The keys, each with its meaning.
const KEYS: &[(&str, &str)] = &[
    ("Enter", "send; Alt-Enter or Ctrl-J breaks the line"),
    ("Esc", "close, or interrupt the agent's turn; with a typed text, clear it"),
    ("Ctrl-C twice", "leave; it asks what becomes of a team at work"),
    ("Tab", "conversation, team, tasks, timeline"),
    ("Ctrl-T Ctrl-K Ctrl-L", "team, tasks, timeline"),
    ("Ctrl-O", "long outputs whole, or their beginnings"),
    ("PageUp PageDown", "scroll"),
    ("@ and /", "names of files and commands; Tab completes"),
    ("Up Down", "earlier messages"),
    ("Ctrl-Z", "suspend"),
];

/// Returns the lines of the help.
pub(super) fn lines(theme: &Theme) -> Vec<Line<'static>> {
    let keys = KEYS.iter().map(|(key, about)| row(key, about, theme));
    let commands = COMMANDS.iter().map(|command| {
        let name = format!("/{} {}", command.name, command.arguments);
        row(name.trim_end(), command.about, theme)
    });
    keys.chain([Line::default()]).chain(commands).collect()
}

fn row(name: &str, about: &'static str, theme: &Theme) -> Line<'static> {
    Line::from(vec![Span::styled(format!("{name:<21} "), theme.accent), Span::raw(about)])
}
