//! Prints the results of commands to stdout, either as text for people or as one JSON document. An
//! error is printed as text with hints, or as the API's error envelope in JSON.
//!
//! All output goes through this module. The module makes sure that text from a file cannot control
//! the terminal, and that a closed pipe is not an error.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use anstyle::{Ansi256Color, AnsiColor, Color, Style};
use pitcrew_protocol::is_unseen;
use serde::Serialize;
use serde_json::Value;

use crate::failure::{Explained, Failure, FailureKind};
use crate::live::warnings;
pub(crate) use pitcrew_view::text::{first_line, in_one_line, printable};

/// The minimum width of a table in columns. A terminal with fewer columns wraps the rows.
const NARROWEST_TABLE: u16 = 30;

/// The style of a heading, a name or an id.
pub(crate) const STRONG: Style = Style::new().bold();
/// The style of less important text.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// The style of a picture in black on white, whatever the colours of the terminal are.
pub(crate) const INK: Style =
    Style::new().fg_color(Some(Color::Ansi256(BLACK))).bg_color(Some(Color::Ansi256(WHITE)));
// The first 16 colours are those of the terminal's theme, and these two are not among them.
const BLACK: Ansi256Color = Ansi256Color(16);
const WHITE: Ansi256Color = Ansi256Color(231);
const ERROR: Style = AnsiColor::Red.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default();

/// The format of a command's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Text for people.
    Text,
    /// One JSON document in the API's format.
    Json,
}

/// Prints a command's result as text or JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    form: Form,
}

impl Output {
    /// Builds an output for this format. `color` applies to the whole process.
    pub(crate) fn new(form: Form, color: anstream::ColorChoice) -> Self {
        color.write_global();
        Self { form }
    }

    /// Returns the format of the result: text or JSON.
    pub(crate) fn form(self) -> Form {
        self.form
    }

    /// Prints a result: `value` as JSON, or the text that `text` makes from `value`.
    pub(crate) fn answer<T: Serialize>(
        self,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        match self.form {
            Form::Json => document(value),
            Form::Text => line(harmless(text(value).trim_end()).as_str()),
        }
    }

    /// Prints the last result of a command. `ended` says whether the command succeeded. In JSON,
    /// the result and a failure are one document. In text, only the result is printed, and the
    /// caller prints the failure.
    ///
    /// # Errors
    /// Returns the failure in `ended`. If the JSON document contains the failure, it is marked as
    /// already printed. Also returns an error if the result cannot be printed.
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
                self::document(&document)?;
                // The document already contains the failure, so the caller must not print the
                // failure again.
                Err(failure.into_told())
            }
            (Form::Json, Ok(())) => self.answer(value, text),
            (Form::Text, ended) => self.answer(value, text).and(ended),
        }
    }

    /// Prints one item of a result that consists of many items: a JSON line, or the text that
    /// `text` makes from the item.
    pub(crate) fn item<T: Serialize>(
        self,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        match self.form {
            Form::Json => json_line(value),
            Form::Text => line(harmless(text(value).trim_end()).as_str()),
        }
    }

    /// Prints why a command failed. In JSON, prints the API's error envelope to stdout. In text,
    /// prints to stderr.
    pub(crate) fn failure(self, failure: &Failure) {
        let told = match self.form {
            Form::Json => serde_json::to_string_pretty(&failure.document())
                .map_err(io::Error::other)
                .and_then(|text| writeln!(anstream::stdout().lock(), "{}", escaped_json(&text)))
                // If writing to stdout fails, for example because the disk is full, writing to
                // stderr may still work.
                .or_else(|_| error_text(failure)),
            Form::Text => error_text(failure),
        };
        // If writing to stderr fails too, the error cannot be reported anywhere.
        drop(told);
    }
}

fn error_text(failure: &Failure) -> io::Result<()> {
    let mut err = anstream::stderr().lock();
    // An end that the user asked for has an exit code of its own, but nothing went wrong.
    if matches!(failure.kind, FailureKind::Interrupted | FailureKind::Terminated) {
        writeln!(err, "{}", printable(&failure.chain()))?;
    } else {
        writeln!(err, "{ERROR}error:{ERROR:#} {}", printable(&failure.chain()))?;
    }
    for hint in failure.hints() {
        writeln!(err, "{HINT}hint:{HINT:#} {}", printable(&hint))?;
    }
    Ok(())
}

/// Returns the text with everything replaced that could control the terminal, except the styles
/// [`STRONG`], [`FAINT`] and [`INK`]. A command can print names and texts from agents and files, so this
/// also covers a command that forgets to clean one of them.
fn harmless(text: &str) -> String {
    let styles = [STRONG, FAINT, INK].map(|style| style.render().to_string());
    let reset = STRONG.render_reset().to_string();
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        let (before, escape) = rest.split_at(at);
        shown += &printable(before);
        let style = styles.iter().chain([&reset]).find(|style| escape.starts_with(style.as_str()));
        let code = style.map_or("\u{1b}", String::as_str);
        match style {
            Some(style) => shown += style,
            None => shown += &printable(code),
        }
        rest = escape.get(code.len()..).unwrap_or_default();
    }
    shown + &printable(rest)
}

