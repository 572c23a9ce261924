//! Fits lines into a given width and height. A line that is too long is wrapped, never cut. If not
//! all rows fit, there are two ways to show them. One way shows the first and last rows with the
//! number of rows left out. The other way shows one page at a time.

use unicode_width::UnicodeWidthChar as _;

use super::content::{Kind, Line};

/// Minimum width of a layout: one column for the margin mark, one for a blank, and two for one wide
/// character.
const LEAST_COLUMNS: usize = 4;

/// The space available on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Number of columns.
    pub columns: usize,
    /// Number of rows. 0 counts as 1.
    pub rows: usize,
}

/// Which part of the lines is shown if they do not all fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Section {
    /// Show the first and the last rows.
    #[default]
    Ends,
    /// Show one page. Pages are counted from 0. If the number is too large, the last page is shown.
    Page(usize),
}

/// One row on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The kind of the line to which this row belongs.
    pub kind: Kind,
    /// The text of the row, with its margin. The margin is `│` where a line begins, `┊` where a
    /// line continues, and a blank for a note.
    pub text: String,
}

/// The rows to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The rows, not more than fit.
    pub rows: Vec<Row>,
    /// Number of pages. The number is 1 if everything fits at once.
    pub pages: usize,
    /// The position at which each page begins.
    pub starts: Vec<Place>,
}

/// A position in the lines. It does not depend on the width. After a change of the width, it can
/// therefore be used to find the page with the same text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line's number, counted from 0.
    pub line: usize,
    /// Number of characters of the line before the position.
    pub chars: usize,
}

/// Lays out lines. `turn` is the name of the key that shows the next page. The row that reports the
/// omitted rows contains this name.
#[must_use]
pub fn lay_out(lines: &[Line], size: Size, part: Section, turn: &str) -> Shown {
    let columns = size.columns.max(LEAST_COLUMNS);
    let height = size.rows.max(1);
    let all: Vec<Row> = lines.iter().flat_map(|line| rows_of(line, columns)).collect();
    if all.len() <= height {
        return Shown { rows: all, pages: 1, starts: vec![Place::default()] };
    }
    // Reserve one row of each page for the mark with the page number or the number of omitted rows.
    let of_page = height.saturating_sub(1).max(1);
    let pages = all.len().div_ceil(of_page);
    let starts = places(lines, columns).into_iter().step_by(of_page).collect();
    let rows = match part {
        Section::Ends => ends(&all, height, columns, turn),
        Section::Page(page) => {
            let page = page.min(pages - 1);
            let shown = all.iter().skip(page * of_page).take(of_page).cloned();
            let (number, key) = (page + 1, turn);
            let long = format!("── page {number} of {pages}, {key} turns it ──");
            let mark = mark(
                columns,
                [long, format!("page {number} of {pages}"), format!("{number}/{pages}")],
            );
            // If there is only one row, the row with the page number has no room. The user
            // interface also shows the page number elsewhere.
            shown.chain((height > 1).then_some(mark)).collect()
        }
    };
    Shown { rows, pages, starts }
}

/// Returns the position at which each row begins.
fn places(lines: &[Line], columns: usize) -> Vec<Place> {
    let of_line = |(line, text): (usize, &Line)| {
        let rows = wrap(&text.text, columns - 2);
        rows.into_iter().scan(0, move |before, row| {
            let place = Place { line, chars: *before };
            *before += row.chars().count();
            Some(place)
        })
    };
    lines.iter().enumerate().flat_map(of_line).collect()
}

fn ends(all: &[Row], height: usize, columns: usize, turn: &str) -> Vec<Row> {
    let kept = height - 1;
    // If the number of rows is odd, the first part gets one row more than the last part.
    let tail = kept / 2;
    let head = kept - tail;
    let between = all.len() - kept;
    let long = format!("── {between} more lines here, {turn} shows them ──");
    let marked =
        mark(columns, [long, format!("{between} more lines: {turn}"), format!("+{between}")]);
    let (first, last) = (all.iter().take(head), all.iter().skip(all.len() - tail));
    first.cloned().chain(std::iter::once(marked)).chain(last.cloned()).collect()
}

/// Returns a row with the first of the texts that fits into the columns. If no text fits, uses the
/// last text.
fn mark<const N: usize>(columns: usize, texts: [String; N]) -> Row {
    let fits = |text: &&String| width(text) <= columns;
    let text = texts.iter().find(fits).or(texts.last()).cloned().unwrap_or_default();
    Row { kind: Kind::Mark, text }
}

