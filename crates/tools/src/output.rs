//! Stores the output of a command in limited memory. The beginning and the end are stored, and the
//! bytes between them are only counted.

use std::collections::VecDeque;
use std::fmt;

use pitcrew_protocol::counted;

/// The maximum number of bytes in a UTF-8 character.
const CHAR_BYTES: usize = 4;

/// The first bytes and the last bytes of a stream, which can have any length.
#[derive(Debug)]
pub(super) struct HeadTail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    half_bytes: usize,
    total: u64,
}

impl HeadTail {
    /// Creates a buffer that stores enough bytes to show `chars` characters.
    pub(super) fn for_chars(chars: usize) -> Self {
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            half_bytes: chars.div_ceil(2).saturating_mul(CHAR_BYTES),
            total: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.half_bytes - self.head.len();
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        // If the newest bytes alone fill the tail, do not copy the bytes before them.
        let newest = rest.len().saturating_sub(self.half_bytes);
        self.tail.extend(rest.iter().skip(newest));
        let excess = self.tail.len().saturating_sub(self.half_bytes);
        self.tail.drain(..excess);
    }

    pub(super) fn finish(self) -> Text {
        let kept = (self.head.len() + self.tail.len()) as u64;
        let tail: Vec<u8> = self.tail.into();
        // If all bytes of the stream are stored, decode the head and the tail together, because a
        // character can be split between them.
        if kept == self.total {
            let mut whole = self.head;
            whole.extend(tail);
            return Text {
                head: String::from_utf8_lossy(&whole).into_owned(),
                tail: String::new(),
                lost_bytes: 0,
            };
        }
        let head = without_torn_end(&self.head);
        let tail = without_torn_start(&tail);
        Text {
            lost_bytes: self.total - (head.len() + tail.len()) as u64,
            head: String::from_utf8_lossy(head).into_owned(),
            tail: String::from_utf8_lossy(tail).into_owned(),
        }
    }
}

/// The stored parts of a stream, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    head: String,
    tail: String,
    lost_bytes: u64,
}

impl Text {
    /// Returns the number of characters of the whole stream. Each byte that is not stored counts as
    /// one character.
    pub(super) fn chars(&self) -> usize {
        let lost = usize::try_from(self.lost_bytes).unwrap_or(usize::MAX);
        (self.head.chars().count() + self.tail.chars().count()).saturating_add(lost)
    }

    /// Returns at most `most` characters of the text. If the text is longer, a note replaces its
    /// middle part.
    pub(super) fn shown(mut self, most: usize) -> String {
        if self.lost_bytes == 0 && self.chars() <= most {
            return self.head;
        }
        if self.lost_bytes == 0 {
            // All bytes of the stream are stored, so the whole text is in `head`. Move the end of
            // the text to `tail`.
            let middle = start_of_last(&self.head, most / 2);
            self.tail = self.head.split_off(middle);
        }
        let end_of_head = end_of_first(&self.head, most.div_ceil(2));
        let start_of_tail = start_of_last(&self.tail, most / 2);
        let head = self.head.get(..end_of_head).unwrap_or_default();
        let tail = self.tail.get(start_of_tail..).unwrap_or_default();
        let cut = self.lost_bytes
            + (self.head.len() - head.len()) as u64
            + (self.tail.len() - tail.len()) as u64;
        format!("{head}{}{tail}", Cut(cut))
    }
}

/// The note in place of the removed bytes. The value is the number of removed bytes.
struct Cut(u64);

impl fmt::Display for Cut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "\n\n... [{} cut from the middle] ...\n\n", counted(self.0, "byte"))
    }
}

/// Divides `most` characters between two texts. Each text gets half. If one text needs less, the
/// other text gets the rest.
pub(super) fn share(most: usize, first: &Text, second: &Text) -> (usize, usize) {
    let half = most / 2;
    let (first, second) = (first.chars(), second.chars());
    if first <= half {
        (first, most - first)
    } else if second <= half {
        (most - second, second)
    } else {
        (most - half, half)
    }
}

fn end_of_first(text: &str, chars: usize) -> usize {
    text.char_indices().nth(chars).map_or(text.len(), |(index, _)| index)
}

fn start_of_last(text: &str, chars: usize) -> usize {
    if chars == 0 {
        return text.len();
    }
    text.char_indices().nth_back(chars - 1).map_or(0, |(index, _)| index)
}

/// Removes an incomplete UTF-8 character from the end of the bytes.
fn without_torn_end(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(problem) if problem.error_len().is_none() => {
            bytes.get(..problem.valid_up_to()).unwrap_or(bytes)
        }
        Ok(_) | Err(_) => bytes,
    }
}

/// Removes bytes from the start that are the remaining part of an incomplete UTF-8 character.
fn without_torn_start(bytes: &[u8]) -> &[u8] {
    let torn =
        bytes.iter().take(CHAR_BYTES - 1).take_while(|byte| (0x80..0xC0).contains(*byte)).count();
    bytes.get(torn..).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kept(chars: usize, pieces: &[&[u8]]) -> Text {
        let mut output = HeadTail::for_chars(chars);
        for piece in pieces {
            output.push(piece);
        }
        output.finish()
    }

    #[test]
    fn short_output_is_shown_whole() {
        assert_eq!(kept(10, &[b"abc", b"def"]).shown(10), "abcdef");
    }

    #[test]
    fn the_middle_is_cut_and_counted() {
        let text = kept(4, &["x".repeat(100).as_bytes(), b"END"]);
        insta::assert_snapshot!(text.shown(6), @r"
        xxx

        ... [97 bytes cut from the middle] ...

        END
        ");
    }

    #[test]
    fn what_fits_the_buffer_but_not_the_limit_is_cut_too() {
        assert_eq!(
            kept(8, &[b"abcdefghijkl"]).shown(4),
            "ab\n\n... [8 bytes cut from the middle] ...\n\nkl"
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(kept(10, &[b"a\xFFb"]).shown(10), "a\u{FFFD}b");
    }

    #[test]
    fn one_text_gets_the_room_the_other_leaves() {
        let long = kept(100, &["a".repeat(90).as_bytes()]);
        let short = kept(100, &[b"abc"]);
        assert_eq!(share(50, &long, &short), (47, 3));
        assert_eq!(share(50, &short, &long), (3, 47));
        assert_eq!(share(50, &long, &long), (25, 25));
    }

    proptest! {
        #[test]
        fn memory_is_bounded_and_nothing_is_torn(
            pieces in prop::collection::vec("[a-zé漢🦀]{0,40}", 0..20), most in 1usize..40,
        ) {
            let whole = pieces.concat();
            let mut output = HeadTail::for_chars(most);
            for byte in whole.as_bytes() {
                output.push(std::slice::from_ref(byte));
                prop_assert!(output.head.len() + output.tail.len() <= (most + 1) * CHAR_BYTES);
            }
            let shown = output.finish().shown(most);
            prop_assert!(!shown.contains(char::REPLACEMENT_CHARACTER));
            if whole.chars().count() <= most {
                prop_assert_eq!(shown, whole);
            } else {
                let (head, rest) = shown.split_once("\n\n... [").unwrap();
                let (cut, tail) = rest.split_once(" bytes cut from the middle] ...\n\n").unwrap();
                prop_assert!(whole.starts_with(head) && whole.ends_with(tail));
                prop_assert_eq!(head.len() + tail.len() + cut.parse::<usize>().unwrap(), whole.len());
            }
        }
    }
}
