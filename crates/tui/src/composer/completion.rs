//! The list of completions of the word at the cursor: names of files after `@`, and commands.

use ratatui::text::Line;

use crate::commands::COMMANDS;
use crate::theme::Theme;

/// The maximum number of entries on the screen.
const ROWS_MOST: usize = 6;

/// A list of completions, and the chosen one.
#[derive(Debug)]
pub(super) struct Completion {
    entries: Vec<Entry>,
    chosen: usize,
    was_moved: bool,
}

#[derive(Debug)]
struct Entry {
    /// The word that replaces the word at the cursor.
    word: String,
    /// An explanation for the user.
    about: &'static str,
}

impl Completion {
    /// Lists the commands that begin with a text. Returns `None` if there are none.
    pub(super) fn of_commands(prefix: &str) -> Option<Self> {
        let commands = COMMANDS.iter().filter(|command| command.name.starts_with(prefix));
        let entry = |command: &crate::commands::Described| Entry {
            word: format!("/{}", command.name),
            about: command.about,
        };
        Self::of(commands.map(entry).collect())
    }

    /// Lists the names of files. Returns `None` if there are none, or if the only one is typed.
    pub(super) fn of_files(prefix: &str, names: Vec<String>) -> Option<Self> {
        let names = names.into_iter().filter(|name| name != prefix);
        Self::of(names.map(|name| Entry { word: format!("@{name}"), about: "" }).collect())
    }

    fn of(entries: Vec<Entry>) -> Option<Self> {
        (!entries.is_empty()).then_some(Self { entries, chosen: 0, was_moved: false })
    }

    /// Chooses the entry above.
    pub(super) fn up(&mut self) {
        self.was_moved = true;
        self.chosen = self.chosen.saturating_sub(1);
    }

    /// Chooses the entry below.
    pub(super) fn down(&mut self) {
        self.was_moved = true;
        self.chosen = (self.chosen + 1).min(self.entries.len().saturating_sub(1));
    }

    /// Whether the user chose an entry.
    pub(super) fn was_moved(&self) -> bool {
        self.was_moved
    }

    /// Returns the word of the chosen entry.
    pub(super) fn chosen(&self) -> String {
        self.entries.get(self.chosen).map(|entry| entry.word.clone()).unwrap_or_default()
    }

    /// Returns the lines of the list, the chosen one among them.
    pub(super) fn lines(&self, theme: &Theme) -> Vec<Line<'static>> {
        let first = (self.chosen + 1).saturating_sub(ROWS_MOST);
        let shown = self.entries.iter().enumerate().skip(first).take(ROWS_MOST);
        shown
            .map(|(at, entry)| {
                let text = format!("  {:<12} {}", entry.word, entry.about);
                let style = if at == self.chosen { theme.selected } else { theme.text };
                Line::styled(text.trim_end().to_owned(), style)
            })
            .collect()
    }
}