/// Writes a value to stdout as a JSON document of several lines.
pub(crate) fn document(value: &impl Serialize) -> Result<(), Failure> {
    line(&escaped_json(&serde_json::to_string_pretty(value).map_err(Failure::internal)?))
}

/// Writes a value to stdout as one line of JSON.
pub(crate) fn json_line(value: &impl Serialize) -> Result<(), Failure> {
    line(&escaped_json(&serde_json::to_string(value).map_err(Failure::internal)?))
}

/// Returns a JSON text in which each character is escaped that can control a terminal or is
/// invisible. JSON has such characters only in its strings, so the text means the same as before.
/// `serde_json` escapes the ASCII control characters, but not DEL and not those of Unicode.
pub(crate) fn escaped_json(text: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| c == '\u{7f}' || (!c.is_ascii() && is_unseen(c));
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) {
            // JSON writes a character beyond 16 bits as two escapes.
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Writes one or several lines to stdout. If the reader has closed the pipe, the command ends
/// without an error message.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let said = Explained::new("the answer cannot be written to stdout", error);
            Err(Failure::internal(said)
                .hint("the action itself was carried out; check its result before you repeat it"))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Passes a remark to the display that uses the terminal. If there is no such display, writes the
/// remark to stderr. Write errors are ignored.
pub(crate) fn remark(text: &str) {
    if warnings::taken_by_view(text) {
        return;
    }
    let _ = writeln!(anstream::stderr().lock(), "{}", printable(text));
}

/// Returns the text on one line. A character that could control a terminal or is invisible is
/// replaced by its escape, such as `\n` or `\u{1b}`.
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

/// Returns the text as one word of a shell command. The text is quoted if it contains characters
/// that have a special meaning in a shell.
pub(crate) fn shell_word(text: &str) -> Cow<'_, str> {
    // A word stays unquoted only if no common shell interprets any of its characters.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}

/// Formats a table with a heading. Each column is as wide as its widest cell, and the last column
/// is not padded. If the terminal is too narrow, the text of a cell is wrapped within its column.
pub(crate) fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    table_within(width_of(&io::stdout()), heading, rows)
}

/// Formats a table for a remark. The width of the terminal at stderr limits the table.
pub(crate) fn remarked_table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    table_within(width_of(&io::stderr()), heading, rows)
}

/// Whether stdout is a terminal that shows styles. `None` if it is no terminal.
pub(crate) fn styled_terminal() -> Option<bool> {
    let stdout = io::stdout();
    let choice = stdout.is_terminal().then(|| anstream::AutoStream::choice(&stdout))?;
    Some(choice != anstream::ColorChoice::Never)
}

/// Returns the number of columns of a terminal. Returns `None` if the stream is not a terminal.
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
        // A line break or a tab in a text from outside would break the row.
        table.add_row(row.iter().map(|cell| in_one_line(cell).replace('\t', " ")));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let lines = table.to_string();
    lines.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Returns the lines of an agent's text, made printable. The first line has the mark of agents'
/// texts, and the others are indented, so that no line passes for a line of pitcrew, of the shell or
/// of somebody else.
pub(crate) fn marked(text: &str) -> Vec<String> {
    let text = printable(text.trim());
    let line = |(at, line)| format!("{}{line}", if at == 0 { "< " } else { "  " });
    text.lines().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_prints_a_raw_name_cannot_control_the_terminal() {
        let name = "e\u{1b}[2J\u{1b}]52;c;cm0=\u{7}\u{202e}zz";
        let text = format!("{STRONG}{name}{STRONG:#} is {FAINT}idle{FAINT:#}\n\u{1b}");
        assert_eq!(
            harmless(&text),
            "\u{1b}[1me\u{fffd}[2J\u{fffd}]52;c;cm0=\u{fffd}\u{fffd}zz\u{1b}[0m is \u{1b}[2midle\u{1b}[0m\n\u{fffd}"
        );
    }

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
    fn json_has_no_character_that_controls_a_terminal_and_means_the_same() {
        let name = "é日本🙂 \u{9b}31m\u{7f}\u{202e}\u{e0041}\u{2028}\n";
        let escaped = escaped_json(&serde_json::to_string(name).unwrap()).into_owned();
        assert_eq!(escaped, r#""é日本🙂 \u009b31m\u007f\u202e\udb40\udc41\u2028\n""#);
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), name);
    }

    #[test]
    fn a_table_is_as_wide_as_its_cells() {
        let rows = [["1".to_owned(), "Fix it".to_owned()], ["10".to_owned(), "Test".to_owned()]];
        assert_eq!(table(["ID", "SUBJECT"], &rows), "ID  SUBJECT\n1   Fix it\n10  Test");
    }

    #[test]
    fn a_line_break_in_a_cell_does_not_break_its_row() {
        let rows = [["bob\ncat".to_owned(), "a\r\n\tb\tc\u{1b}[2J\n".to_owned()]];
        let shown = table(["MEMBER", "MODEL"], &rows);
        assert_eq!(shown, "MEMBER     MODEL\nbob | cat  a | b c\u{fffd}[2J");
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
