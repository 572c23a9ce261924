//! Draws on the terminal. New lines go into the terminal's own scrollback, and the footer is drawn
//! again below the new lines.

use std::io::{self, Write};

use anstyle::Style;
use crossterm::cursor::{MoveToColumn, MoveUp};
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::terminal::{Clear, ClearType, disable_raw_mode, enable_raw_mode, size};
use crossterm::{Command, queue};
use pitcrew_runtime::question::Size;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::agent_view::Footer;

/// The number of columns and rows if the terminal does not report its size.
const USUAL_SIZE: (u16, u16) = (80, 24);

/// A terminal with a footer. Dropping this value removes the footer and restores the terminal's
/// mode.
#[derive(Debug)]
pub(crate) struct Terminal {
    has_color: bool,
    /// Whether the terminal is in raw mode and its keys are read one by one.
    has_keys: bool,
    shown: Option<Laid>,
}

/// A footer and the input line, laid out for the size of the terminal.
#[derive(Debug, PartialEq, Eq)]
struct Laid {
    columns: usize,
    rows: Vec<(Style, String)>,
    input: String,
    /// The column of the cursor. The cursor is always in the last row.
    column: usize,
}

impl Terminal {
    /// Switches the terminal to raw mode, so that keys are read one by one.
    ///
    /// # Errors
    /// Returns an error if raw mode is not available.
    pub(crate) fn enter() -> io::Result<Self> {
        enable_raw_mode()?;
        let mut terminal = Self::without_keys();
        terminal.has_keys = true;
        queue!(io::stderr(), EnableBracketedPaste)?;
        Ok(terminal)
    }

    /// Returns a terminal that shows a footer but does not read keys. The user cannot answer
    /// questions on such a terminal.
    pub(crate) fn without_keys() -> Self {
        let has_color = anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never;
        Self { has_color, has_keys: false, shown: None }
    }

    /// Writes lines above the footer, and draws the footer and the input line again. Draws nothing
    /// if there are no lines and the footer is unchanged.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub(crate) fn draw(
        &mut self,
        lines: &[String],
        footer: &Footer,
        typed: &(String, String),
    ) -> io::Result<()> {
        let laid = Laid::out(footer, typed, size().unwrap_or(USUAL_SIZE));
        // Nothing changed. If the same footer were drawn again, the terminal would flicker.
        if lines.is_empty() && self.shown.as_ref() == Some(&laid) {
            return Ok(());
        }
        let mut out = String::new();
        self.to_first_row(laid.columns, &mut out)?;
        for line in lines {
            out.push_str(line);
            out.push_str("\r\n");
        }
        for (style, line) in &laid.rows {
            out.push_str(&format!("{style}{line}{style:#}\r\n"));
        }
        out.push_str(&laid.input);
        ansi(MoveToColumn(u16::try_from(laid.column).unwrap_or(u16::MAX)), &mut out)?;
        self.shown = Some(laid);
        self.write(&out)
    }

    /// Writes control characters that do not change what is shown, such as the bell.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub(crate) fn signal(&self, characters: &str) -> io::Result<()> {
        let mut err = io::stderr().lock();
        err.write_all(characters.as_bytes())?;
        err.flush()
    }

    /// Whether the terminal is in raw mode and its keys are read one by one.
    pub(crate) fn has_keys(&self) -> bool {
        self.has_keys
    }

    /// Returns the number of columns and rows that a footer is allowed to use.
    pub(crate) fn room() -> Size {
        let (columns, rows) = size().unwrap_or(USUAL_SIZE);
        // The last column stays empty, because a full row would move the cursor to the next row.
        Size { columns: usize::from(columns).saturating_sub(1), rows: usize::from(rows) }
    }

    /// Suspends the job as Ctrl-Z does. When the shell resumes the job, the terminal is switched
    /// back to raw mode.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        self.clear()?;
        disable_raw_mode()?;
        // The whole job stops in this call. The next line runs after the shell has resumed the job.
        rustix::process::kill_current_process_group(rustix::process::Signal::TSTP)?;
        enable_raw_mode()
    }

    /// Removes the footer from the terminal. The lines above the footer stay.
    fn clear(&mut self) -> io::Result<()> {
        let mut out = String::new();
        self.to_first_row(usize::from(size().unwrap_or(USUAL_SIZE).0), &mut out)?;
        self.shown = None;
        self.write(&out)
    }

    /// Clears the footer and moves the cursor to the first row of the footer. `columns` is the
    /// current width of the terminal. The rows of the footer are cleared one by one. If a whole
    /// screen were cleared at once, tmux would save that screen in its history.
    fn to_first_row(&self, columns: usize, out: &mut String) -> io::Result<()> {
        ansi(MoveToColumn(0), out)?;
        ansi(Clear(ClearType::FromCursorDown), out)?;
        for _ in 0..self.shown.as_ref().map_or(0, |shown| shown.above_cursor(columns)) {
            ansi(MoveUp(1), out)?;
            ansi(Clear(ClearType::CurrentLine), out)?;
        }
        Ok(())
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let mut err = io::stderr().lock();
        if self.has_color {
            err.write_all(text.as_bytes())?;
        } else {
            // Without color, the style sequences are removed from the text, but the cursor
            // movements stay.
            err.write_all(unstyled(text).as_bytes())?;
        }
        err.flush()
    }
}

