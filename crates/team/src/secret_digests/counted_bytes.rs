//! The bytes of a text that count for a digest.
//!
//! Programs write the same value in many ways: broken into lines, in a frame, in a JSON string, in
//! an address, in HTML, and one of these in another. [`CountedBytes`] undoes this, for a value and
//! for a text alike. Then the value is found in each of these forms by one digest.

use std::ops::Range;

/// The maximum number of encodings around a value.
const ENCODINGS_MOST: usize = 6;

/// The maximum number of characters of a terminal's command in a text, as of a colour, and of one with
/// a text, as of a link.
const COMMAND_CHARS: usize = 24;
const TEXT_COMMAND_CHARS: usize = 2048;

/// The maximum number of characters between `&` and `;` of a character reference in HTML.
const REFERENCE_CHARS: usize = 16;

/// The named character references of HTML that programs write for text.
const REFERENCES: &[(&str, char)] = &[
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", '\u{a0}'),
    ("shy", '\u{ad}'),
    ("ZeroWidthSpace", '\u{200b}'),
    ("lowbar", '_'),
    ("hyphen", '-'),
    ("dash", '-'),
    ("period", '.'),
    ("sol", '/'),
    ("plus", '+'),
    ("equals", '='),
];

/// The bytes of a text that count, and their places in the text.
///
/// What a program can put into a text when it breaks it into lines or encodes it does not count:
/// white space, control characters, colours of a terminal, characters that nobody sees, the lines of a
/// frame, and backslashes with the letter of `\n`, `\r` and `\t`. An escape counts as the character
/// for which it stands: `\u0026` in JSON, `\x26` in source code, `%26` in an address, and `&amp;` or
/// `&#38;` in HTML.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountedBytes {
    bytes: Vec<u8>,
    /// For each byte the place of its character, or of the escape that stands for the character.
    places: Vec<Range<usize>>,
}

/// Whether white space counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spaces {
    Removed,
    Kept,
}

/// A character and its place in the text.
type Placed = (char, Range<usize>);

impl CountedBytes {
    /// Returns the counted bytes of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self::decoding(text, Spaces::Removed)
    }

    /// Returns the bytes of a text without its encodings, in which the words stay apart: white space
    /// counts too, and `\n`, `\r` and `\t` are white space.
    #[must_use]
    pub fn with_spaces(text: &str) -> Self {
        Self::decoding(text, Spaces::Kept)
    }

    fn decoding(text: &str, spaces: Spaces) -> Self {
        let mut chars: Vec<Placed> =
            text.char_indices().map(|(at, c)| (c, at..at + c.len_utf8())).collect();
        for _ in 0..ENCODINGS_MOST {
            let before = chars.len();
            chars = decoded(&chars, spaces);
            if chars.len() == before {
                break;
            }
        }
        let mut counted = Self::default();
        for (c, place) in chars {
            let bytes = c.encode_utf8(&mut [0; 4]).len();
            counted.bytes.extend(c.encode_utf8(&mut [0; 4]).bytes());
            counted.places.extend(std::iter::repeat_n(place, bytes));
        }
        counted
    }

    /// Returns the bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the place of a range of the bytes in the text. It ends directly after the last byte,
    /// before what follows and does not count.
    #[must_use]
    pub fn place(&self, range: Range<usize>) -> Range<usize> {
        match self.places.get(range) {
            Some([first, .., last]) => first.start..last.end,
            Some([only]) => only.clone(),
            Some([]) | None => 0..0,
        }
    }

    /// Returns true if the text has nothing between these bytes that does not count.
    #[must_use]
    pub fn is_one_word(&self, range: Range<usize>) -> bool {
        let places = self.places.get(range).unwrap_or_default();
        places.windows(2).all(|pair| match pair {
            [before, after] => before == after || before.end == after.start,
            _ => true,
        })
    }
}

/// Removes one encoding, and what does not count.
fn decoded(chars: &[Placed], spaces: Spaces) -> Vec<Placed> {
    let mut all = Vec::with_capacity(chars.len());
    let mut rest = chars;
    while let [(first, place), others @ ..] = rest {
        if let Some((c, length)) = escape(rest)
            && let Some((_, last)) = rest.get(length - 1)
        {
            all.push((c, place.start..last.end));
            rest = rest.get(length..).unwrap_or_default();
        } else if let Some(length) = command_length(rest) {
            rest = rest.get(length..).unwrap_or_default();
        } else if *first == '\\'
            && let [(letter @ ('n' | 'r' | 't'), end), others @ ..] = others
        {
            if spaces == Spaces::Kept {
                let space = if *letter == 't' { '\t' } else { '\n' };
                all.push((space, place.start..end.end));
            }
            rest = others;
        } else {
            if counts(*first) || (spaces == Spaces::Kept && first.is_whitespace()) {
                all.push((*first, place.clone()));
            }
            rest = others;
        }
    }
    all
}

