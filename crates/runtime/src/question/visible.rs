//! Text from outside with everything written out that a person could not see.

use pitcrew_protocol::is_invisible;

/// What a tab is shown as.
const TAB: &str = "→   ";

/// The text with each character written out as `<U+202E>` that steers a terminal, turns the direction of writing, or looks
/// like a space or like nothing. Line breaks stay; a tab is shown as an arrow.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | ' ' => shown.push(c),
            '\t' => shown.push_str(TAB),
            c if is_unseen(c) => shown.push_str(&format!("<U+{:04X}>", u32::from(c))),
            c => shown.push(c),
        }
    }
    shown
}

/// Whether a reader would take a character for another one, or for none.
fn is_unseen(c: char) -> bool {
    let is_blank = matches!(c, '\u{34F}' | '\u{17B4}' | '\u{17B5}' | '\u{2800}' | '\u{1D173}'..='\u{1D17A}');
    c.is_control() || c.is_whitespace() || is_invisible(c) || is_blank
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_seen_is_written_out() {
        for (text, shown) in [
            ("ls -la\nrm x", "ls -la\nrm x"),
            ("a\u{1b}[2Jb\rc\u{8}", "a<U+001B>[2Jb<U+000D>c<U+0008>"),
            ("\u{202e}txt.exe\u{2066}", "<U+202E>txt.exe<U+2066>"),
            ("r\u{200b}m a\u{a0}b\u{3000}c\u{2028}d", "r<U+200B>m a<U+00A0>b<U+3000>c<U+2028>d"),
            ("x\u{e0041}\u{fe0f}\u{2800}\u{3164}", "x<U+E0041><U+FE0F><U+2800><U+3164>"),
            ("\tif", "→   if"),
            ("naïve 日本語 ✅", "naïve 日本語 ✅"),
        ] {
            assert_eq!(visible(text), shown, "{text:?}");
        }
    }
}
