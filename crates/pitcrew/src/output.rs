//! What a command shows: text for people or one JSON document, on stdout; errors as the envelope or as text with hints.
//!
//! Everything printed goes through here, so that no text from a file can steer the terminal and a closed pipe is no error.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use pitcrew_protocol::is_unseen;
use serde::Serialize;
use serde_json::Value;

use crate::failure::{Explained, Failure};
use crate::live::warnings;
pub(crate) use pitcrew_view::text::{first_line, in_one_line, printable};

/// The narrowest table; on a terminal that has fewer columns it breaks.
const NARROWEST_TABLE: u16 = 30;

/// The style of a heading, a name or an id.
pub(crate) const STRONG: Style = Style::new().bold();
/// The style of what matters less.
pub(crate) const FAINT: Style = Style::new().dimmed();
const ERROR: Style = AnsiColor::Red.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default();

/// In which form a command answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// For people.
    Text,
    /// One JSON document in the API's shapes.
    Json,
}

/// Where a command's answer goes, and in which form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    form: Form,
}

impl Output {
    /// Output in that form; `color` decides for the whole process.
    pub(crate) fn new(form: Form, color: anstream::ColorChoice) -> Self {
        color.write_global();
        Self { form }
    }

    /// The form.
    pub(crate) fn form(self) -> Form {
        self.form
    }

    /// Shows an answer: `value` as JSON, or what `text` makes of it.
    pub(crate) fn answer<T: Serialize>(
        self,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        match self.form {
            Form::Json => line(&serde_json::to_string_pretty(value).map_err(Failure::internal)?),
            Form::Text => line(text(value).trim_end()),
        }
    }

    /// Shows the answer of a command that has ended so: as JSON in one document with the failure, as text before it.
    ///
    /// # Errors
    /// The failure, told already where it is part of the document.
    pub(crate) fn last_answer<T: Serialize>(
        self,
        value: &T,
        text: impl FnOnce(&T) -> String,
        ended: Result<(), Failure>,
    ) -> Result<(), Failure> {
        match (self.form, ended) {
            (Form::Json, Err(failure)) => {
                let mut document = serde_json::to_value(value).map_err(Failure::internal)?;
                if let Value::Object(document) = &mut document {
                    document.extend(failure.document());
                }
                line(&serde_json::to_string_pretty(&document).map_err(Failure::internal)?)?;
                Err(failure.into_told())
            }
            (Form::Json, Ok(())) => self.answer(value, text),
            (Form::Text, ended) => self.answer(value, text).and(ended),
        }
    }

    /// Shows one item of an answer that goes on: a JSON line, or what `text` makes of it.
    pub(crate) fn item<T: Serialize>(
        self,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        match self.form {
            Form::Json => line(&serde_json::to_string(value).map_err(Failure::internal)?),
            Form::Text => line(text(value).trim_end()),
        }
    }

    /// Tells why a command failed: the envelope on stdout, or text on stderr.
    pub(crate) fn failure(self, failure: &Failure) {
        let told = match self.form {
            Form::Json => serde_json::to_string_pretty(&failure.document())
                .map_err(io::Error::other)
                .and_then(|text| writeln!(anstream::stdout().lock(), "{text}"))
                // A full disk under stdout leaves stderr.
                .or_else(|_| error_text(failure)),
            Form::Text => error_text(failure),
        };
        // There is nowhere left to tell that telling failed.
        drop(told);
    }
}

fn error_text(failure: &Failure) -> io::Result<()> {
    let mut err = anstream::stderr().lock();
    writeln!(err, "{ERROR}error:{ERROR:#} {}", printable(&failure.chain()))?;
    for hint in failure.hints() {
        writeln!(err, "{HINT}hint:{HINT:#} {}", printable(&hint))?;
    }
    Ok(())
}

/// Writes one line, or several, to stdout. A reader that has gone away ends the command quietly.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let said = Explained::new("the answer cannot be written to stdout", error);
            Err(Failure::internal(said)
                .hint("what was to be done is done; look at it before you do it again"))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Writes a remark to stderr, or gives it to the view that has the terminal; nothing depends on its arriving.
pub(crate) fn remark(text: &str) {
    if warnings::taken_by_view(text) {
        return;
    }
    let _ = writeln!(anstream::stderr().lock(), "{}", printable(text));
}

/// The text on one line, with every character that steers a terminal or cannot be seen written as its escape: `\n`, `\u{1b}`.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unseen(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// The text as one word of a shell: as it is when nothing in it means anything there, else quoted.
pub(crate) fn shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}

/// Rows in columns as wide as their widest cell, under a heading; the last column is not padded. On a terminal that is too
/// narrow for them cells are broken within their columns.
pub(crate) fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    table_within(width_of(&io::stdout()), heading, rows)
}

/// The same for a remark.
pub(crate) fn remarked_table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    table_within(width_of(&io::stderr()), heading, rows)
}

/// How many columns a terminal has.
fn width_of(stream: &impl IsTerminal) -> Option<u16> {
    let (columns, _rows) = stream.is_terminal().then(|| crossterm::terminal::size().ok())??;
    Some(columns)
}

fn table_within<const N: usize>(
    width: Option<u16>,
    heading: [&str; N],
    rows: &[[String; N]],
) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    match width {
        Some(width) => {
            table.set_width(width.max(NARROWEST_TABLE));
            table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
        }
        None => _ = table.set_content_arrangement(comfy_table::ContentArrangement::Disabled),
    }
    table.set_header(heading);
    for row in rows {
        table.add_row(row.iter().map(|cell| printable(cell).into_owned()));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let lines = table.to_string();
    lines.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_for_a_shell_is_quoted_where_it_must_be() {
        let words = ["backend-2", "my team", "it's", "", "a;b", "$HOME"].map(shell_word);
        assert_eq!(words, ["backend-2", "'my team'", r"'it'\''s'", "''", "'a;b'", "'$HOME'"]);
    }

    #[test]
    fn what_cannot_be_seen_is_made_visible() {
        assert_eq!(
            visible("a\x1b[2J\r\nb\u{202e}c\u{200b}\u{e0041}"),
            r"a\u{1b}[2J\r\nb\u{202e}c\u{200b}\u{e0041}"
        );
        assert_eq!(visible("naïve 日本 🙂"), "naïve 日本 🙂");
    }

    #[test]
    fn a_table_is_as_wide_as_its_cells() {
        let rows = [["1".to_owned(), "Fix it".to_owned()], ["10".to_owned(), "Test".to_owned()]];
        assert_eq!(table(["ID", "SUBJECT"], &rows), "ID  SUBJECT\n1   Fix it\n10  Test");
    }

    #[test]
    fn a_table_is_broken_within_its_columns_where_the_terminal_is_narrow() {
        let row =
            ["team-lead", "killed: it was stopped, and can be resumed", "27", "27", "0", "$0.00"];
        let rows = [row.map(str::to_owned)];
        let heading = ["AGENT", "END", "TURNS", "TOOL CALLS", "TOKENS", "COST"];
        for width in [120, 80, 60, 40] {
            let shown = table_within(Some(width), heading, &rows);
            assert!(
                shown.lines().all(|line| line.chars().count() <= usize::from(width)),
                "{width}:\n{shown}"
            );
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
            let whole = heading.iter().chain(&row).map(|cell| letters(cell)).sum::<usize>();
            assert_eq!(letters(&shown), whole, "{width}: nothing is left out:\n{shown}");
        }
        assert_eq!(table_within(Some(200), heading, &rows), table_within(None, heading, &rows));
    }
}
