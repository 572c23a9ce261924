//! The keys and commands, as the help shows them.

use crate::commands::COMMANDS;
use crate::panels::Page;

/// The keys, each with its meaning.
const KEYS: &[(&str, &str)] = &[
    ("Enter", "send; Alt-Enter or Ctrl-J breaks the line"),
    ("Esc", "close, clear a typed text, or interrupt the agent's turn"),
    ("Ctrl-C twice, Ctrl-Z", "leave (it asks about a team at work); suspend"),
    ("Tab, Ctrl-T -K -L -R", "the next panel; team, tasks, timeline, review"),
    ("Ctrl-O", "long outputs whole, or their beginnings"),
    ("PageUp/Down, Up/Down", "scroll; earlier messages"),
    ("@ and /", "names of files and commands; Tab completes"),
];

/// Returns the help.
pub(super) fn page() -> Page {
    let mut page = Page::new("keys and commands");
    KEYS.iter().for_each(|(key, about)| page.row(*key, *about));
    // Who reads this has found the command for the help.
    for command in COMMANDS.iter().filter(|command| command.name != "help") {
        page.row(format!("/{} {}", command.name, command.arguments).trim_end(), command.about);
    }
    page
}
