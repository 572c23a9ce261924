//! Prepares one line of a text from outside for cells of a terminal.

use std::borrow::Cow;

use pitcrew_view::text::printable;
use unicode_width::UnicodeWidthChar as _;

/// The distance between two tab stops, in columns.
const TAB_STOP: usize = 4;

/// Maximum number of combining marks on one character. A character with more marks could cover the
/// neighboring rows.
const MOST_MARKS: usize = 3;

/// The sign in place of a character that is not shown.
const REPLACEMENT: char = '\u{fffd}';

/// Returns a line with nothing in it that controls a terminal or is invisible. Tabs become blanks.
pub(crate) fn clean(line: &str) -> Cow<'_, str> {
    let printable = printable(line);
    let is_simple = |byte: u8| byte.is_ascii() && !byte.is_ascii_control();
    if printable.bytes().all(is_simple) {
        return printable;
    }
    let (mut shown, mut column, mut marks) = (String::with_capacity(printable.len()), 0, 0);
    for c in printable.chars() {
        let width = c.width().unwrap_or_default();
        marks = if is_mark(c) { marks + 1 } else { 0 };
        match c {
            '\t' => {
                let blanks = TAB_STOP - column % TAB_STOP;
                shown.extend(std::iter::repeat_n(' ', blanks));
                column += blanks;
            }
            '\n' => {
                shown.push(' ');
                column += 1;
            }
            _ if marks > MOST_MARKS => {
                shown.push(REPLACEMENT);
                column += 1;
            }
            c => {
                shown.push(c);
                column += width;
            }
        }
    }
    Cow::Owned(shown)
}

/// Whether `c` is drawn on the character before it. The joiners and variation selectors of emoji
/// are no marks.
fn is_mark(c: char) -> bool {
    c.width() == Some(0) && !matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_line_controls_the_terminal() {
        assert_eq!(clean("a\u{1b}[2Jb\u{202e}c"), "a\u{fffd}[2Jb\u{fffd}c");
        assert!(matches!(clean("plain text"), Cow::Borrowed(_)));
    }

    #[test]
    fn tabs_reach_to_the_next_stop_also_after_wide_characters() {
        assert_eq!(clean("\ta\tb"), "    a   b");
        assert_eq!(clean("日\tb"), "日  b");
    }

    #[test]
    fn a_pile_of_combining_marks_does_not_reach_other_rows() {
        let shown = clean(&format!("a{}b", "\u{301}".repeat(40))).into_owned();
        assert_eq!(shown.matches('\u{301}').count(), MOST_MARKS);
        assert_eq!(clean("ที่นี่ हिन्दी 👩\u{200d}💻"), "ที่นี่ हिन्दी 👩\u{200d}💻");
    }
}
