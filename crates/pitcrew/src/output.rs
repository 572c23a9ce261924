//! Prints the answers of commands: text for people or one JSON document on stdout. Errors are
//! printed as the API's envelope, or as text with hints.
//!
//! All output goes through this module. So text from a file cannot control the terminal, and a
//! closed pipe is not an error.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use pitcrew_protocol::is_unseen;
use serde::Serialize;
use serde_json::Value;

use crate::failure::{Explained, Failure};
use crate::live::warnings;
pub(crate) use pitcrew_view::text::{first_line, in_one_line, printable};

/// The narrowest table, in columns. A terminal with fewer columns wraps it.
const NARROWEST_TABLE: u16 = 30;

/// The style of a heading, a name or an id.
pub(crate) const STRONG: Style = Style::new().bold();
/// The style of less important text.
pub(crate) const FAINT: Style = Style::new().dimmed();
const ERROR: Style = AnsiColor::Red.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default();

/// The form of a command's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Text for people.
    Text,
    /// One JSON document in the API's format.
    Json,
}

/// The writer for a command's answer, in text or JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    form: Form,
}

impl Output {
    /// A writer for this form. `color` applies to the whole process.
    pub(crate) fn new(form: Form, color: anstream::ColorChoice) -> Self {
        color.write_global();
        Self { form }
    }

    /// The form of the answer, text or JSON.
    pub(crate) fn form(self) -> Form {
        self.form
    }

    /// Prints an answer: `value` as JSON, or the text that `text` returns for it.
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

    /// Prints the answer of a command that ended with `ended`. In JSON the answer and the failure
    /// are one document. In text the answer comes first and the caller reports the failure.
    ///
    /// # Errors
    /// The failure in `ended`, marked as already printed if it is part of the document.
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
                // The document above already contains the failure.
                Err(failure.into_told())
            }
            (Form::Json, Ok(())) => self.answer(value, text),
            (Form::Text, ended) => self.answer(value, text).and(ended),
        }
    }

    /// Prints one item of an answer that has many: a JSON line, or the text that `text` returns for
    /// it.
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

    /// Prints why a command failed: for JSON the API's error envelope on stdout, otherwise text on
    /// stderr.
    pub(crate) fn failure(self, failure: &Failure) {
        let told = match self.form {
            Form::Json => serde_json::to_string_pretty(&failure.document())
                .map_err(io::Error::other)
                .and_then(|text| writeln!(anstream::stdout().lock(), "{text}"))
                // If stdout cannot be written, for example because of a full disk, stderr may still
                // work.
                .or_else(|_| error_text(failure)),
            Form::Text => error_text(failure),
        };
        // If stderr fails too, there is no place left to report that.
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

/// Writes one or several lines to stdout. If the pipe is closed, the command ends without an error
/// message.
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

/// Passes a remark to the display that uses the terminal, or writes it to stderr if there is no
/// such display. Write errors are ignored.
pub(crate) fn remark(text: &str) {
    if warnings::taken_by_view(text) {
        return;
    }
    let _ = writeln!(anstream::stderr().lock(), "{}", printable(text));
}

/// The text on one line. Every character that could control a terminal or is invisible is written
/// as its escape: `\n`, `\u{1b}`.
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

/// The text as one word for a shell. It is quoted if it contains characters with a special meaning.
pub(crate) fn shell_word(text: &str) -> Cow<'_, str> {
    // Only characters that no common shell interprets stay unquoted.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}

/// A table with a heading and columns as wide as their widest cell; the last column is not padded.
/// If the terminal is too narrow, cells are wrapped within their columns.
pub(crate) fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    table_within(width_of(&io::stdout()), heading, rows)
}

/// A table for a remark, sized for the terminal at stderr.
pub(crate) fn remarked_table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    table_within(width_of(&io::stderr()), heading, rows)
}

/// The number of columns of a terminal, or `None` if the stream is not a terminal.
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
