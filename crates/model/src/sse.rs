//! Decodes server-sent events. The bytes may arrive in pieces of any size.
//!
//! The decoder follows the WHATWG definition of an event stream. Lines end with CR, LF or CRLF. The
//! stream may start with a byte order mark. Comments, ids and retry times are skipped. If the
//! stream ends before the empty line after an event, this event is dropped.

use crate::bounds::EVENT_BYTES;

/// One server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// The name of the event. Empty if the server sent no name.
    pub(crate) name: String,
    /// The data lines of the event, joined by line breaks.
    pub(crate) data: String,
}

/// The error for an event that is longer than the size limit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a server-sent event is longer than {EVENT_BYTES} bytes")]
pub(crate) struct EventTooLong;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The state of the decoder between two pieces.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    line: Vec<u8>,
    name: String,
    data: String,
    has_data: bool,
    past_first_line: bool,
    after_carriage_return: bool,
}

impl Decoder {
    /// Decodes the next bytes, and returns the events that are complete now.
    ///
    /// # Errors
    /// [`EventTooLong`] if an event is longer than [`EVENT_BYTES`]. The decoder must not be used after this
    /// error.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, EventTooLong> {
        let mut events = Vec::new();
        let mut rest = bytes;
        if self.after_carriage_return && !rest.is_empty() {
            self.after_carriage_return = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
            let (line, ending) = rest.split_at(end);
            self.line.extend_from_slice(line);
            rest = match ending {
                [b'\r'] => {
                    // The bytes end with CR. If the next bytes begin with LF, this LF belongs to
                    // the same line ending.
                    self.after_carriage_return = true;
                    &[]
                }
                [b'\r', b'\n', after @ ..] | [_, after @ ..] => after,
                [] => &[],
            };
            self.end_line(&mut events);
            self.check_length()?;
        }
        self.line.extend_from_slice(rest);
        self.check_length()?;
        Ok(events)
    }

    fn check_length(&self) -> Result<(), EventTooLong> {
        if self.line.len().saturating_add(self.data.len()) > EVENT_BYTES {
            return Err(EventTooLong);
        }
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<Event>) {
        let mut bytes = self.line.as_slice();
        if !self.past_first_line {
            self.past_first_line = true;
            bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        }
        // Decode only whole lines, because a piece can end in the middle of a UTF-8 character.
        let line = String::from_utf8_lossy(bytes).into_owned();
        self.line.clear();
        if line.is_empty() {
            self.end_event(events);
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                self.data.push_str(value);
            }
            _ => {}
        }
    }

    fn end_event(&mut self, events: &mut Vec<Event>) {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        // The WHATWG definition says that an event without data lines is dropped.
        if std::mem::take(&mut self.has_data) {
            events.push(Event { name, data });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Event> {
        let mut decoder = Decoder::default();
        pieces.into_iter().flat_map(|piece| decoder.push(piece).unwrap()).collect()
    }

    fn event(name: &str, data: &str) -> Event {
        Event { name: name.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn an_event_has_a_name_and_its_data_lines_joined() {
        let events = decode([b"event: a\ndata: one\ndata:two\ndata\n\n".as_slice()]);
        assert_eq!(events, [event("a", "one\ntwo\n")]);
    }

    #[test]
    fn a_byte_order_mark_comments_ids_and_unknown_fields_are_skipped() {
        let events = decode(["\u{feff}data: x\n: ping\nid: 7\nretry: 3\nother\n\n".as_bytes()]);
        assert_eq!(events, [event("", "x")]);
    }

    #[test]
    fn an_event_without_data_is_none_and_its_name_does_not_leak_into_the_next() {
        let events = decode([b"event: lost\n\ndata: x\n\n".as_slice()]);
        assert_eq!(events, [event("", "x")]);
    }

    #[test]
    fn an_event_that_is_not_closed_is_dropped() {
        assert_eq!(decode([b"data: x\n\ndata: half\n".as_slice()]), [event("", "x")]);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut decoder = Decoder::default();
        let piece = vec![b'x'; EVENT_BYTES / 2];
        assert_eq!(decoder.push(&piece), Ok(Vec::new()));
        assert_eq!(decoder.push(&piece), Ok(Vec::new()));
        assert_eq!(decoder.push(b"x"), Err(EventTooLong));
    }

    fn written(events: &[Event], endings: &[&str], mark: &str) -> String {
        let mut endings = endings.iter().cycle();
        let mut text = mark.to_owned();
        let mut line = |line: &str| {
            text.push_str(line);
            text.push_str(endings.next().copied().unwrap_or("\n"));
        };
        for event in events {
            line(": a comment");
            line(&format!("event: {}", event.name));
            for data in event.data.split('\n') {
                line(&format!("data: {data}"));
            }
            line("");
        }
        text
    }

    proptest! {
        #[test]
        fn whatever_the_pieces_and_the_line_endings_the_events_are_the_same(
            events in prop::collection::vec(("[a-z_]{0,8}", "[^\r]{0,40}"), 1..5),
            endings in prop::collection::vec(prop::sample::select(vec!["\n", "\r", "\r\n"]), 1..6),
            mark in prop::sample::select(vec!["", "\u{feff}"]),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let events: Vec<Event> = events.iter().map(|(name, data)| event(name, data)).collect();
            // If a line ends with CR and the next line is empty and ends with LF, the decoder reads
            // CR and LF as one line ending. So if a generated stream would use both CR and LF as
            // line endings, it uses only CR.
            let endings = if endings.contains(&"\r") && endings.contains(&"\n") { vec!["\r"] } else { endings };
            let bytes = written(&events, &endings, mark).into_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]);
            prop_assert_eq!(decode(pieces), events.clone());
            let single = bytes.chunks(1);
            prop_assert_eq!(decode(single), events);
        }

        #[test]
        fn no_bytes_make_it_panic(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..10)) {
            let whole = pieces.concat();
            prop_assert_eq!(decode(pieces.iter().map(Vec::as_slice)), decode([whole.as_slice()]));
        }
    }
}
