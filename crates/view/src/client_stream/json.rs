//! Reads a JSON text in one pass and copies nothing. A known field becomes a part of the text. All
//! other values are checked and skipped.
//!
//! The reader accepts the texts that `serde_json` accepts, up to a depth of [`DEPTH_MOST`]; a test
//! compares the two. It exists for its speed: `docs/performance.md` has the comparison.

use std::borrow::Cow;

use super::raw::{Raw, unescaped};

/// Maximum depth of the lists and objects in a value. `serde_json` has the same limit for values
/// that it does not skip.
const DEPTH_MOST: u32 = 128;

/// Maximum number of entries that are kept of a list. A message has a few blocks.
pub(super) const ENTRIES_MOST: usize = 10_000;

/// The text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotJson;

pub(super) type Read<T> = Result<T, NotJson>;

/// A position in a JSON text.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

/// An object whose known fields are read.
pub(super) trait Fields<'a>: Default {
    /// Reads the value of the field with this name. If the name is not known, the value is skipped.
    /// If an object has a field twice, the later value counts.
    fn read_field(&mut self, name: &str, cursor: &mut Cursor<'a>) -> Read<()>;
}

/// A type of a known field. A value of an unexpected type counts as absent.
pub(super) trait Field<'a> {
    /// Reads the next value.
    fn read(&mut self, cursor: &mut Cursor<'a>) -> Read<()>;
}

