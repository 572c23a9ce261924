//! Reads the first lines of a stream, until one of them is a known event. A stream without any is
//! refused in the same words, whether it is printed or displayed.

use std::io;

use pitcrew_process::given_stream::{GivenStream, Piece};
use pitcrew_view::TeamState;
use pitcrew_view::client_stream::{ClientStream, LinesRead};

use super::printed::BLOCK_BYTES;
use crate::failure::{Explained, Failure};
use crate::output::{self, printable};

/// The first lines of a stream.
#[derive(Default)]
pub(super) struct FirstLines {
    reader: ClientStream,
    state: TeamState,
    is_known: bool,
    /// The first byte that is no white space.
    begin: Option<u8>,
}

impl FirstLines {
    /// Reads the next bytes. After a known line, they are not looked at.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        if !self.is_known {
            let shown = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
            self.begin = self.begin.or(shown.copied());
            self.reader.feed(&mut self.state, bytes);
            self.is_known = is_any_known(self.reader.lines_read());
        }
    }

    /// Reads the last line of a stream that has ended, and returns the numbers of its lines.
    fn finish(&mut self) -> LinesRead {
        self.reader.finish(&mut self.state);
        self.reader.lines_read()
    }

    /// Returns why a stream that has ended cannot be shown, if it has no known line.
    pub(super) fn refusal(&mut self, name: &str) -> Option<Failure> {
        if self.is_known { None } else { known_lines(self.finish(), name).err() }
    }
}

/// Returns an error if a file has lines, but no known one. A client may write the first line soon, so
/// an empty file is followed. A pipe is checked when it has ended.
pub(super) fn check(stream: &mut GivenStream, name: &str) -> Result<(), Failure> {
    if !stream.is_file() {
        return Ok(());
    }
    let failed = |error| unread(name, error);
    let (mut first, mut buffer) = (FirstLines::default(), vec![0; BLOCK_BYTES]);
    while !first.is_known
        && let Piece::Bytes(count) = stream.read(&mut buffer).map_err(failed)?
    {
        first.feed(buffer.get(..count).unwrap_or_default());
    }
    stream.rewind().map_err(failed)?;
    if first.is_known {
        return Ok(());
    }
    let read = first.finish();
    if read.lines == 0 {
        let name = printable(name);
        output::remark(&format!("{name} is empty; what a client writes into it is shown"));
        return Ok(());
    }
    // The only line may be one that a client has not written whole yet.
    let is_begun = read.cut == read.lines && first.begin == Some(b'{');
    if is_begun { Ok(()) } else { known_lines(read, name) }
}

/// Returns an error if no line of a stream could be used.
pub(super) fn known_lines(read: LinesRead, name: &str) -> Result<(), Failure> {
    if is_any_known(read) {
        return Ok(());
    }
    let name = printable(name);
    let said = match read.lines {
        0 => format!("{name} is empty"),
        1 => format!("{name} has no stream-json: its only line is no known event"),
        lines => format!("{name} has no stream-json: none of its {lines} lines is a known event"),
    };
    Err(Failure::usage(said).hint(
        "`claude -p --output-format stream-json --verbose` and `pitcrew run --output-format stream-json` write one",
    ))
}

pub(super) fn unread(name: &str, error: io::Error) -> Failure {
    Failure::internal(Explained::new(format!("{} cannot be read", printable(name)), error))
}

fn is_any_known(LinesRead { lines, unknown, unreadable, too_long, cut }: LinesRead) -> bool {
    unknown + unreadable + too_long + cut < lines
}
