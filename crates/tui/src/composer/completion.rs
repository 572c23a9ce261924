//! The list of completions of the word at the cursor: names of files after `@`, commands and their
//! arguments.

use pitcrew_protocol::PermissionMode;
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
    /// Lists the completions of the last word of a command line: commands, agents or permission
    /// modes. Returns `None` if there are none.
    pub(super) fn of_command_line(line: &str, agents: &[String]) -> Option<Self> {
        let Some((before, word)) = line.rsplit_once(char::is_whitespace) else {
            return Self::of_commands(line.strip_prefix('/')?);
        };
        let mut words = before.split_whitespace();
        let name = words.next()?.strip_prefix('/')?;
        let command = COMMANDS.iter().find(|command| command.name == name)?;
        let argument = command.arguments.split_whitespace().nth(words.count())?;
        match argument.trim_matches(['[', ']']) {
            "NAME" => Self::of_words(agents.iter().map(String::as_str), word),
            "MODE" => Self::of_words(PermissionMode::ALL.map(PermissionMode::as_str), word),
            // The other arguments are free texts.
            _ => None,
        }
    }

    fn of_words<'a>(words: impl IntoIterator<Item = &'a str>, prefix: &str) -> Option<Self> {
        let prefix = prefix.to_lowercase();
        let words = words.into_iter().filter(|word| word.to_lowercase().starts_with(&prefix));
        Self::of(words.map(|word| Entry { word: word.to_owned(), about: "" }).collect())
    }

    fn of_commands(prefix: &str) -> Option<Self> {
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
