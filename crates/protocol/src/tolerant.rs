//! Reads JSON that JavaScript wrote. JavaScript can write one half of a UTF-16 surrogate pair
//! without the other half. Such a half is read as U+FFFD. An error contains the JSON path of the
//! fault.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// The error for a text that is not valid JSON or does not have the expected form.
#[derive(Debug, thiserror::Error)]
#[error("not valid at {path}")]
pub struct ParseError {
    /// The JSON path of the first fault. The path `.` means the document itself.
    pub path: String,
    /// The error from the JSON reader.
    #[source]
    pub source: serde_json::Error,
}

/// Reads `text` as a value of type `T`. A `\uD800`-`\uDFFF` escape without its partner is read as
/// U+FFFD.
///
/// JavaScript can cut a string inside a surrogate pair and write only one half of the pair. A
/// strict reader would refuse the whole file because of this half.
///
/// # Errors
/// [`ParseError`] with the path of the first fault.
pub fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, ParseError> {
    let mended = mend_surrogates(text);
    let mut reader = serde_json::Deserializer::from_str(&mended);
    let value = serde_path_to_error::deserialize(&mut reader)
        .map_err(|e| ParseError { path: e.path().to_string(), source: e.into_inner() })?;
    reader.end().map_err(|source| ParseError { path: ".".into(), source })?;
    Ok(value)
}

/// Reads one field of an object from the field's raw text. The wire types read each known field
/// with this function. An invalid optional field therefore does not make the other fields
/// unreadable.
pub(crate) fn from_raw<T: DeserializeOwned>(raw: &RawValue) -> Result<T, serde_json::Error> {
    serde_json::from_str(raw.get()).or_else(|e| match mend_surrogates(raw.get()) {
        Cow::Borrowed(_) => Err(e),
        Cow::Owned(mended) => serde_json::from_str(&mended),
    })
}

/// Replaces each `\uD800`-`\uDFFF` escape without its partner with the escape of U+FFFD.
fn mend_surrogates(text: &str) -> Cow<'_, str> {
    // Most texts contain no surrogate escape. Such a text need not be copied.
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut changed = false;
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let taken = match (surrogate(escape), escape.get(6..).and_then(surrogate)) {
            // A complete pair has two escapes of six characters each. Keep it unchanged.
            (Some(Half::High), Some(Half::Low)) => 12,
            (Some(_), _) => {
                changed = true;
                out.push_str("\\uFFFD");
                rest = escape.get(6..).unwrap_or_default();
                continue;
            }
            // Copy any other escape as a whole. In `\\ud800`, the first two characters are an
            // escaped backslash, and `\ud800` is not a surrogate escape.
            (None, _) => 1 + escape.chars().nth(1).map_or(0, char::len_utf8),
        };
        out.push_str(escape.get(..taken).unwrap_or(escape));
        rest = escape.get(taken..).unwrap_or_default();
    }
    out.push_str(rest);
    if changed { Cow::Owned(out) } else { Cow::Borrowed(text) }
}

enum Half {
    High,
    Low,
}

fn surrogate(escape: &str) -> Option<Half> {
    let digits = escape.strip_prefix("\\u")?.get(..4)?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xD800..=0xDBFF => Some(Half::High),
        0xDC00..=0xDFFF => Some(Half::Low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_surrogate_is_read_as_the_replacement_character() {
        let cases = [
            (r#""a\ud83d""#, "a\u{FFFD}"),
            (r#""\ude00b""#, "\u{FFFD}b"),
            (r#""\ud83d\ude00""#, "😀"),
            (r#""\\ud83d""#, "\\ud83d"),
            (r#""\ud83d\ud83d\ude00""#, "\u{FFFD}😀"),
        ];
        for (text, read) in cases {
            assert_eq!(from_text::<String>(text).unwrap(), read, "{text}");
        }
    }

    #[test]
    fn an_error_says_where() {
        let error = from_text::<Vec<Vec<u8>>>("[[1],[2,\"x\"]]").unwrap_err();
        assert_eq!(error.path, "[1][1]");
    }
}
