//! The team's journal as it grows.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};

use serde_json::Value;

use crate::stage::Stage;

/// A reader that goes on where it stopped.
#[derive(Debug, Default)]
pub struct Tail {
    offset: u64,
    rest: Vec<u8>,
}

impl Tail {
    /// The entries since the last call.
    pub fn more(&mut self, stage: &Stage) -> Vec<Value> {
        let mut bytes = std::mem::take(&mut self.rest);
        if let Ok(mut file) = File::open(stage.journal())
            && file.seek(SeekFrom::Start(self.offset)).is_ok()
        {
            let read = file.read_to_end(&mut bytes).unwrap_or(0);
            self.offset += read as u64;
        }
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.rest = bytes.split_off(whole);
        bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }
}

/// All entries so far.
#[must_use]
pub fn entries(stage: &Stage) -> Vec<Value> {
    Tail::default().more(stage)
}

/// Whether an entry is of a kind: `event`, or `event:state` with its state, change, outcome or frame.
#[must_use]
pub fn is_of(entry: &Value, kind: &str) -> bool {
    let (event, detail) = kind.split_once(':').map_or((kind, None), |(event, detail)| (event, Some(detail)));
    let details = ["state", "change", "outcome", "frame"];
    entry["event"] == event && detail.is_none_or(|detail| details.iter().any(|field| entry[*field] == detail))
}

/// The member that an entry is about.
#[must_use]
pub fn member_of(entry: &Value) -> Option<&str> {
    entry["member"].as_str().or_else(|| entry["to"].as_str()).filter(|name| *name != "team-lead")
}
