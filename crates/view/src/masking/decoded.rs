//! A text without its escapes, colours, and characters that nobody sees.

use std::ops::Range;

use pitcrew_team::CountedBytes;

/// A text in which something is encoded, and the places of its characters.
pub(super) struct Decoded {
    bytes: CountedBytes,
}

impl Decoded {
    /// Returns `None` if nothing in the text is encoded.
    pub(super) fn of(text: &str) -> Option<Self> {
        let is_sign = |c: char| matches!(c, '\\' | '%' | '&' | '^' | '\u{1b}') || !c.is_ascii();
        if !text.contains(is_sign) {
            return None;
        }
        let bytes = CountedBytes::with_spaces(text);
        (bytes.bytes() != text.as_bytes()).then_some(Self { bytes })
    }

    /// The decoded text.
    pub(super) fn words(&self) -> &str {
        // They are whole characters, because each character is decoded to one.
        str::from_utf8(self.bytes.bytes()).unwrap_or_default()
    }

    /// Returns the place of a range of the words in the encoded text.
    pub(super) fn place(&self, range: Range<usize>) -> Range<usize> {
        self.bytes.place(range)
    }
}
