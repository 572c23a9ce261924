//! Draws the difference between two texts: the changed lines with their neighbors, each with its
//! number, and with `+` or `-`.

use std::time::Duration;

use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use similar::{Change, ChangeTag, DiffOp, TextDiff};

use super::code::{Effort, Highlighter, grammar_of_file};
use super::wrap::{Blanks, rows, width_of};
use crate::theme::Theme;

/// Time limit for finding the shortest diff. After this time, a longer diff is accepted.
const MOST_TIME: Duration = Duration::from_millis(200);

/// Number of unchanged lines that are drawn around a change.
const CONTEXT_LINES: usize = 3;

/// Whether lines have their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    Shown,
    /// For pieces of a file whose place in the file is not known.
    Hidden,
}

/// A row of a diff, with its place in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffRow {
    /// The row as it is drawn.
    pub line: Line<'static>,
    /// The line of the file to which the row belongs. `None` for a row of its own, such as the sign
    /// for lines that are left out.
    pub place: Option<DiffPlace>,
}

/// A line in one of the two versions of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffPlace {
    /// The number of the line, from 1 on. It is the number in the old version if the line was
    /// removed, and otherwise the number in the new version.
    pub number: usize,
    /// `+` for an added line, `-` for a removed line, a blank for an unchanged line.
    pub sign: char,
    /// The text of the line.
    pub text: String,
}

/// Draws the difference between two versions of the file `path`. The lines have their numbers.
#[must_use]
pub fn diff(old: &str, new: &str, path: &str, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    diff_rows(old, new, path, width, theme).into_iter().map(|row| row.line).collect()
}

/// Draws the difference between two versions of the file `path`. Each row has its place in the
/// file.
#[must_use]
pub fn diff_rows(old: &str, new: &str, path: &str, width: u16, theme: &Theme) -> Vec<DiffRow> {
    changes(old, new, path, usize::from(width), theme, Numbers::Shown)
}

/// Draws the difference between two texts of the file `path`.
pub(super) fn changes(
    old: &str,
    new: &str,
    path: &str,
    width: usize,
    theme: &Theme,
    numbers: Numbers,
) -> Vec<DiffRow> {
    let compared = TextDiff::configure().timeout(MOST_TIME).diff_lines(old, new);
    let hunks = compared.grouped_ops(CONTEXT_LINES);
    if hunks.is_empty() {
        let line = Line::styled("no difference", theme.dim);
        return vec![DiffRow { line, place: None }];
    }
    let breaks = Breaks::of(old, new);
    // Each version is highlighted from its start, because the meaning of a line depends on the
    // lines before it.
    let highlighted = |lines: &mut dyn Iterator<Item = &str>| {
        let mut effort = Effort::default();
        let mut highlighter = Highlighter::new(grammar_of_file(path), theme, &mut effort);
        lines.map(|line| highlighter.line(breaks.without(line))).collect::<Vec<_>>()
    };
    let last = hunks.iter().flatten().map(last_line).max().unwrap_or_default();
    let mut drawing = Drawing {
        theme,
        width,
        digits: match numbers {
            Numbers::Shown => last.to_string().len(),
            Numbers::Hidden => 0,
        },
        old: highlighted(&mut compared.iter_old_slices()),
        new: highlighted(&mut compared.iter_new_slices()),
        rows: Vec::new(),
    };
    for (at, hunk) in hunks.iter().enumerate() {
        if at > 0 {
            drawing.gap();
        }
        for change in hunk.iter().flat_map(|operation| compared.iter_changes(operation)) {
            drawing.change(&change);
        }
    }
    drawing.rows
}

fn last_line(operation: &DiffOp) -> usize {
    operation.old_range().end.max(operation.new_range().end)
}

/// The line breaks of both texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Breaks {
    /// All line breaks are `\r\n`.
    Windows,
    /// Line breaks are `\n`. A carriage return is a difference that a person must see.
    Unix,
}

impl Breaks {
    fn of(old: &str, new: &str) -> Self {
        let is_windows = |text: &str| text.matches('\n').count() == text.matches("\r\n").count();
        if is_windows(old) && is_windows(new) { Self::Windows } else { Self::Unix }
    }

    fn without(self, line: &str) -> &str {
        let bare = line.strip_suffix('\n').unwrap_or(line);
        match self {
            Self::Windows if bare.len() < line.len() => bare.strip_suffix('\r').unwrap_or(bare),
            Self::Windows | Self::Unix => bare,
        }
    }
}

/// The lines of a diff as they are drawn.
struct Drawing<'t> {
    theme: &'t Theme,
    width: usize,
    /// The width of the line numbers, or 0 if there are none.
    digits: usize,
    old: Vec<Vec<Span<'static>>>,
    new: Vec<Vec<Span<'static>>>,
    rows: Vec<DiffRow>,
}

