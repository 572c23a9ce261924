//! Breaks styled text into rows, by the width of its characters on the screen. A character that
//! consists of several code points stays whole.

use ratatui::buffer::CellWidth as _;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::text::clean;

/// Minimum width of a row, so that a wide character fits.
const LEAST_COLUMNS: usize = 2;

/// What happens with the blanks at which a row is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blanks {
    /// All blanks stay. The rows together are exactly the text, as code needs it.
    Kept,
    /// The blanks at a break are dropped, as prose needs it.
    Dropped,
}

/// Wraps a text of several lines. No row is wider than `width`, if `width` is at least 2.
#[must_use]
pub fn wrap(text: &str, width: u16, style: Style) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let spans = [Span::styled(clean(line), style)];
        lines.extend(rows(&spans, usize::from(width), Blanks::Dropped).map(Line::from));
    }
    lines
}

/// Wraps one line into rows of at most `width` columns. An empty line is one empty row.
pub(crate) fn rows<'a>(
    spans: &'a [Span<'a>],
    width: usize,
    blanks: Blanks,
) -> impl Iterator<Item = Vec<Span<'static>>> {
    let glyphs = spans.iter().flat_map(|span| {
        span.styled_graphemes(Style::new()).map(|grapheme| Glyph {
            symbol: grapheme.symbol,
            style: grapheme.style,
            width: usize::from(grapheme.symbol.cell_width()),
        })
    });
    Rows {
        glyphs,
        row: Vec::new(),
        used: 0,
        width: width.max(LEAST_COLUMNS),
        blanks,
        is_first: true,
        is_done: false,
    }
}

/// Returns the width of spans on the screen.
pub(crate) fn width_of(spans: &[Span<'_>]) -> usize {
    let of_span = |span: &Span<'_>| -> usize {
        span.styled_graphemes(Style::new())
            .map(|grapheme| usize::from(grapheme.symbol.cell_width()))
            .sum()
    };
    spans.iter().map(of_span).sum()
}

/// A character as a person sees it.
#[derive(Clone, Copy, Debug)]
struct Glyph<'a> {
    symbol: &'a str,
    style: Style,
    width: usize,
}

impl Glyph<'_> {
    fn is_blank(&self) -> bool {
        self.symbol == " "
    }
}

/// The rows of a line. They are computed one by one, so that a caller can stop early.
struct Rows<'a, I> {
    glyphs: I,
    row: Vec<Glyph<'a>>,
    used: usize,
    width: usize,
    blanks: Blanks,
    is_first: bool,
    is_done: bool,
}

impl<'a, I: Iterator<Item = Glyph<'a>>> Iterator for Rows<'a, I> {
    type Item = Vec<Span<'static>>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_done {
            let Some(glyph) = self.glyphs.next() else {
                self.is_done = true;
                let last = std::mem::take(&mut self.row);
                return (self.is_first || !last.is_empty()).then(|| joined(&last));
            };
            // The terminal would not show a character without a width.
            if glyph.width == 0 {
                continue;
            }
            let at_break = self.row.is_empty() && !self.is_first;
            if at_break && glyph.is_blank() && self.blanks == Blanks::Dropped {
                continue;
            }
            if self.row.is_empty() || self.used + glyph.width <= self.width {
                self.used += glyph.width;
                self.row.push(glyph);
                continue;
            }
            return Some(self.broken(glyph));
        }
        None
    }
}