fn rows_of(line: &Line, columns: usize) -> Vec<Row> {
    let sign = match line.kind {
        Kind::Added => '+',
        Kind::Removed => '-',
        Kind::Text | Kind::Note | Kind::Mark => ' ',
    };
    let wrapped = wrap(&line.text, columns - 2);
    // A note has no margin mark. Text of a call always has one, so it cannot look like a note.
    let (first, next) = if line.kind == Kind::Note { (' ', ' ') } else { ('│', '┊') };
    let margins = std::iter::once(first).chain(std::iter::repeat(next));
    let row = |(text, margin): (String, char)| Row {
        kind: line.kind,
        text: format!("{margin}{sign}{text}"),
    };
    wrapped.into_iter().zip(margins).map(row).collect()
}

/// Wraps one line into rows of at most `columns` columns. A row that continues in the next row ends
/// after a blank or before a blank if possible, but it is never made shorter than half its length
/// for this. All rows joined together are exactly the line.
#[must_use]
pub fn wrap(line: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(2);
    let mut rows = Vec::new();
    let mut rest = line;
    loop {
        let fits = fitting(rest, columns);
        if fits == rest.len() {
            rows.push(rest.to_owned());
            return rows;
        }
        let (row, _) = rest.split_at(fits);
        let blank = row.rfind(' ').map(|at| at + 1).filter(|at| *at > fits / 2);
        // If the next character is a blank, the row can end here at full width.
        let at = if rest.get(fits..).is_some_and(|next| next.starts_with(' ')) {
            fits
        } else {
            blank.unwrap_or(fits)
        };
        let (row, next) = rest.split_at(at);
        rows.push(row.to_owned());
        rest = next;
    }
}

/// Returns the number of bytes of a text that fit into the columns. The result covers at least one
/// character, even if that character is too wide.
fn fitting(text: &str, columns: usize) -> usize {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > columns && at > 0 {
            return at;
        }
    }
    text.len()
}

fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(texts: &[&str]) -> Vec<Line> {
        texts.iter().map(|text| Line { kind: Kind::Text, text: (*text).to_owned() }).collect()
    }

    fn shown(lines: &[Line], columns: usize, rows: usize, part: Section) -> String {
        let shown = lay_out(lines, Size { columns, rows }, part, "PgDn");
        assert!(shown.rows.len() <= rows.max(1), "{shown:?}");
        shown.rows.into_iter().map(|row| row.text).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn lines_that_fit_are_shown_whole_and_wrapped_ones_carry_a_mark() {
        let text = shown(
            &lines(&["a line", "one two three four five six seven", ""]),
            20,
            10,
            Section::Ends,
        );
        insta::assert_snapshot!(text, @r"
        │ a line
        │ one two three four
        ┊  five six seven
        │ 
        ");
    }

    #[test]
    fn of_lines_that_do_not_fit_head_and_tail_are_shown_with_the_number_between() {
        let numbers: Vec<String> = (1..=100).map(|number| number.to_string()).collect();
        let numbers = lines(&numbers.iter().map(String::as_str).collect::<Vec<_>>());
        insta::assert_snapshot!(shown(&numbers, 60, 6, Section::Ends), @r"
        │ 1
        │ 2
        │ 3
        ── 95 more lines here, PgDn shows them ──
        │ 99
        │ 100
        ");
        insta::assert_snapshot!(shown(&numbers, 24, 2, Section::Ends), @r"
        │ 1
        99 more lines: PgDn
        ");
        insta::assert_snapshot!(shown(&numbers, 12, 1, Section::Ends), @"+100");
        insta::assert_snapshot!(shown(&numbers, 60, 4, Section::Page(33)), @r"
        │ 100
        ── page 34 of 34, PgDn turns it ──
        ");
    }

    proptest! {
        #[test]
        fn the_rows_of_a_line_are_the_line_and_none_is_too_wide(line in "[ -~日あ✅]{0,300}", columns in 2_usize..60) {
            let rows = wrap(&line, columns);
            prop_assert_eq!(rows.concat(), line);
            prop_assert!(rows.iter().all(|row| width(row) <= columns), "{rows:?}");
        }

        #[test]
        fn the_pages_one_after_the_other_are_everything(
            texts in prop::collection::vec("[ -~日]{0,80}", 1..60), columns in 4_usize..80, rows in 1_usize..20,
        ) {
            let lines = lines(&texts.iter().map(String::as_str).collect::<Vec<_>>());
            let size = Size { columns, rows };
            let pages = lay_out(&lines, size, Section::Ends, "PgDn").pages;
            let all = (0..pages).flat_map(|page| lay_out(&lines, size, Section::Page(page), "PgDn").rows);
            let mut text: Vec<String> = Vec::new();
            for row in all.filter(|row| row.kind != Kind::Mark) {
                let piece: String = row.text.chars().skip(2).collect();
                match text.last_mut() {
                    Some(line) if row.text.starts_with('┊') => line.push_str(&piece),
                    Some(_) | None => text.push(piece),
                }
            }
            prop_assert_eq!(text, texts);
        }
    }
}