fn counts(c: char) -> bool {
    let is_frame = ('\u{2500}'..='\u{257f}').contains(&c);
    !(is_frame || c == '\\' || c.is_whitespace() || c.is_control() || is_invisible(c))
}

/// Whether a character takes no room. One of these in a value would hide the value from a search.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}' | '\u{300}'..='\u{36f}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Returns the length of the command for a terminal with which `chars` begin, such as a colour or the
/// address of a link. Some programs write the character that begins a command as text.
fn command_length(chars: &[Placed]) -> Option<usize> {
    let begin = match chars {
        [('\u{1b}', _), ..] => 1,
        [('\u{9b}', _), rest @ ..] => return end_of_command(rest).map(|length| length + 1),
        [('\\', _), ('e', _), ('[', _), ..] | [('^', _), ('[', _), ('[', _), ..] => 2,
        [('\\', _), ('0', _), ('3', _), ('3', _), ('[', _), ..] => 4,
        _ => return None,
    };
    match chars.get(begin..)? {
        [('[', _), rest @ ..] => end_of_command(rest).map(|length| begin + 1 + length),
        [(']', _), rest @ ..] => {
            let is_end = |at: usize| match rest.get(at..) {
                Some([('\u{7}', _), ..]) => Some(at + 1),
                Some([('\u{1b}', _), ('\\', _), ..]) => Some(at + 2),
                _ => None,
            };
            let length = (0..rest.len().min(TEXT_COMMAND_CHARS)).find_map(is_end)?;
            Some(begin + 1 + length)
        }
        [('(' | ')', _), _, ..] => Some(begin + 2),
        _ => None,
    }
}

/// Returns the length of the rest of a command: its numbers, and the letter that ends it.
fn end_of_command(rest: &[Placed]) -> Option<usize> {
    let is_number = |(c, _): &&Placed| matches!(c, '0'..='?');
    let length = rest.iter().take(COMMAND_CHARS).take_while(is_number).count();
    matches!(rest.get(length), Some(('@'..='~', _))).then_some(length + 1)
}

/// Returns the character of the escape with which `chars` begin, and the length of the escape.
fn escape(chars: &[Placed]) -> Option<(char, usize)> {
    match chars {
        [('%', _), ..] => of_bytes(chars, &['%']),
        [('\\', _), ('x', _), ..] => of_bytes(chars, &['\\', 'x']),
        [('\\', _), ('u', _), ('{', _), rest @ ..] => of_braces(rest),
        [('\\', _), ('u', _), ..] => of_utf16(chars),
        [('\\', _), ('0'..='1', _), ..] => of_octal(chars),
        [('&', _), rest @ ..] => of_reference(rest).map(|(c, length)| (c, length + 1)),
        _ => None,
    }
}

/// Parses a character as its bytes in UTF-8, each as a sign and two hexadecimal digits.
fn of_bytes(chars: &[Placed], sign: &[char]) -> Option<(char, usize)> {
    let unit = sign.len() + 2;
    let bytes = chars.chunks_exact(unit).map_while(|chunk| {
        let (its_sign, digits) = chunk.split_at_checked(sign.len())?;
        let is_sign = its_sign.iter().map(|(c, _)| c).eq(sign);
        is_sign.then(|| u8::try_from(hexadecimal(digits)?).ok()).flatten()
    });
    // A character has at most four bytes.
    let bytes: Vec<u8> = bytes.take(4).collect();
    let c = bytes.utf8_chunks().next()?.valid().chars().next()?;
    Some((c, unit * c.len_utf8()))
}

/// Parses `\u` and four digits, or two of these for a surrogate pair.
fn of_utf16(chars: &[Placed]) -> Option<(char, usize)> {
    let units = chars.chunks_exact(6).map_while(|chunk| match chunk {
        [('\\', _), ('u', _), digits @ ..] => u16::try_from(hexadecimal(digits)?).ok(),
        _ => None,
    });
    let c = char::decode_utf16(units.take(2)).next()?.ok()?;
    Some((c, 6 * c.len_utf16()))
}