impl Drawing<'_> {
    /// Draws the sign for lines that are left out.
    fn gap(&mut self) {
        let gutter = " ".repeat(self.digits);
        self.push(Line::styled(format!("{gutter}⋮"), self.theme.dim), None);
    }

    fn change(&mut self, change: &Change<&str>) {
        let Theme { text, added, removed, added_line, removed_line, .. } = *self.theme;
        let of_old = || change.old_index().and_then(|index| self.old.get(index));
        let of_new = || change.new_index().and_then(|index| self.new.get(index));
        let (sign, style, whole, spans) = match change.tag() {
            ChangeTag::Equal => (' ', text, Style::new(), of_new()),
            ChangeTag::Delete => ('-', removed, removed_line, of_old()),
            ChangeTag::Insert => ('+', added, added_line, of_new()),
        };
        let spans = spans.cloned().unwrap_or_default();
        let number = change.new_index().or(change.old_index()).map_or(0, |index| index + 1);
        let text: String = spans.iter().map(|span| span.content.as_ref()).collect();
        let sign_span = Span::styled(sign.to_string(), style.patch(whole));
        self.line(&DiffPlace { number, sign, text }, sign_span, &spans, whole);
        // A piece of a file does not end with a line break where the file has one.
        if change.missing_newline() && self.digits > 0 {
            let gutter = " ".repeat(self.gutter());
            let note = format!("{gutter}(no line break at the end)");
            self.push(Line::styled(note, self.theme.dim), None);
        }
    }

    /// Draws one line of a text. It takes several rows if it is too wide.
    fn line(&mut self, place: &DiffPlace, sign: Span<'static>, spans: &[Span<'_>], whole: Style) {
        let gutter = self.gutter();
        let number = match self.digits {
            0 => String::new(),
            digits => format!("{:>digits$} ", place.number),
        };
        let first =
            [Span::styled(number, self.theme.dim.patch(whole)), sign, Span::styled(" ", whole)];
        let mut first = Some(first);
        for row in rows(spans, self.width.saturating_sub(gutter), Blanks::Kept) {
            let mut line = match first.take() {
                Some(first) => Vec::from(first),
                None => vec![Span::styled(" ".repeat(gutter), whole)],
            };
            line.extend(row.into_iter().map(|span| {
                let style = whole.patch(span.style);
                span.style(style)
            }));
            // The color of a changed line reaches to the edge.
            let left = self.width.saturating_sub(width_of(&line));
            let is_filled = whole.bg.is_some_and(|color| color != Color::Reset) && left > 0;
            line.extend(is_filled.then(|| Span::styled(" ".repeat(left), whole)));
            self.push(Line::from(line), Some(place.clone()));
        }
    }

    fn push(&mut self, line: Line<'static>, place: Option<DiffPlace>) {
        self.rows.push(DiffRow { line, place });
    }

    /// Returns the width of everything before the text of a line: the number, the sign, and a blank
    /// after each.
    fn gutter(&self) -> usize {
        match self.digits {
            0 => 2,
            digits => digits + 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::ThemeKind;

    fn drawn(old: &str, new: &str, width: u16, kind: ThemeKind) -> String {
        let lines = diff(old, new, "a.rs", width, &Theme::new(kind));
        let line = |line: &Line<'_>| line.to_string().trim_end().to_owned();
        lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn changed_lines_have_a_sign_and_a_number_and_their_neighbors() {
        let old: String = (1..=30).map(|number| format!("line {number}\n")).collect();
        let new = old.replace("line 5\n", "line five\nand a half\n").replace("line 20\n", "");
        insta::assert_snapshot!(drawn(&old, &new, 40, ThemeKind::NoColor), @r"
         2   line 2
         3   line 3
         4   line 4
         5 - line 5
         5 + line five
         6 + and a half
         7   line 6
         8   line 7
         9   line 8
          ⋮
        18   line 17
        19   line 18
        20   line 19
        20 - line 20
        21   line 21
        22   line 22
        23   line 23
        ");
    }

    #[test]
    fn a_changed_line_is_as_wide_as_the_screen_and_a_long_one_takes_more_rows() {
        let theme = Theme::new(ThemeKind::Dark);
        let lines = diff("", "let a = 1;\nlet name = \"a long string\";", "a.rs", 20, &theme);
        insta::assert_snapshot!(drawn("", "let a = 1;\nlet name = \"a long string\";", 20, ThemeKind::Dark), @r#"
        1 + let a = 1;
        2 + let name = "a
            long string";
            (no line break at the end)
        "#);
        let rows: Vec<&Line<'_>> = lines.iter().take(3).collect();
        assert!(rows.iter().all(|row| width_of(&row.spans) == 20), "{rows:?}");
        let spans = || rows.iter().flat_map(|row| &row.spans);
        assert!(spans().all(|span| span.style.bg == theme.added_line.bg), "{rows:?}");
        assert!(spans().any(|span| span.style.fg == theme.syntax.keyword.fg), "{rows:?}");
    }

    #[test]
    fn a_change_of_line_breaks_is_seen_and_windows_line_breaks_alone_are_not() {
        insta::assert_snapshot!(drawn("a\r\nb\r\n", "a\r\nc\r\n", 40, ThemeKind::NoColor), @r"
        1   a
        2 - b
        2 + c
        ");
        insta::assert_snapshot!(drawn("a\n", "a\r\n", 40, ThemeKind::NoColor), @r"
        1 - a
        1 + a�
        ");
        assert_eq!(drawn("a\n", "a\n", 40, ThemeKind::Dark), "no difference");
    }
}