impl<'a, I> Rows<'a, I> {
    /// Returns the row that is full, and begins the next one with the rest and with `next`, which
    /// did not fit.
    fn broken(&mut self, next: Glyph<'a>) -> Vec<Span<'static>> {
        let is_dropped = next.is_blank() && self.blanks == Blanks::Dropped;
        let at = if next.is_blank() { self.row.len() } else { self.place_to_break(next.width) };
        let mut rest = self.row.split_off(at);
        rest.extend((!is_dropped).then_some(next));
        let mut row = std::mem::replace(&mut self.row, rest);
        if self.blanks == Blanks::Dropped {
            let kept = row.iter().rposition(|glyph| !glyph.is_blank()).map_or(0, |last| last + 1);
            row.truncate(kept);
        }
        self.used = self.row.iter().map(|glyph| glyph.width).sum();
        self.is_first = false;
        joined(&row)
    }

    /// Returns the place after the last blank of the row. If there is none, or if only blanks
    /// precede it, the row breaks within a word. The rest of the row must leave room for the next
    /// character.
    fn place_to_break(&self, next_width: usize) -> usize {
        let full = self.row.len();
        let Some(blank) = self.row.iter().rposition(Glyph::is_blank) else { return full };
        let at = blank + 1;
        let has_text = self.row.iter().take(at).any(|glyph| !glyph.is_blank());
        // Code is not made much narrower for the sake of a whole word.
        let is_far_enough = self.blanks == Blanks::Dropped || at > full / 2;
        let rest: usize = self.row.iter().skip(at).map(|glyph| glyph.width).sum();
        let has_room = rest + next_width <= self.width;
        if has_text && is_far_enough && has_room { at } else { full }
    }
}

/// Joins neighboring characters of the same style.
fn joined(glyphs: &[Glyph<'_>]) -> Vec<Span<'static>> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    for glyph in glyphs {
        match spans.last_mut() {
            Some(last) if last.style == glyph.style => last.content.to_mut().push_str(glyph.symbol),
            Some(_) | None => spans.push(Span::styled(glyph.symbol.to_owned(), glyph.style)),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(rows: impl Iterator<Item = Vec<Span<'static>>>) -> Vec<String> {
        rows.map(|row| row.iter().map(|span| span.content.as_ref()).collect()).collect()
    }

    fn wrapped(text: &str, width: usize, blanks: Blanks) -> Vec<String> {
        let spans = [Span::raw(text.to_owned())];
        text_of(rows(&spans, width, blanks))
    }

    #[test]
    fn prose_breaks_between_words_and_code_keeps_every_blank() {
        let text = "one two  three four";
        assert_eq!(wrapped(text, 9, Blanks::Dropped), ["one two", "three", "four"]);
        assert_eq!(wrapped(text, 9, Blanks::Kept).concat(), text);
        assert_eq!(wrapped("", 9, Blanks::Dropped), [""]);
        assert_eq!(wrapped("    indented", 8, Blanks::Dropped), ["    inde", "nted"]);
        assert_eq!(wrapped("exactly 9", 9, Blanks::Dropped), ["exactly 9"]);
        assert_eq!(wrapped("exactly 9   ", 9, Blanks::Dropped), ["exactly 9"]);
    }

    #[test]
    fn a_character_of_several_code_points_is_not_cut() {
        assert_eq!(wrapped("日本語", 4, Blanks::Kept), ["日本", "語"]);
        assert_eq!(wrapped("日本語", 3, Blanks::Kept), ["日", "本", "語"]);
        let family = "👩\u{200d}👩\u{200d}👧";
        let rows = wrapped(&family.repeat(3), 4, Blanks::Kept);
        assert_eq!(rows, [family.repeat(2), family.to_owned()]);
        assert_eq!(wrapped("ae\u{301}i", 2, Blanks::Kept), ["ae\u{301}", "i"]);
    }

    #[test]
    fn rows_are_the_text_and_none_is_too_wide() {
        let words =
            ["a", "  ", "日本", "x-very-long-word", " ", "é", "ｶﾞ", "✅", "\u{fffd}", "e\u{301}"];
        for seed in 0..2_000_usize {
            let text: String = (0..seed % 17)
                .filter_map(|at| words.get((seed / (at + 1) + at) % 10))
                .copied()
                .collect();
            for width in [3, 5, 11, 40] {
                let kept = wrapped(&text, width, Blanks::Kept);
                assert_eq!(kept.concat(), text, "{width}");
                let dropped = wrapped(&text, width, Blanks::Dropped);
                assert_eq!(dropped.concat().replace(' ', ""), text.replace(' ', ""), "{width}");
                for row in kept.iter().chain(&dropped) {
                    assert!(width_of(&[Span::raw(row.as_str())]) <= width, "{width}: {row:?}");
                }
            }
        }
    }

    #[test]
    fn neighbors_of_one_style_are_one_span() {
        let bold = Style::new().bold();
        let spans = [Span::styled("ab", bold), Span::styled("cd", bold), Span::raw("ef")];
        let rows: Vec<_> = rows(&spans, 5, Blanks::Kept).collect();
        assert_eq!(rows, [vec![Span::styled("abcd", bold), Span::raw("e")], vec![Span::raw("f")],]);
    }

    #[test]
    fn a_text_of_several_lines_keeps_its_lines() {
        let lines = wrap("a\u{1b}b\r\n\nlast", 20, Style::new());
        let texts: Vec<String> = lines.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["a\u{fffd}b", "", "last"]);
    }
}
