//! An inbox file as text. Entries are inserted, marked as read and removed without changing a byte
//! of the other entries.
//!
//! Entries are kept as raw text, because a strict JSON reader would refuse or change some content:
//! lone surrogates, number formats, whitespace, unknown fields. Such content stays as its writer
//! wrote it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

use pitcrew_protocol::Message;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::update::Fault;

/// Most entries of an inbox. A send is refused long before, at ten thousand unread messages.
/// Reading more takes seconds, and each command that needs the inbox would take them.
pub(crate) const ENTRIES_MOST: usize = 150_000;

/// Number of the newest entries that stay when an inbox with more than [`ENTRIES_MOST`] is repaired.
pub(crate) const ENTRIES_KEPT: usize = 75_000;

/// The entries of an inbox, as slices of the inbox text.
pub(crate) struct Entries<'a> {
    text: &'a str,
    entries: Vec<&'a RawValue>,
}

impl<'a> Entries<'a> {
    /// Parses the bytes of an inbox file.
    ///
    /// # Errors
    /// [`Fault::Torn`] if the bytes are not one complete JSON array in UTF-8. [`Fault::TooMuch`] if
    /// the array has more than [`ENTRIES_MOST`] entries.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Fault> {
        let text = std::str::from_utf8(bytes).map_err(|e| Fault::Torn(e.to_string()))?;
        let mut entries = Vec::new();
        for_each_entry(text, |entry: &'a RawValue| entries.push(entry))?;
        Ok(Self { text, entries })
    }

    /// Returns the text of each entry, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.entries.iter().map(|raw| raw.get())
    }

    /// Returns the entries that are messages, each with its index. Other entries are skipped.
    pub(crate) fn messages(&self) -> Vec<(usize, Message)> {
        let read = |text: &str| {
            Message::from_json(text).or_else(|_| pitcrew_protocol::from_text(text)).ok()
        };
        self.iter().enumerate().filter_map(|(at, text)| Some((at, read(text)?))).collect()
    }

    /// Returns the inbox text with the entries at the indices `places` marked as read.
    pub(crate) fn with_read(&self, places: &[usize]) -> Result<String, String> {
        let mut out = String::with_capacity(self.text.len() + places.len() * 16);
        let mut from = 0;
        for entry in places.iter().filter_map(|at| self.entries.get(*at)) {
            let span = span_in(self.text, entry.get()).ok_or("an entry outside its text")?;
            out.push_str(self.text.get(from..span.start).unwrap_or_default());
            out.push_str(&marked_read(entry.get())?);
            from = span.end;
        }
        out.push_str(self.text.get(from..).unwrap_or_default());
        Ok(out)
    }

    /// Returns the inbox text without the entries at the indices `places`.
    pub(crate) fn without(&self, places: &[usize]) -> String {
        let kept: Vec<&str> = self
            .iter()
            .enumerate()
            .filter(|(at, _)| places.binary_search(at).is_err())
            .map(|(_, text)| text)
            .collect();
        if kept.is_empty() { "[]".to_owned() } else { format!("[\n  {}\n]", kept.join(",\n  ")) }
    }
}

/// Returns the senders of the unread messages in a text that [`check`] accepted.
pub(crate) fn senders_of_unread(text: &str) -> Vec<Cow<'_, str>> {
    #[derive(serde::Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow)]
        from: Cow<'a, str>,
        read: Option<bool>,
    }
    // Usually every entry has the form of a message. In that case the message texts need not be
    // decoded, which is faster.
    if let Ok(envelopes) = serde_json::from_str::<Vec<Envelope<'_>>>(text) {
        return envelopes
            .into_iter()
            .filter(|it| it.read != Some(true))
            .map(|it| it.from)
            .collect();
    }
    let messages =
        Entries::parse(text.as_bytes()).map(|entries| entries.messages()).unwrap_or_default();
    messages
        .into_iter()
        .filter(|(_, message)| !message.is_read())
        .map(|(_, message)| message.from.into())
        .collect()
}

/// Checks that `bytes` are one JSON array, and returns them as text. This check is faster than
/// parsing the entries.
///
/// # Errors
/// The errors of [`Entries::parse`].
pub(crate) fn check(bytes: &[u8]) -> Result<&str, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|e| Fault::Torn(e.to_string()))?;
    for_each_entry(text, |_: serde::de::IgnoredAny| ())?;
    Ok(text)
}

