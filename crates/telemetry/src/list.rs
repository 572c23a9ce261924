//! The lists in `OTEL_EXPORTER_OTLP_HEADERS` and `OTEL_RESOURCE_ATTRIBUTES`: `a=1,b=2`.
//!
//! Source: the specification of OpenTelemetry, "Resource SDK" and "OTLP Exporter Configuration".
//! Both refer to the header of W3C Baggage, in which names and values are percent-encoded.

use reqwest::header::{HeaderName, HeaderValue};

/// The number of the first entry that cannot be used. The number of the first entry is 1.
type Refused = usize;

/// Checks a list of headers. The crate `opentelemetry-otlp` leaves out a header that cannot be used,
/// and says nothing.
pub(crate) fn check_headers(list: &str) -> Result<(), Refused> {
    let is_usable = |(name, value): (&str, &str)| {
        // That crate sends a value that is not percent-encoded as it is.
        let value = decoded(value).unwrap_or_else(|| value.to_owned());
        HeaderName::from_bytes(name.as_bytes()).is_ok()
            && !value.is_empty()
            && HeaderValue::from_str(&value).is_ok()
    };
    each(list, |pair| pair.filter(|pair| is_usable(*pair)).map(drop)).map(drop)
}

/// Reads a list of attributes. Returns names and values, decoded.
pub(crate) fn attributes(list: &str) -> Result<Vec<(String, String)>, Refused> {
    each(list, |pair| {
        let (name, value) = pair?;
        Some((decoded(name).filter(|name| !name.is_empty())?, decoded(value)?))
    })
}

/// Reads each entry. Empty entries are left out, such as the one after a comma at the end.
fn each<T>(
    list: &str,
    read: impl Fn(Option<(&str, &str)>) -> Option<T>,
) -> Result<Vec<T>, Refused> {
    let entries = list.split(',').enumerate().filter(|(_, entry)| !entry.trim().is_empty());
    entries
        .map(|(index, entry)| {
            let pair = entry.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
            read(pair).ok_or(index + 1)
        })
        .collect()
}

/// Decodes a percent-encoded text. Returns `None` if it has another form.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = after.split_first_chunk()?;
        let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
        bytes.push(u8::try_from(high? * 16 + low?).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_cannot_be_sent_is_refused() {
        for list in ["api-key=secret", "a=1, b = two words ,", "x-team=a%20b", "x=50%"] {
            assert_eq!(check_headers(list), Ok(()), "{list}");
        }
        for (list, number) in [
            ("bad header=x", 1),
            ("good=1,api-key", 2),
            ("x=a\nb", 1),
            ("x=a%0ab", 1),
            ("a=1,,=2", 3),
            ("a=", 1),
        ] {
            assert_eq!(check_headers(list), Err(number), "{list}");
        }
    }

    #[test]
    fn names_and_values_of_attributes_are_decoded() {
        let read = |list| {
            let pairs = attributes(list)?.into_iter();
            Ok(pairs.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>())
        };
        assert_eq!(
            read("team=x%20y,k%C3%B6ln=a%2Cb%3D, c = d e,"),
            Ok(vec!["team=x y".to_owned(), "köln=a,b=".to_owned(), "c=d e".to_owned(),])
        );
        assert_eq!(read("empty="), Ok(vec!["empty=".to_owned()]));
        for (list, number) in
            [("a", 1), ("a=1,=2", 2), ("a=%", 1), ("a=%4", 1), ("a=%+1", 1), ("a=%FF", 1)]
        {
            assert_eq!(read(list), Err(number), "{list}");
        }
    }
}
