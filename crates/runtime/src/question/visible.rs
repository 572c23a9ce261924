//! Text from outside with everything written out that a person could not see.

use pitcrew_protocol::is_unseen;

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
            ("a\u{61c}\u{600}\u{fff9}\u{fffb}b", "a<U+061C><U+0600><U+FFF9><U+FFFB>b"),
            ("\u{115f}\u{1160}\u{ffa0}\u{1d173}\u{34f}", "<U+115F><U+1160><U+FFA0><U+1D173><U+034F>"),
            ("\tif", "→   if"),
            ("naïve 日本語 ✅", "naïve 日本語 ✅"),
        ] {
            assert_eq!(visible(text), shown, "{text:?}");
        }
    }
    #[test]
    fn every_character_of_the_category_format_is_written_out() {
        let format = regex::Regex::new(r"^\p{Cf}$").unwrap();
        let raw: Vec<char> = ('\0'..=char::MAX)
            .filter(|c| format.is_match(c.encode_utf8(&mut [0; 4])))
            .filter(|c| visible(&c.to_string()).contains(*c))
            .collect();
        assert_eq!(raw, Vec::<char>::new());
    }
}
