//! Decodes the quotes `$'...'`, in which a backslash starts an escape as in C.

use super::shell_word::Unit;

/// Returns the characters that the text between `$'` and `'` stands for. Like bash, it ends at a
/// null character.
pub(super) fn decoded(text: &[char]) -> Vec<Unit> {
    let mut units = vec![Unit::Quotes];
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != '\\' {
            push(&mut bytes, *first);
            continue;
        }
        let Some((letter, after)) = rest.split_first() else { break };
        rest = after;
        let simple = match letter {
            'a' => Some('\u{7}'),
            'b' => Some('\u{8}'),
            'e' | 'E' => Some('\u{1b}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\u{b}'),
            '\\' | '\'' | '"' | '?' => Some(*letter),
            _ => None,
        };
        if let Some(simple) = simple {
            push(&mut bytes, simple);
            continue;
        }
        let code = match letter {
            'x' => number(&mut rest, 16, 2),
            'u' => number(&mut rest, 16, 4),
            'U' => number(&mut rest, 16, 8),
            '0'..='7' => {
                rest = text.get(text.len() - rest.len() - 1..).unwrap_or_default();
                number(&mut rest, 8, 3)
            }
            'c' => rest.split_first().map(|(control, after)| {
                rest = after;
                u32::from(*control) & 0x1f
            }),
            _ => None,
        };
        match code {
            Some(0) => break,
            Some(code) if matches!(letter, 'u' | 'U') => {
                push(&mut bytes, char::from_u32(code).unwrap_or('\u{fffd}'));
            }
            Some(code) => bytes.extend(u8::try_from(code & 0xff)),
            // An unknown escape keeps its backslash.
            None => {
                bytes.push(b'\\');
                push(&mut bytes, *letter);
            }
        }
    }
    units.extend(String::from_utf8_lossy(&bytes).chars().map(Unit::Quoted));
    units
}

fn push(bytes: &mut Vec<u8>, letter: char) {
    bytes.extend(letter.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Reads up to `most` digits of a number.
fn number(rest: &mut &[char], base: u32, most: usize) -> Option<u32> {
    let length = rest.iter().take(most).take_while(|c| c.is_digit(base)).count();
    let (digits, after) = rest.split_at_checked(length)?;
    if digits.is_empty() {
        return None;
    }
    *rest = after;
    digits.iter().try_fold(0_u32, |sum, digit| Some(sum.wrapping_mul(base) + digit.to_digit(base)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_their_characters() {
        for (text, expected) in [
            ("git", "git"),
            (r"\x74ouch", "touch"),
            (r"\164ouch", "touch"),
            (r"\u0074ouch", "touch"),
            (r"\U00000074", "t"),
            (r"a\'b\\c\n", "a'b\\c\n"),
            (r"a\0b", "a"),
            (r"\xc3\xa4", "ä"),
            (r"\q\x", r"\q\x"),
            (r"\1234", "S4"),
        ] {
            let letters: Vec<char> = text.chars().collect();
            let found: String = decoded(&letters)
                .iter()
                .filter_map(|unit| if let Unit::Quoted(c) = unit { Some(*c) } else { None })
                .collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
