//! Receives the lines that a search finds, and collects or counts them.

use std::io;

use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use tokio_util::sync::CancellationToken;

/// Collects the lines that a search finds, in the format of ripgrep: `path:number:line` for a
/// match, and `path-number-line` for a context line.
pub(super) struct Listing<'a> {
    pub(super) name: &'a str,
    pub(super) numbers: bool,
    pub(super) line_chars: usize,
    pub(super) lines: &'a mut Vec<String>,
    pub(super) most: usize,
    pub(super) cancel: &'a CancellationToken,
}

impl Listing<'_> {
    fn push(&mut self, mark: char, number: Option<u64>, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches(['\r', '\n']);
        let (line, cut) = match line.char_indices().nth(self.line_chars) {
            Some((end, _)) => (line.get(..end).unwrap_or(line), "... [line cut]"),
            None => (line, ""),
        };
        let name = self.name;
        self.lines.push(match number {
            Some(number) if self.numbers => format!("{name}{mark}{number}{mark}{line}{cut}"),
            Some(_) | None => format!("{name}{mark}{line}{cut}"),
        });
    }

    fn goes_on(&self) -> bool {
        self.lines.len() < self.most && !self.cancel.is_cancelled()
    }
}

impl Sink for &mut Listing<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let mut number = found.line_number();
        // A multi-line match has several lines, each with its own number.
        for line in found.lines() {
            self.push(':', number, line);
            number = number.map(|number| number + 1);
            if !self.goes_on() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> io::Result<bool> {
        self.push('-', around.line_number(), around.bytes());
        Ok(self.goes_on())
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.lines.push("--".to_owned());
        Ok(self.goes_on())
    }
}

/// Counts the matching lines of a search.
pub(super) struct Counting<'a> {
    pub(super) count: u64,
    pub(super) most: u64,
    pub(super) cancel: &'a CancellationToken,
}

impl Sink for &mut Counting<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, _: &SinkMatch<'_>) -> io::Result<bool> {
        self.count += 1;
        Ok(self.count < self.most && !self.cancel.is_cancelled())
    }
}