/// Declares an object by its known fields, with their names in the text.
macro_rules! fields {
    (
        $(#[$meta:meta])*
        $vis:vis struct $object:ident<$a:lifetime> {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty = $name:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Default)]
        $vis struct $object<$a> {
            $($(#[$field_meta])* $field_vis $field: $type,)*
        }

        impl<$a> $crate::client_stream::json::Fields<$a> for $object<$a> {
            fn read_field(
                &mut self,
                name: &str,
                cursor: &mut $crate::client_stream::json::Cursor<$a>,
            ) -> $crate::client_stream::json::Read<()> {
                match name {
                    $($name => $crate::client_stream::json::Field::read(&mut self.$field, cursor),)*
                    _ => cursor.skip(),
                }
            }
        }
    };
}
pub(super) use fields;

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the number of bytes before the cursor.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    /// Skips white space and returns the next byte, which stays the next byte.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.byte() {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                next => return next,
            }
        }
    }

    /// Reads the next value if it is an object, and returns true. Skips any other value.
    pub(super) fn object<T: Fields<'a>>(&mut self, object: &mut T) -> Read<bool> {
        if self.peek() != Some(b'{') {
            self.skip()?;
            return Ok(false);
        }
        self.at += 1;
        if self.takes(b'}') {
            return Ok(true);
        }
        loop {
            let name = self.name()?;
            object.read_field(&name, self)?;
            if !self.goes_on(b'}')? {
                return Ok(true);
            }
        }
    }

    /// Reads the objects of the next value if it is a list. Other entries are left out.
    pub(super) fn objects<T: Fields<'a>>(&mut self) -> Read<Vec<T>> {
        let mut objects = Vec::new();
        self.list(|cursor| {
            if objects.len() == ENTRIES_MOST {
                return cursor.skip();
            }
            // Most messages have one block.
            if objects.is_empty() {
                objects.reserve_exact(1);
            }
            objects.push(T::default());
            if let Some(object) = objects.last_mut()
                && !cursor.object(object)?
            {
                objects.pop();
            }
            Ok(())
        })?;
        Ok(objects)
    }

    /// Reads the next value with `read_entry`, entry by entry, if it is a list. Skips any other
    /// value.
    pub(super) fn list(&mut self, mut read_entry: impl FnMut(&mut Self) -> Read<()>) -> Read<()> {
        if self.peek() != Some(b'[') {
            return self.skip();
        }
        self.at += 1;
        if self.takes(b']') {
            return Ok(());
        }
        loop {
            read_entry(self)?;
            if !self.goes_on(b']')? {
                return Ok(());
            }
        }
    }

    /// Reads the next value.
    #[inline]
    pub(super) fn raw(&mut self) -> Read<Raw<'a>> {
        let first = self.peek();
        let start = self.at;
        if first == Some(b'"') {
            let (text, has_escape) = self.string()?;
            return if has_escape {
                self.since(start).map(Raw::Escaped)
            } else {
                Ok(Raw::Text(text))
            };
        }
        self.skip()?;
        Ok(if first == Some(b'n') { Raw::Absent } else { Raw::Other(self.since(start)?) })
    }

    /// Checks the next value and moves behind it.
    pub(super) fn skip(&mut self) -> Read<()> {
        let mut around = Around::default();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.string()?;
                }
                Some(b'{') => {
                    self.at += 1;
                    if !self.takes(b'}') {
                        around.enter(b'}')?;
                        self.skip_name()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.at += 1;
                    if !self.takes(b']') {
                        around.enter(b']')?;
                        continue;
                    }
                }
                Some(b't') => self.literal(b"true")?,
                Some(b'f') => self.literal(b"false")?,
                Some(b'n') => self.literal(b"null")?,
                _ => self.number()?,
            }
            if !self.next_entry(&mut around)? {
                return Ok(());
            }
        }
    }

    /// Moves from the end of a value to the next value of the lists and objects around it. Returns
    /// false if there is none.
    fn next_entry(&mut self, around: &mut Around) -> Read<bool> {
        while let Some(end) = around.end() {
            if self.goes_on(end)? {
                if end == b'}' {
                    self.skip_name()?;
                }
                return Ok(true);
            }
            around.leave();
        }
        Ok(false)
    }

    /// Moves behind the comma after an entry and returns true, or behind the end of the list or
    /// object and returns false.
    #[inline]
    fn goes_on(&mut self, end: u8) -> Read<bool> {
        let next = self.peek();
        self.at += 1;
        match next {
            Some(b',') => Ok(true),
            Some(byte) if byte == end => Ok(false),
            _ => Err(NotJson),
        }
    }

    /// Moves behind the next byte if it is this one.
    fn takes(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Moves behind the name of a field and the colon. Returns the name.
    #[inline]
    fn name(&mut self) -> Read<Cow<'a, str>> {
        self.peek();
        let start = self.at;
        let (name, has_escape) = self.string()?;
        let name = if has_escape {
            Cow::Owned(unescaped(self.since(start)?).unwrap_or_default())
        } else {
            Cow::Borrowed(name)
        };
        if self.takes(b':') { Ok(name) } else { Err(NotJson) }
    }

    fn skip_name(&mut self) -> Read<()> {
        self.peek();
        self.string()?;
        if self.takes(b':') { Ok(()) } else { Err(NotJson) }
    }

    /// Returns the text from `start` to the cursor.
    pub(super) fn since(&self, start: usize) -> Read<&'a str> {
        self.text.get(start..self.at).ok_or(NotJson)
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn literal<const LENGTH: usize>(&mut self, literal: &[u8; LENGTH]) -> Read<()> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        self.at += LENGTH;
        if rest.first_chunk() == Some(literal) { Ok(()) } else { Err(NotJson) }
    }

    fn number(&mut self) -> Read<()> {
        if self.byte() == Some(b'-') {
            self.at += 1;
        }
        // No digit follows a zero at the beginning.
        if self.byte() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.byte(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.byte(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Read<()> {
        let start = self.at;
        while self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(NotJson) }
    }

    /// Moves behind a string. Returns the text between its quotes, and whether it has an escape.
    #[inline(always)]
    fn string(&mut self) -> Read<(&'a str, bool)> {
        if self.byte() != Some(b'"') {
            return Err(NotJson);
        }
        let bytes = self.text.as_bytes();
        let start = self.at + 1;
        let mut at = start;
        let mut has_escape = false;
        loop {
            at = special(bytes, at);
            match bytes.get(at) {
                Some(b'"') => {
                    self.at = at + 1;
                    let text = self.text.get(start..at).ok_or(NotJson)?;
                    return Ok((text, has_escape));
                }
                Some(b'\\') => {
                    has_escape = true;
                    at += escape_length(bytes.get(at + 1..).unwrap_or_default())?;
                }
                // A control character, or the end of the text.
                Some(_) | None => return Err(NotJson),
            }
        }
    }
}

/// The lists and objects around a value.
#[derive(Clone, Copy, Debug, Default)]
struct Around {
    depth: u32,
    /// One bit for each level, the innermost lowest. A set bit is an object.
    objects: u128,
}

impl Around {
    /// Enters a list or object that ends with this byte.
    fn enter(&mut self, end: u8) -> Read<()> {
        if self.depth == DEPTH_MOST {
            return Err(NotJson);
        }
        self.depth += 1;
        self.objects = (self.objects << 1) | u128::from(end == b'}');
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
        self.objects >>= 1;
    }

    /// Returns the byte that ends the innermost list or object.
    fn end(self) -> Option<u8> {
        let end = if self.objects & 1 == 1 { b'}' } else { b']' };
        (self.depth > 0).then_some(end)
    }
}

/// Returns the length of an escape. `after` is the text after the backslash.
#[inline(always)]
fn escape_length(after: &[u8]) -> Read<usize> {
    match after {
        [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => Ok(2),
        [b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|byte| byte.is_ascii_hexdigit()) => Ok(6),
        _ => Err(NotJson),
    }
}

/// Returns the position of the first byte from `at` on that does not stand for itself in a string:
/// a quote, a backslash or a control character. Returns the end of the text if there is none.
#[inline]
fn special(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    // Texts in texts have many escapes in a row.
    if rest.first().is_some_and(|byte| is_special(*byte)) {
        return at;
    }
    let (words, tail) = rest.as_chunks::<8>();
    for (n, word) in words.iter().enumerate() {
        let found = specials(u64::from_le_bytes(*word));
        if found != 0 {
            return at + n * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let in_tail = tail.iter().position(|byte| is_special(*byte)).unwrap_or(tail.len());
    at + words.len() * 8 + in_tail
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..0x20)
}

/// Returns a word whose lowest set bit is in the first special byte of `word`. Subtraction sets the
/// highest bit of a byte that was below the subtrahend; a byte above the first such byte can be
/// wrong by the borrow. It is the test of Mycroft, which `serde_json` uses too.
fn specials(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
    // With this bit turned, the quote follows the control characters and no other byte does.
    let controls_or_quote = below(word ^ (ONES * 2), 0x21);
    let backslash = below(word ^ (ONES * u64::from(b'\\')), 1);
    (controls_or_quote | backslash) & (ONES << 7)
}

#[cfg(test)]
mod tests {
    use serde::de::IgnoredAny;

    use super::*;

    fn accepts(text: &str) -> bool {
        let mut cursor = Cursor::new(text);
        cursor.skip().is_ok() && cursor.peek().is_none()
    }

    #[track_caller]
    fn check(text: &str) {
        let expected = serde_json::from_str::<IgnoredAny>(text).is_ok();
        assert_eq!(accepts(text), expected, "{text:?}");
    }

    const HARD: &str = concat!(
        r#" {"a": [1, -0.5e+3, true ,false, null, "x\u00e9\n", {}],"b\"\\":{"c":[], "#,
        r#""d":"long enough for words of eight","e":0,"f":[[1E9]]}} "#
    );

    #[test]
    fn the_same_texts_are_accepted_as_by_serde_json() {
        check(HARD);
        assert!(accepts(HARD));
        let others = b" \t\n\x01\"\\{}[]:,-+.eE09anulftr/x\x7f";
        for (at, _) in HARD.char_indices() {
            let (before, after) = HARD.split_at(at);
            check(before);
            check(after);
            check(&format!("{before}{}", &after[1..]));
            for other in others {
                let other = char::from(*other);
                check(&format!("{before}{other}{after}"));
                check(&format!("{before}{other}{}", &after[1..]));
            }
        }
    }

    #[test]
    fn a_special_byte_is_found_at_every_place() {
        for before in 0..20 {
            for special_byte in ['"', '\\', '\n', '\0', '\u{1f}'] {
                let text = format!("{}{special_byte}\"{}", "ä".repeat(before), "\"".repeat(9));
                assert_eq!(special(text.as_bytes(), 0), before * 2, "{text:?}");
            }
        }
        assert_eq!(special("a long text without them!".as_bytes(), 2), 25);
    }

    #[test]
    fn the_depth_of_a_value_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(accepts(&nested(DEPTH_MOST as usize + 1)));
        assert!(!accepts(&nested(DEPTH_MOST as usize + 2)));
        assert!(!accepts(&"[".repeat(1_000_000)));
    }

    #[test]
    fn the_number_of_entries_that_are_kept_is_bounded() {
        fields! {
            struct Any<'a> {
                id: Raw<'a> = "id",
            }
        }
        let many = format!("[{}1]", r#"{"id":1},"#.repeat(ENTRIES_MOST + 5));
        let objects = Cursor::new(&many).objects::<Any<'_>>().unwrap();
        assert_eq!(objects.len(), ENTRIES_MOST);
        assert_eq!(objects[0].id.count(), Some(1));
    }

    #[test]
    fn a_name_with_an_escape_is_known_and_the_later_of_two_values_counts() {
        fields! {
            struct Any<'a> {
                id: Raw<'a> = "id",
            }
        }
        let mut any = Any::default();
        let text = r#"{"id":1,"i\u0064":2,"other":[{"id":3}]}"#;
        assert_eq!(Cursor::new(text).object(&mut any), Ok(true));
        assert_eq!(any.id.count(), Some(2));
    }
}