/// Calls `each` for each entry of the JSON array in `text`, and stops after [`ENTRIES_MOST`].
fn for_each_entry<'a, T: serde::de::Deserialize<'a>>(
    text: &'a str,
    mut each: impl FnMut(T),
) -> Result<(), Fault> {
    struct EachEntry<'f, T, F> {
        each: &'f mut F,
        is_beyond: &'f mut bool,
        entry: std::marker::PhantomData<T>,
    }
    impl<'de, T: serde::de::Deserialize<'de>, F: FnMut(T)> Visitor<'de> for EachEntry<'_, T, F> {
        type Value = ();
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an array of messages")
        }
        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
            let mut count = 0;
            while let Some(entry) = seq.next_element()? {
                count += 1;
                if count > ENTRIES_MOST {
                    *self.is_beyond = true;
                    return Err(serde::de::Error::custom("too many entries"));
                }
                (self.each)(entry);
            }
            Ok(())
        }
    }
    let mut is_beyond = false;
    let visitor =
        EachEntry { each: &mut each, is_beyond: &mut is_beyond, entry: std::marker::PhantomData };
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = reader.deserialize_seq(visitor).and_then(|()| reader.end());
    match read {
        Ok(()) => Ok(()),
        Err(_) if is_beyond => Err(Fault::TooMuch(format!(
            "it has more than {ENTRIES_MOST} messages, which is the limit"
        ))),
        Err(error) => Err(Fault::Torn(error.to_string())),
    }
}

/// Checks that so many more messages fit into an inbox text that [`check`] accepted. Otherwise a
/// message that was sent could make the inbox unreadable.
///
/// # Errors
/// [`Fault::TooMuch`].
pub(crate) fn check_room(text: &str, more: usize) -> Result<(), Fault> {
    // Each message has a brace, so their number is an upper bound that costs little.
    let braces = || text.bytes().filter(|byte| *byte == b'{').count();
    if text.len() <= ENTRIES_MOST || braces().saturating_add(more) <= ENTRIES_MOST {
        return Ok(());
    }
    if Entries::parse(text.as_bytes())?.entries.len().saturating_add(more) <= ENTRIES_MOST {
        return Ok(());
    }
    Err(Fault::TooMuch(format!("it has no room for more than {ENTRIES_MOST} messages")))
}

/// Appends messages to an inbox text that [`check`] accepted. Writes the messages in the format of
/// the reference client (indented by two spaces per level).
///
/// # Errors
/// If a message cannot be written as JSON, or if `text` does not end with an array.
pub(crate) fn appended(text: &str, messages: &[&Message]) -> Result<String, String> {
    let body = text.trim_ascii_end();
    let tail = text.get(body.len()..).unwrap_or_default();
    let body = body.strip_suffix(']').ok_or("not an array")?.trim_ascii_end();
    let mut out = String::with_capacity(text.len() + messages.len() * 512);
    out.push_str(body);
    for message in messages {
        // The first entry of an empty array needs no comma before it.
        if !out.ends_with('[') {
            out.push(',');
        }
        out.push_str("\n  ");
        out.push_str(&indented(message)?);
    }
    out.push_str("\n]");
    out.push_str(tail);
    Ok(out)
}

