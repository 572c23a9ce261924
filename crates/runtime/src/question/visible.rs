//! Makes a text safe to show that an agent, a file or another program wrote. Every character that a
//! person could not see is written out, for example as `<U+202E>`.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use pitcrew_protocol::is_unseen;
use regex::Regex;
use unicode_width::UnicodeWidthChar as _;

/// The text that is shown in place of a tab.
const TAB: &str = "→   ";

/// Maximum number of combining marks on one character. A character with more marks could cover the
/// neighboring lines.
const MOST_MARKS: usize = 3;

/// Matches characters without a defined shape: unassigned characters, including noncharacters, and
/// private-use characters.
static FORMLESS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\p{Cn}\p{Co}]$").ok());

/// Matches combining marks.
static MARKS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{M}$").ok());

/// Characters that are invisible although Unicode counts them as letters or marks. Some are blanks.
/// The others are marks that only join their neighbors: the Tifinagh joiner, and the marks whose
/// `Indic_Syllabic_Category` is `Invisible_Stacker` or `Number_Joiner`.
const BLANK: &[char] = &[
    '\u{1039}',
    '\u{17D2}',
    '\u{1A60}',
    '\u{1BAB}',
    '\u{2D7F}',
    '\u{AAF6}',
    '\u{FFFC}',
    '\u{10A3F}',
    '\u{1107F}',
    '\u{11133}',
    '\u{113D0}',
    '\u{1193E}',
    '\u{11A47}',
    '\u{11A99}',
    '\u{11D45}',
    '\u{11D97}',
    '\u{11F42}',
    '\u{13441}',
    '\u{13442}',
];

/// The Unicode blocks of right-to-left scripts. If a line contains such letters, a terminal may
/// show its characters in another order.
const RIGHT_TO_LEFT: &[RangeInclusive<char>] = &[
    '\u{590}'..='\u{8FF}',
    '\u{FB1D}'..='\u{FDFF}',
    '\u{FE70}'..='\u{FEFF}',
    '\u{10800}'..='\u{10FFF}',
    '\u{1E800}'..='\u{1EFFF}',
];

/// Whether right-to-left letters stay as they are or are written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RightToLeft {
    WrittenOut,
    Kept,
}

/// Returns a command, path or name with dangerous characters written out, such as `<U+202E>`. A
/// dangerous character is invisible, looks like a blank, controls a terminal, or changes the
/// writing direction. Line breaks stay. A tab is shown as an arrow.
#[must_use]
pub fn visible(text: &str) -> String {
    shown(text, RightToLeft::WrittenOut)
}

/// Returns a text that is written for people, such as a plan or a file, with dangerous characters
/// written out. Right-to-left letters stay as they are.
#[must_use]
pub(super) fn visible_text(text: &str) -> String {
    shown(text, RightToLeft::Kept)
}

fn shown(text: &str, right_to_left: RightToLeft) -> String {
    let mut shown = String::with_capacity(text.len());
    // The number of combining marks that are still allowed on the last character.
    let mut marks_left = 0;
    for c in text.chars() {
        match c {
            '\n' | ' ' => {
                marks_left = 0;
                shown.push(c);
            }
            '\t' => {
                marks_left = 0;
                shown.push_str(TAB);
            }
            c if c.is_ascii() && !c.is_ascii_control() => {
                marks_left = MOST_MARKS;
                shown.push(c);
            }
            c if is_hidden(c, right_to_left) => {
                marks_left = 0;
                write_out(&mut shown, c);
            }
            // `c` is a combining mark that is not allowed here: the character before it already has
            // the maximum number of marks, or there is no character before it.
            c if is_among(&MARKS, c) && marks_left == 0 => write_out(&mut shown, c),
            c if is_among(&MARKS, c) => {
                marks_left -= 1;
                shown.push(c);
            }
            c => {
                marks_left = MOST_MARKS;
                shown.push(c);
            }
        }
    }
    shown
}

