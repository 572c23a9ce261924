//! One cell of a table: a text in one line, with a fixed width on the screen.

use pitcrew_view::text::in_one_line;
use ratatui::buffer::CellWidth as _;
use ratatui::style::Style;
use ratatui::text::Span;

/// Maximum number of bytes of a text that are looked at for a cell. No screen is as wide.
const BYTES_MOST: usize = 4096;

/// Returns the text in one line of at most `width` columns. It is safe for a terminal, and ends
/// with `…` if a part of it is left out.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let looked_at = text.get(..text.floor_char_boundary(BYTES_MOST)).unwrap_or_default();
    // A tab has no fixed width.
    let line = in_one_line(looked_at).replace('\t', " ");
    if looked_at.len() == text.len() && width_of(&line) <= width {
        return line;
    }
    if width == 0 {
        return String::new();
    }
    let mut kept = String::with_capacity(width);
    let mut used = 0;
    for grapheme in Span::raw(&line).styled_graphemes(Style::new()) {
        used += usize::from(grapheme.symbol.cell_width());
        // One column is for the mark of the part that is left out.
        if used >= width {
            break;
        }
        kept.push_str(grapheme.symbol);
    }
    kept.truncate(kept.trim_end().len());
    kept.push('…');
    kept
}

/// Returns the width of a text in one line on the screen, in columns.
pub(crate) fn width_of(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    let graphemes = Span::raw(text);
    let graphemes = graphemes.styled_graphemes(Style::new());
    graphemes.map(|grapheme| usize::from(grapheme.symbol.cell_width())).sum()
}

/// Returns the text in exactly `width` columns: cut, or followed by spaces.
pub(crate) fn padded(text: &str, width: usize) -> String {
    let mut cell = cut(text, width);
    let free = width.saturating_sub(width_of(&cell));
    cell.extend(std::iter::repeat_n(' ', free));
    cell
}

/// Returns the text in exactly `width` columns, at their right end.
pub(crate) fn right_aligned(text: &str, width: usize) -> String {
    let cell = cut(text, width);
    let free = width.saturating_sub(width_of(&cell));
    format!("{}{cell}", " ".repeat(free))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cell_counts_columns_and_keeps_graphemes_whole() {
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(padded("日本語", 4), "日… ");
        assert_eq!(cut("ab👩\u{200d}💻cd", 4), "ab…");
        assert_eq!(right_aligned("7k", 4), "  7k");
        assert_eq!(cut("one\ntwo\u{1b}[2J", 20), "one | two\u{fffd}[2J");
        assert_eq!((cut("abc", 1), cut("abc", 0)), ("…".to_owned(), String::new()));
    }

    proptest! {
        #[test]
        fn a_cell_is_exactly_as_wide_as_its_column(text in ".{0,80}", width in 1..60_usize) {
            prop_assert_eq!(width_of(&padded(&text, width)), width);
            prop_assert_eq!(width_of(&right_aligned(&text, width)), width);
        }
    }
}
