//! Cuts the bytes of a stream into lines, and reads each line.

use std::borrow::Cow;

use serde::Serialize;

use super::json::Cursor;
use super::line::Line;
use super::session::Session;
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

impl ClientStream {
    /// Creates a stream of which nothing was read yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
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
