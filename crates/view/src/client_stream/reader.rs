//! Cuts the bytes of a stream into lines, and reads each line.

use std::borrow::Cow;
use std::fmt::Write as _;

use pitcrew_protocol::AgentName;
use serde::Serialize;

use super::json::Cursor;
use super::line::Line;
use super::session::Session;
use crate::conversation::Conversation;
use crate::state::TeamState;

/// Maximum length of a line, in bytes. A longer line is skipped. The longest lines have images.
pub const LINE_BYTES_MOST: usize = 32 << 20;

/// A stream-json of a client, while it is read.
///
/// The bytes can come in any pieces, so that a file or a pipe can be followed while the client
/// writes it.
#[derive(Debug, Default)]
pub struct ClientStream {
    session: Session,
    /// The beginning of a line whose end has not come yet.
    begun: Vec<u8>,
    /// Whether the line whose end has not come yet is too long.
    is_too_long: bool,
    /// Whether the last line was read before its line break came.
    lacks_break: bool,
    read: LinesRead,
}

/// The numbers of the lines that were read, and of those that could not be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinesRead {
    /// The number of lines that are not blank.
    pub lines: u64,
    /// The number of events of a type that is not known. They were skipped.
    pub unknown: u64,
    /// The number of lines that are not JSON objects. They were skipped.
    pub unreadable: u64,
    /// The number of lines that are longer than [`LINE_BYTES_MOST`]. They were skipped.
    pub too_long: u64,
    /// The number of lines at the end of the stream that have no line break and could not be read:
    /// one or none. Such a line is cut.
    pub cut: u64,
}

impl LinesRead {
    /// Whether lines were skipped.
    #[must_use]
    pub fn has_skipped(&self) -> bool {
        self.unknown + self.unreadable + self.too_long + self.cut > 0
    }

    /// Returns the numbers in words.
    #[must_use]
    pub fn in_words(&self) -> String {
        let Self { lines, unknown, unreadable, too_long, cut } = *self;
        let mut text = format!("{lines} lines read");
        let skipped = [
            (unknown, "unknown"),
            (unreadable, "unreadable"),
            (too_long, "too long"),
            (cut, "incomplete"),
        ];
        for (count, what) in skipped.into_iter().filter(|(count, _)| *count > 0) {
            let _ = write!(text, ", {count} of them {what}");
        }
        text
    }
}

impl ClientStream {
    /// Creates a stream of which nothing was read yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a stream that also keeps the conversations of the agents.
    #[must_use]
    pub fn with_conversations() -> Self {
        Self { session: Session::with_conversations(), ..Self::default() }
    }

    /// Returns the conversation of an agent, as far as the stream told it, and the number of its
    /// changes so far. Returns `None` if nothing is known of it.
    #[must_use]
    pub fn conversation(&self, agent: &AgentName) -> Option<(&Conversation, u64)> {
        self.session.conversations.as_ref()?.of(agent)
    }

    /// Whether a line has begun and its end has not come yet.
    #[must_use]
    pub fn has_begun_line(&self) -> bool {
        !self.begun.is_empty() || self.is_too_long
    }

    /// Returns the numbers of lines that were read so far.
    #[must_use]
    pub fn lines_read(&self) -> LinesRead {
        self.read
    }

    /// Reads the next bytes of the stream into the state of the team. If they end within a line,
    /// that line is read with the bytes of a later call.
    pub fn feed(&mut self, state: &mut TeamState, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let length = line_length(bytes);
            let (piece, rest) = bytes.split_at(length);
            bytes = rest;
            if std::mem::take(&mut self.lacks_break) && matches!(piece, b"\n" | b"\r\n") {
                continue;
            }
            if self.begun.is_empty() && !self.is_too_long && piece.ends_with(b"\n") {
                self.line(state, piece);
                continue;
            }
            self.begin(piece);
            if piece.ends_with(b"\n") {
                self.end_line(state);
            }
        }
    }

    /// Reads the begun line of a file that may grow, if the line is a whole object already. Some
    /// programs write no line break at the end of a file.
    pub fn pause(&mut self, state: &mut TeamState) {
        if self.begun.trim_ascii_end().ends_with(b"}") && is_whole(&self.begun) {
            self.end_line(state);
            self.lacks_break = true;
        }
    }

    /// Reads the last line of a stream that has ended. A client that was killed leaves a part of a
    /// line there.
    pub fn finish(&mut self, state: &mut TeamState) {
        if !self.begun.is_empty() || self.is_too_long {
            let unreadable = self.read.unreadable;
            self.end_line(state);
            self.read.cut += self.read.unreadable - unreadable;
            self.read.unreadable = unreadable;
        }
    }

    fn begin(&mut self, piece: &[u8]) {
        if self.is_too_long || self.begun.len() + piece.len() > LINE_BYTES_MOST {
            self.is_too_long = true;
            self.begun = Vec::new();
        } else {
            self.begun.extend_from_slice(piece);
        }
    }

    fn end_line(&mut self, state: &mut TeamState) {
        let line = std::mem::take(&mut self.begun);
        if std::mem::take(&mut self.is_too_long) {
            self.session.line += 1;
            self.read.lines += 1;
            self.read.too_long += 1;
        } else {
            self.line(state, &line);
        }
    }

    fn line(&mut self, state: &mut TeamState, line: &[u8]) {
        self.session.line += 1;
        let text =
            std::str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed);
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        self.read.lines += 1;
        if line.len() > LINE_BYTES_MOST {
            self.read.too_long += 1;
        } else if !text.starts_with('{') || !self.objects(state, text) {
            self.read.unreadable += 1;
        }
    }

    /// Reads the objects of a line. Returns false if the line has something else.
    ///
    /// A line has one object. A lost line break leaves two objects in a line, and the examples of
    /// the stream document have a closing bracket too many.
    fn objects(&mut self, state: &mut TeamState, text: &str) -> bool {
        let mut cursor = Cursor::new(text);
        while cursor.peek().is_some() {
            let read_to = cursor.offset();
            let mut line = Line::default();
            if cursor.object(&mut line) != Ok(true) {
                let rest = text.get(read_to..).unwrap_or_default();
                return read_to > 0 && rest.chars().all(|c| c == '}' || c == ']');
            }
            if !self.session.read(state, &line) {
                self.read.unknown += 1;
            }
        }
        true
    }
}

/// Whether a line is one whole object.
fn is_whole(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line);
    let mut cursor = Cursor::new(&text);
    cursor.peek() == Some(b'{') && cursor.skip().is_ok() && cursor.peek().is_none()
}

/// Returns the length of the first line with its line break, or of all bytes if there is none.
fn line_length(bytes: &[u8]) -> usize {
    // The compiler compares a whole block at once. That is faster than the search of the standard
    // library.
    let (blocks, _) = bytes.as_chunks::<64>();
    let has_break =
        |block: &[u8; 64]| block.iter().fold(false, |found, byte| found | (*byte == b'\n'));
    let before = blocks.iter().take_while(|block| !has_break(block)).count() * 64;
    let rest = bytes.get(before..).unwrap_or_default();
    rest.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| before + at + 1)
}