fn write_out(shown: &mut String, c: char) {
    shown.push_str(&format!("<U+{:04X}>", u32::from(c)));
}

fn is_hidden(c: char, right_to_left: RightToLeft) -> bool {
    let turns = right_to_left == RightToLeft::WrittenOut
        && RIGHT_TO_LEFT.iter().any(|block| block.contains(&c));
    let has_no_width = || c.width().unwrap_or_default() == 0 && !is_among(&MARKS, c);
    turns || is_unseen(c) || BLANK.contains(&c) || is_among(&FORMLESS, c) || has_no_width()
}

/// Returns true if the character belongs to the class.
fn is_among(class: &LazyLock<Option<Regex>>, c: char) -> bool {
    class.as_ref().is_some_and(|class| class.is_match(c.encode_utf8(&mut [0; 4])))
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
            (
                "\u{115f}\u{1160}\u{ffa0}\u{1d173}\u{34f}",
                "<U+115F><U+1160><U+FFA0><U+1D173><U+034F>",
            ),
            ("\tif", "→   if"),
            ("naïve 日本語 ✅", "naïve 日本語 ✅"),
        ] {
            assert_eq!(visible(text), shown, "{text:?}");
        }
    }

    #[test]
    fn blanks_joiners_and_characters_without_a_form_are_written_out() {
        for c in "\u{13441}\u{13442}\u{fdd0}\u{fdef}\u{fffe}\u{1ffff}\u{10ffff}\u{378}\u{e000}\u{100000}\u{17d2}\u{2d7f}\u{1107f}\u{10a3f}\u{11f42}\u{1039}\u{1d159}\u{16fe4}\u{fffc}".chars() {
            for text in [c.to_string(), format!("a{c}b"), format!("ក{c}ក")] {
                assert!(!visible(&text).contains(c) && !visible_text(&text).contains(c), "{text:?}");
            }
        }
    }

    #[test]
    fn a_character_keeps_a_few_combining_marks_and_a_mark_needs_one_to_stand_on() {
        let many = format!("a{}b", "\u{301}".repeat(300));
        assert_eq!(visible(&many), format!("a{}{}b", "\u{301}".repeat(3), "<U+0301>".repeat(297)));
        assert_eq!(visible("\u{301}x \u{301}\n\u{301}"), "<U+0301>x <U+0301>\n<U+0301>");
        for text in
            ["e\u{301}", "ệ e\u{323}\u{302}", "ที่นี่", "हिन्दी में", "ខ្មែរ".trim_matches('\u{17d2}')]
        {
            let expected = text.replace('\u{17d2}', "<U+17D2>");
            assert_eq!(visible(text), expected, "{text:?}");
        }
    }

    #[test]
    fn letters_from_right_to_left_are_written_out_in_a_command_and_stay_in_a_text() {
        let command = "rm א /b # שלום";
        assert_eq!(visible(command), "rm <U+05D0> /b # <U+05E9><U+05DC><U+05D5><U+05DD>");
        assert_eq!(visible_text(command), command);
        for c in [
            '\u{627}',
            '\u{661}',
            '\u{7c0}',
            '\u{fb50}',
            '\u{fe8d}',
            '\u{10900}',
            '\u{1e900}',
            '\u{1ee00}',
        ] {
            assert!(!visible(&c.to_string()).contains(c), "{c:?}");
        }
        assert!(!visible_text("\u{202e}\u{200f}\u{61c}").contains(|c: char| !c.is_ascii()));
    }

    #[test]
    fn all_that_has_no_width_but_marks_is_written_out() {
        let mark = Regex::new(r"^\p{M}$").unwrap();
        let raw: Vec<char> = ('\0'..=char::MAX)
            .filter(|c| c.width().unwrap_or_default() == 0 && !matches!(c, '\n' | '\t'))
            .filter(|c| !mark.is_match(c.encode_utf8(&mut [0; 4])))
            .filter(|c| visible_text(&format!("a{c}")).contains(*c))
            .collect();
        assert_eq!(raw, Vec::<char>::new());
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