/// Parses up to six hexadecimal digits and the brace after them.
fn of_braces(rest: &[Placed]) -> Option<(char, usize)> {
    let length = rest.iter().take(7).position(|(c, _)| *c == '}')?;
    let c = char::from_u32(hexadecimal(rest.get(..length)?)?)?;
    Some((c, length + 4))
}

/// Parses three octal digits of a character that can be seen.
fn of_octal(chars: &[Placed]) -> Option<(char, usize)> {
    let digits = chars.get(1..4)?;
    let number = digits.iter().try_fold(0, |number, (c, _)| Some(number * 8 + c.to_digit(8)?))?;
    let c = char::from_u32(number).filter(char::is_ascii_graphic)?;
    Some((c, 4))
}

/// Parses the part of a character reference after `&`.
fn of_reference(chars: &[Placed]) -> Option<(char, usize)> {
    let length = chars.iter().take(REFERENCE_CHARS + 1).position(|(c, _)| *c == ';')?;
    let name: String = chars.get(..length)?.iter().map(|(c, _)| c).collect();
    let named = || REFERENCES.iter().find(|(known, _)| *known == name).map(|(_, c)| *c);
    let c = match name.strip_prefix('#').map(|number| (number, number.strip_prefix(['x', 'X']))) {
        None => named(),
        Some((_, Some(digits))) => u32::from_str_radix(digits, 16).ok().and_then(char::from_u32),
        Some((digits, None)) => digits.parse().ok().and_then(char::from_u32),
    };
    Some((c?, length + 1))
}

fn hexadecimal(digits: &[Placed]) -> Option<u32> {
    digits.iter().try_fold(0, |number, (c, _)| Some(number * 16 + c.to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let counted = CountedBytes::of(text);
        assert_eq!(String::from_utf8_lossy(counted.bytes()), expected, "{text}");
        assert_eq!(counted.bytes.len(), counted.places.len());
    }

    #[test]
    fn a_text_has_the_same_bytes_in_each_encoding() {
        for text in [
            "a/b&c<ö🙂>'\"",
            "│ a/b&\n│ c<ö🙂\r\n>'\"",
            "a\u{200b}/b&\u{ad}c\u{202e}<ö🙂\u{fe0f}>'\u{feff}\"",
            r#"a\/b\u0026c\u003c\u00f6\ud83d\ude42>'\""#,
            r#"a/b\\u0026c\\u003c\\u00f6🙂>'\\\""#,
            r#"a/b\x26c<\xc3\xb6🙂>\'\""#,
            "a/b%26c%3C%C3%B6%f0%9f%99%82%3E'%22",
            "a%252Fb%2526c%253C%25C3%25B6🙂>'\"",
            "a/b&amp;c&lt;ö&#128578;&gt;&#x27;&quot;",
            "a/b&amp;amp;c&amp;lt;&#246;&#X1F642;&gt;&apos;%22",
        ] {
            check(text, "a/b&c<ö🙂>'\"");
        }
    }

    #[test]
    fn words_stay_apart_if_spaces_are_kept() {
        let text = "a\\tb%20\u{1b}[1;31mc\u{1b}[0md\u{200b}e\n f\\\\ng";
        let counted = CountedBytes::with_spaces(text);
        assert_eq!(String::from_utf8_lossy(counted.bytes()), "a\tb cde\n f\ng");
        assert_eq!(&text[counted.place(4..7)], "c\u{1b}[0md\u{200b}e");
        check(text, "abcdefg");
        check("\u{1b}[1;", "[1;");
    }

    #[test]
    fn what_is_no_escape_stays() {
        for text in
            ["100%", "%zz", "%f", "%ff", "%c3%28", "&", "&;", "&nothing;", "a&b;", "&#xd800;"]
        {
            check(text, &text.replace("%28", "("));
        }
        check(r"\ud83d\x9", "ud83dx9");
        check("\\\nnext\\next", "nextext");
        check("", "");
    }

    #[test]
    fn the_place_of_bytes_is_that_of_their_escapes() {
        let text = "x a%C3%B6 \\u0026b y";
        let counted = CountedBytes::of(text);
        assert_eq!(counted.bytes(), "xaö&by".as_bytes());
        assert_eq!(&text[counted.place(1..6)], "a%C3%B6 \\u0026b");
        assert_eq!(&text[counted.place(2..4)], "%C3%B6");
        assert_eq!(&text[counted.place(1..2)], "a");
        assert_eq!(counted.place(9..12), 0..0);
        assert!(counted.is_one_word(1..4));
        assert!(!counted.is_one_word(1..5));
        assert!(counted.is_one_word(4..6));
    }
}
