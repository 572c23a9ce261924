//! Formats lines with their numbers, as `cat -n` does.

use std::fmt::Write as _;

/// Appends a line with its number to `text`. The line is cut after `most` characters.
pub(super) fn push_line(text: &mut String, number: usize, line: &str, most: usize) {
    let line = line.strip_suffix('\r').unwrap_or(line);
    // Writing into a string cannot fail. The result is therefore ignored.
    let _ = match line.char_indices().nth(most) {
        Some((end, _)) => {
            let shown = line.get(..end).unwrap_or(line);
            writeln!(text, "{number:>6}\t{shown}... [line cut]")
        }
        None => writeln!(text, "{number:>6}\t{line}"),
    };
}

/// The maximum number of lines in a snippet.
const SNIPPET_MOST: usize = 60;

/// Returns the numbered lines of a change that starts at byte `at` and is `len` bytes long.
/// `context` lines before and after the change are included.
pub(super) fn snippet(content: &str, at: usize, len: usize, context: usize, most: usize) -> String {
    let line_of = |byte: usize| {
        let before = content.bytes().take(byte);
        before.filter(|byte| *byte == b'\n').count()
    };
    let first = line_of(at).saturating_sub(context);
    let last = line_of(at + len.saturating_sub(1)).saturating_add(context);
    let mut text = String::new();
    let lines = content.lines().enumerate().take(last + 1).skip(first);
    for (index, line) in lines.take(SNIPPET_MOST) {
        push_line(&mut text, index + 1, line, most);
    }
    if last - first >= SNIPPET_MOST {
        // The model wrote the text that is not shown here, and so knows it.
        text.push_str("... [the rest is as given]\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_shows_the_lines_around_a_change() {
        let lines = "     2\tb\n     3\tc\n     4\td\n";
        assert_eq!(snippet("a\nb\nc\nd\ne\n", 4, 1, 1, 80), lines);
        assert_eq!(snippet("a\nb\nc\nd\ne\n", 4, 2, 1, 80), lines);
    }

    #[test]
    fn a_snippet_of_a_long_change_is_cut() {
        let content = "é\n".repeat(500);
        let text = snippet(&content, 0, content.len(), 4, 80);
        assert_eq!(text.lines().count(), SNIPPET_MOST + 1);
        assert!(text.ends_with("[the rest is as given]\n"));
    }

    #[test]
    fn a_long_line_is_cut_on_a_character() {
        let mut text = String::new();
        push_line(&mut text, 12, "äöü", 2);
        assert_eq!(text, "    12\täö... [line cut]\n");
    }
}