/// Inserts messages into an inbox text. A message with an index is inserted before the entry at
/// that index. A message without an index is appended at the end.
///
/// # Errors
/// The errors of [`appended`]. Also an error if the text is no JSON array.
pub(crate) fn inserted(
    text: &str,
    messages: &[(Option<usize>, Message)],
) -> Result<String, String> {
    let entries = Entries::parse(text.as_bytes()).map_err(Fault::into_reason)?;
    let mut out = String::with_capacity(text.len() + messages.len() * 512);
    let mut from = 0;
    for (at, entry) in entries.iter().enumerate() {
        let before: Vec<&Message> =
            messages.iter().filter(|(place, _)| *place == Some(at)).map(|(_, m)| m).collect();
        if before.is_empty() {
            continue;
        }
        let span = span_in(text, entry).ok_or("an entry outside its text")?;
        out.push_str(text.get(from..span.start).unwrap_or_default());
        for message in before {
            out.push_str(&indented(message)?);
            out.push_str(",\n  ");
        }
        from = span.start;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    let last: Vec<&Message> =
        messages.iter().filter(|(place, _)| place.is_none()).map(|(_, m)| m).collect();
    if last.is_empty() { Ok(out) } else { appended(&out, &last) }
}

/// Formats a message as indented JSON. Every line except the first gets two more spaces, because
/// the message is an element of an array.
fn indented(message: &Message) -> Result<String, String> {
    let pretty = serde_json::to_string_pretty(message).map_err(|e| e.to_string())?;
    Ok(pretty.lines().collect::<Vec<_>>().join("\n  "))
}

/// Returns the text of an inbox entry with the field `read` set to true.
fn marked_read(entry: &str) -> Result<String, String> {
    let (mut before, mut after) = match value_of_read(entry)?.and_then(|raw| span_in(entry, raw)) {
        Some(span) => (
            entry.get(..span.start).unwrap_or_default().to_owned(),
            entry.get(span.end..).unwrap_or_default(),
        ),
        None => {
            let body = entry.strip_suffix('}').ok_or("not an object")?;
            let kept = body.trim_ascii_end();
            let space = body.get(kept.len()..).unwrap_or_default();
            let (comma, indent) = if kept.ends_with('{') { ("", "") } else { (",", space) };
            let inner = if indent.contains('\n') { "  " } else { "" };
            (
                format!("{kept}{comma}{indent}{inner}\"read\": "),
                entry.get(kept.len()..).unwrap_or_default(),
            )
        }
    };
    before.push_str("true");
    before.push_str(std::mem::take(&mut after));
    Ok(before)
}

/// Returns the value of the key `read`. If an entry has this key several times, the last value
/// counts, as in other JSON readers.
fn value_of_read(entry: &str) -> Result<Option<&str>, String> {
    struct Find;
    impl<'de> Visitor<'de> for Find {
        type Value = Option<&'de RawValue>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a message")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(key) = map.next_key::<&RawValue>()? {
                let value = map.next_value()?;
                if key.get() == "\"read\"" {
                    found = Some(value);
                }
            }
            Ok(found)
        }
    }
    let found = serde_json::Deserializer::from_str(entry)
        .deserialize_map(Find)
        .map_err(|e| e.to_string())?;
    Ok(found.map(RawValue::get))
}

/// Returns the byte range that `part` has in `whole`. `part` must be a slice of `whole`.
fn span_in(whole: &str, part: &str) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    let span = start..start + part.len();
    (whole.get(span.clone())? == part).then_some(span)
}

