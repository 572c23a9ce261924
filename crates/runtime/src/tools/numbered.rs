//! Lines with their numbers, as `cat -n` writes them.

use std::fmt::Write as _;

/// Appends one numbered line, cut at `most` characters.
pub(super) fn push_line(text: &mut String, number: usize, line: &str, most: usize) {
    let line = line.strip_suffix('\r').unwrap_or(line);
    // Writing into a string cannot fail.
    let _ = match line.char_indices().nth(most) {
        Some((end, _)) => {
            let shown = line.get(..end).unwrap_or(line);
            writeln!(text, "{number:>6}\t{shown}... [line cut]")
        }
        None => writeln!(text, "{number:>6}\t{line}"),
    };
}

/// The lines around a change: from `context` lines before byte `at` to as many after `at + len`.
pub(super) fn snippet(content: &str, at: usize, len: usize, context: usize, most: usize) -> String {
    let line_of = |byte: usize| {
        let before = content.get(..byte).unwrap_or(content);
        before.bytes().filter(|byte| *byte == b'\n').count()
    };
    let first = line_of(at).saturating_sub(context);
    let last = line_of(at + len).saturating_add(context);
    let mut text = String::new();
    for (index, line) in content.lines().enumerate().take(last + 1).skip(first) {
        push_line(&mut text, index + 1, line, most);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_shows_the_lines_around_a_change() {
        insta::assert_snapshot!(snippet("a\nb\nc\nd\ne\n", 4, 1, 1, 80), @r"
        2	b
        3	c
        4	d
        ");
    }

    #[test]
    fn a_long_line_is_cut_on_a_character() {
        let mut text = String::new();
        push_line(&mut text, 12, "äöü", 2);
        assert_eq!(text, "    12\täö... [line cut]\n");
    }
}
