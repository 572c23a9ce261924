//! Reads the team's journal while pitcrew appends to it.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};

use serde_json::Value;

use crate::stage::Stage;

/// A reader of the journal. Each read continues where the last read stopped.
#[derive(Debug, Default)]
pub struct Tail {
    offset: u64,
    rest: Vec<u8>,
    /// The time of the newest entry that was read, in milliseconds.
    newest_ms: u64,
    /// When the file becomes shorter, the reader starts again at the beginning of the file. It then
    /// skips entries up to this time (in milliseconds), because it has read them before.
    known_ms: u64,
}

impl Tail {
    /// Returns the entries that were added since the last call.
    pub fn more(&mut self, stage: &Stage) -> Vec<Value> {
        let opened = File::open(stage.journal());
        let length =
            opened.as_ref().ok().and_then(|file| file.metadata().ok()).map_or(0, |meta| meta.len());
        // A power cut makes the journal shorter, either immediately or when pitcrew later removes
        // the damaged end of the file.
        if length < self.offset {
            (self.offset, self.known_ms) = (0, self.newest_ms);
            self.rest.clear();
        }
        let mut bytes = std::mem::take(&mut self.rest);
        if let Ok(mut file) = opened
            && file.seek(SeekFrom::Start(self.offset)).is_ok()
        {
            let read = file.read_to_end(&mut bytes).unwrap_or(0);
            self.offset += read as u64;
        }
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.rest = bytes.split_off(whole);
        let lines = bytes.split(|byte| *byte == b'\n');
        let entries = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        let at_ms = |entry: &Value| entry["at_ms"].as_u64().unwrap_or_default();
        let entries: Vec<Value> = entries.filter(|entry| at_ms(entry) > self.known_ms).collect();
        self.newest_ms = entries.iter().map(at_ms).fold(self.newest_ms, u64::max);
        entries
    }
}

/// Returns all entries of the journal.
#[must_use]
pub fn entries(stage: &Stage) -> Vec<Value> {
    Tail::default().more(stage)
}

/// Returns true if an entry is of the given kind. The kind is `event` or `event:detail`, where the
/// detail is the state, the change, the outcome or the frame in the entry.
#[must_use]
pub fn is_of(entry: &Value, kind: &str) -> bool {
    let (event, detail) =
        kind.split_once(':').map_or((kind, None), |(event, detail)| (event, Some(detail)));
    let details = ["state", "change", "outcome", "frame"];
    entry["event"] == event
        && detail.is_none_or(|detail| details.iter().any(|field| entry[*field] == detail))
}

/// Returns the name of the member that an entry is about.
#[must_use]
pub fn member_of(entry: &Value) -> Option<&str> {
    entry["member"].as_str().or_else(|| entry["to"].as_str()).filter(|name| *name != "team-lead")
}