/// Returns a valid inbox text with those entries of a damaged inbox that come before the damage. If
/// these leave no room for a message, returns the newest [`ENTRIES_KEPT`] of them.
pub(crate) fn whole(bytes: &[u8]) -> String {
    let end = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
    let text =
        bytes.get(..end).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default();
    let mut entries = VecDeque::new();
    let mut rest = text.split_once('[').map(|(_, rest)| rest);
    while let Some(from) = rest {
        let mut values = serde_json::Deserializer::from_str(from).into_iter::<&RawValue>();
        let Some(Ok(entry)) = values.next() else { break };
        entries.push_back(entry.get());
        if entries.len() > ENTRIES_MOST {
            entries.pop_front();
        }
        rest =
            from.get(values.byte_offset()..).and_then(|after| after.trim_start().strip_prefix(','));
    }
    if entries.len() >= ENTRIES_MOST {
        // The inbox needs room for the next messages.
        entries.drain(..entries.len().saturating_sub(ENTRIES_KEPT));
    }
    let entries: Vec<&str> = entries.into();
    if entries.is_empty() { "[]".to_owned() } else { format!("[\n  {}\n]", entries.join(",\n  ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOREIGN: &str = "[\n  {\"from\":\"x\",  \"text\": \"a\\ud83d\", \"n\": 1.0e2, \"read\" :false ,\"z\":null},\n {\"text\":5}, {\n    \"from\": \"y\",\n    \"text\": \"b\"\n  }\n]\n";

    fn message(text: &str) -> Message {
        Message::new("me", text.into(), "t".into())
    }

    #[test]
    fn an_append_changes_no_byte_of_what_was_there() {
        let text =
            appended(check(FOREIGN.as_bytes()).unwrap(), &[&message("c"), &message("d")]).unwrap();
        assert!(text.starts_with(FOREIGN.strip_suffix("\n]\n").unwrap()));
        let read = Entries::parse(text.as_bytes()).unwrap();
        assert_eq!(
            read.messages().iter().map(|(at, m)| (*at, m.text.as_str())).collect::<Vec<_>>(),
            [(0, "a\u{FFFD}"), (2, "b"), (3, "c"), (4, "d")]
        );
        assert!(text.ends_with("\n]\n"));
    }

    #[test]
    fn a_new_inbox_is_written_as_the_recordings_show_it() {
        for empty in ["[]", "[ \n]"] {
            let text = appended(empty, &[&message("hi")]).unwrap();
            assert_eq!(
                text,
                "[\n  {\n    \"from\": \"me\",\n    \"text\": \"hi\",\n    \"timestamp\": \"t\",\n    \"read\": false\n  }\n]"
            );
        }
    }

    #[test]
    fn marking_as_read_changes_the_mark_only() {
        let text = Entries::parse(FOREIGN.as_bytes()).unwrap().with_read(&[0, 2]).unwrap();
        let expected = FOREIGN
            .replace("\"read\" :false", "\"read\" :true")
            .replace("\"text\": \"b\"\n", "\"text\": \"b\",\n    \"read\": true\n");
        assert_eq!(text, expected);
    }

    #[test]
    fn taking_out_entries_keeps_the_others_as_they_are() {
        let entries = Entries::parse(FOREIGN.as_bytes()).unwrap();
        assert_eq!(entries.without(&[0, 2]), "[\n  {\"text\":5}\n]");
        assert_eq!(entries.without(&[0, 1, 2]), "[]");
    }

    #[test]
    fn messages_are_put_in_before_their_places_and_change_no_byte_of_the_others() {
        let lost =
            [(Some(0), message("first")), (Some(2), message("second")), (None, message("last"))];
        let text = inserted(FOREIGN, &lost).unwrap();
        let read = Entries::parse(text.as_bytes()).unwrap();
        let texts: Vec<String> = read.messages().into_iter().map(|(_, m)| m.text.clone()).collect();
        assert_eq!(texts, ["first", "a\u{FFFD}", "second", "b", "last"]);
        let theirs = Entries::parse(FOREIGN.as_bytes()).unwrap();
        assert!(theirs.iter().all(|entry| text.contains(entry)), "{text}");
    }

    #[test]
    fn senders_of_unread_mail_are_found_in_whatever_form_it_is() {
        let plain = r#"[{"from":"a","read":false},{"from":"\u0062","read":true},{"read":null,"from":"c\"","n":{}}]"#;
        assert_eq!(senders_of_unread(plain), ["a", "c\""]);
        // In the first entry, `read` has a wrong type. The second entry is not a message.
        let odd = r#"[{"from":"a","text":"t","read":"yes"},7,{"from":"b","text":"t","read":true},{"from":"c","text":"t"}]"#;
        assert_eq!(senders_of_unread(odd), ["a", "c"]);
        assert_eq!(senders_of_unread(FOREIGN), ["x", "y"]);
    }

    #[test]
    fn a_cut_inbox_is_no_inbox() {
        for cut in 0..FOREIGN.len() - 2 {
            assert!(check(&FOREIGN.as_bytes()[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn an_inbox_with_too_many_entries_is_refused_and_its_newest_ones_can_be_kept() {
        let array = |count: usize| {
            let entries: Vec<String> = (1..=count).map(|at| at.to_string()).collect();
            format!("[{}]", entries.join(","))
        };
        check(array(ENTRIES_MOST).as_bytes()).unwrap();
        let flood = array(10 * ENTRIES_MOST);
        for fault in [check(flood.as_bytes()).err(), Entries::parse(flood.as_bytes()).err()] {
            let Some(Fault::TooMuch(reason)) = fault else { panic!("{fault:?}") };
            assert!(reason.contains("more than 150000 messages"), "{reason}");
        }
        let kept = whole(flood.as_bytes());
        let kept = Entries::parse(kept.as_bytes()).unwrap();
        assert_eq!(kept.iter().count(), ENTRIES_KEPT);
        assert_eq!(kept.iter().last(), Some("1500000"));
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_said_is_read_back(texts in proptest::collection::vec(".*", 0..6), read in 0_usize..6) {
            let mut text = "[]".to_owned();
            for said in &texts {
                let longer = appended(check(text.as_bytes()).unwrap(), &[&message(said)]).unwrap();
                proptest::prop_assert!(longer.starts_with(text.trim_end_matches("\n]").trim_end_matches(']')));
                text = longer;
            }
            let text = Entries::parse(text.as_bytes()).unwrap().with_read(&[read]).unwrap();
            let entries = Entries::parse(text.as_bytes()).unwrap();
            let found: Vec<(String, bool)> = entries.messages().into_iter().map(|(_, m)| (m.text.clone(), m.is_read())).collect();
            let expected: Vec<(String, bool)> = texts.into_iter().enumerate().map(|(at, said)| (said, at == read)).collect();
            proptest::prop_assert_eq!(found, expected);
        }
    }
}
