//! Prepares texts from models, tools and files, so that a person can read them safely. The
//! resulting texts contain nothing that controls a terminal.

use std::borrow::Cow;

use pitcrew_protocol::is_unseen;

/// Returns the text with all characters replaced that could control a terminal or hide a part of
/// the text. These are control characters (except line breaks and tabs), marks that change the
/// writing direction, and invisible characters.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    // Most texts are plain ASCII, which is checked much faster.
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t'));
    if is_plain || !text.contains(|c: char| is_unseen(c) && !matches!(c, '\n' | '\t')) {
        return Cow::Borrowed(text);
    }
    let mut before = None;
    let shown = text.chars().map(|c| {
        let last = before.replace(c);
        // A joiner or variation selector after a visible non-ASCII character is harmless. Some
        // scripts and emoji need such a character.
        let joins = matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
            && last.is_some_and(|last: char| !last.is_ascii() && !is_unseen(last));
        let stays = matches!(c, '\n' | '\t') || joins || !is_unseen(c);
        match c {
            c if stays => c,
            // Replace unusual white space by a normal space.
            c if c.is_whitespace() && !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}') => {
                ' '
            }
            _ => '\u{fffd}',
        }
    });
    Cow::Owned(shown.collect())
}

/// Returns the first line of a text, shortened to `width` characters.
#[must_use]
pub fn first_line(text: &str, width: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let line = printable(line);
    if line.chars().count() <= width {
        return line.into_owned();
    }
    let kept: String = line.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// Returns the lines of a text joined into one line. Blank lines are left out.
#[must_use]
pub fn in_one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    printable(&lines.join(" | ")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_from_a_file_cannot_steer_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\u{202e}c\r"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}");
        assert_eq!(
            printable("a\u{2800}b\u{1d173}\u{61c}\u{600}r\u{200d}m"),
            "a\u{fffd}b\u{fffd}\u{fffd}\u{fffd}r\u{fffd}m"
        );
        assert_eq!(
            printable("👩\u{200d}💻 می\u{200c}خواهم a\u{a0}b"),
            "👩\u{200d}💻 می\u{200c}خواهم a b"
        );
        assert!(matches!(printable("plain\n\ttext"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_text_of_several_lines_is_put_into_one_whole() {
        assert_eq!(
            in_one_line("it died. Its screen:\n\n  a\x1b[2J  \n b\n"),
            "it died. Its screen: | a\u{fffd}[2J | b"
        );
    }

    #[test]
    fn a_long_line_is_cut_on_a_character() {
        assert_eq!(first_line("äöü and more\nnext", 4), "äöü…");
    }
}