impl Laid {
    /// Lays out a footer. If the terminal has too few rows, only the last rows are shown, because
    /// the question is in the last rows.
    fn out(footer: &Footer, typed: &(String, String), (columns, rows): (u16, u16)) -> Self {
        let columns = usize::from(columns).max(2);
        let left_out = footer.lines.len().saturating_sub(usize::from(rows.saturating_sub(1)));
        let shown = footer.lines.iter().skip(left_out);
        let (input, column) = input_row(&footer.prompt, typed, columns - 1);
        Self {
            columns,
            rows: shown.map(|(style, line)| (*style, cut(line, columns - 1))).collect(),
            input,
            column,
        }
    }

    /// Returns the number of rows above the cursor's row. `columns` is the current width of the
    /// terminal. If the terminal became narrower, it wrapped the rows that were too long.
    fn above_cursor(&self, columns: usize) -> usize {
        let columns = columns.max(1);
        let rows = self.rows.iter().map(|(_, row)| row.width().div_ceil(columns).max(1));
        rows.sum::<usize>() + self.column / columns
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Errors are ignored, because a terminal that is gone does not need to be restored.
        let _ = self.clear();
        if !self.has_keys {
            return;
        }
        let _ = queue!(io::stderr(), DisableBracketedPaste);
        let _ = io::stderr().flush();
        let _ = disable_raw_mode();
    }
}

fn ansi(command: impl Command, out: &mut String) -> io::Result<()> {
    command.write_ansi(out).map_err(io::Error::other)
}

/// Removes the style sequences from a text. A style sequence is an escape sequence that ends with
/// `m`.
fn unstyled(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        out.push_str(before);
        let ends = after.find(|c: char| c.is_ascii_alphabetic()).map_or(after.len(), |at| at + 1);
        let (sequence, left) = after.split_at(ends);
        if !sequence.ends_with('m') {
            out.push_str("\u{1b}[");
            out.push_str(sequence);
        }
        rest = left;
    }
    out.push_str(rest);
    out
}

/// Cuts a text at this number of columns.
fn cut(text: &str, columns: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= columns
    };
    text.chars().take_while(fits).collect()
}

/// Returns the row of the input line and the column of the cursor in this row. If the line is too
/// long, the row contains only the part around the cursor.
fn input_row(prompt: &str, (before, after): &(String, String), columns: usize) -> (String, usize) {
    let room = columns.saturating_sub(prompt.chars().count());
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used < room
    };
    // The text before the cursor is taken from its end, because its last characters are next to the
    // cursor.
    let mut shown: Vec<char> = before.chars().rev().take_while(fits).collect();
    shown.reverse();
    let column =
        prompt.chars().count() + shown.iter().map(|c| c.width().unwrap_or(0)).sum::<usize>();
    let line = format!("{prompt}{}{after}", shown.into_iter().collect::<String>());
    (cut(&line, columns), column.min(columns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pitcrew_view::asking::ShownPages;

    #[test]
    fn a_line_is_cut_by_columns_and_never_inside_a_wide_character() {
        assert_eq!(cut("日本語 text", 5), "日本");
        assert_eq!(cut("plain", 9), "plain");
    }

    #[test]
    fn of_a_long_input_the_part_around_the_cursor_is_shown() {
        let typed = |before: &str, after: &str| (before.to_owned(), after.to_owned());
        assert_eq!(input_row("> ", &typed("ab", "cd"), 20), ("> abcd".to_owned(), 4));
        assert_eq!(input_row("> ", &typed("abcdefgh", "ij"), 8), ("> defghi".to_owned(), 7));
        assert_eq!(input_row("> ", &typed("", ""), 1), (">".to_owned(), 1));
    }

    fn footer(lines: &[&str]) -> Footer {
        let lines = lines.iter().map(|line| (Style::new(), (*line).to_owned())).collect();
        Footer { lines, prompt: "> ".to_owned(), seen: ShownPages::default() }
    }

    #[test]
    fn a_terminal_that_became_narrower_has_more_rows_above_the_cursor() {
        let typed = ("a long line".to_owned(), String::new());
        let laid = Laid::out(&footer(&["── bob", "works on #1"]), &typed, (80, 24));
        assert_eq!([80, 13, 6, 1].map(|columns| laid.above_cursor(columns)), [2, 3, 5, 30]);
    }

    #[test]
    fn a_terminal_that_is_too_low_shows_the_end_of_the_foot() {
        let footer = footer(&["── bob", "asks", "[y]es?"]);
        let rows = |rows| {
            Laid::out(&footer, &<_>::default(), (80, rows)).rows.into_iter().map(|row| row.1)
        };
        assert_eq!(rows(3).collect::<Vec<_>>(), ["asks", "[y]es?"]);
        assert_eq!((rows(4).count(), rows(1).count(), rows(0).count()), (3, 0, 0));
    }

    #[test]
    fn without_colour_the_cursor_still_moves() {
        assert_eq!(unstyled("\u{1b}[1mbob\u{1b}[0m\u{1b}[2A!\u{1b}[J"), "bob\u{1b}[2A!\u{1b}[J");
    }
}
