//! Checks the JSON lines of `pitcrew attach --json`: each event number comes once and in order,
//! unless a snapshot replaces the events between, and each permission request is closed once.

use std::collections::BTreeSet;

use serde_json::Value;

/// The lines of one face, as far as they were read.
#[derive(Debug, Default)]
pub struct Stream {
    /// The number of the next event. `None` before the first snapshot of a connection.
    next_seq: Option<u64>,
    /// The permission requests that are open.
    open: BTreeSet<String>,
    /// How often the face was attached to a host.
    pub attached: u64,
    /// The outcome of the run, from its last event.
    pub outcome: Option<Value>,
    /// The error document at the end.
    pub error: Option<Value>,
    /// Whether the next snapshot is that of a new connection, whose numbers may begin again.
    is_new: bool,
    /// The bytes after the last line break.
    rest: Vec<u8>,
}

impl Stream {
    /// Reads more of the output. Returns a description of each fault in it.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<String> {
        self.rest.extend_from_slice(bytes);
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = self.rest.split_off(whole);
        let whole = std::mem::replace(&mut self.rest, rest);
        let text = String::from_utf8_lossy(&whole);
        text.lines().filter_map(|line| self.line(line).err()).collect()
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let value: Value =
            serde_json::from_str(line).map_err(|error| format!("no JSON, {error}: {line}"))?;
        if self.outcome.is_some() && value["type"].is_string() {
            return Err(format!("a line after the last event: {line}"));
        }
        match value["type"].as_str() {
            Some("attached") => {
                self.attached += 1;
                self.is_new = true;
            }
            Some("snapshot") => return self.snapshot(&value["state"]),
            // The state of the files after the end of the host. Nobody can answer any more.
            Some("recorded") => self.open.clear(),
            Some("event") => return self.event(&value),
            Some(_) => return Err(format!("a line of an unknown type: {line}")),
            None => self.error = Some(value),
        }
        Ok(())
    }

    fn snapshot(&mut self, state: &Value) -> Result<(), String> {
        let next = state["next_seq"].as_u64().unwrap_or_default();
        let questions = state["questions"].as_array().into_iter().flatten();
        self.open = questions.filter_map(|question| id(&question["id"])).collect();
        let is_new = std::mem::take(&mut self.is_new);
        match self.next_seq.replace(next) {
            Some(expected) if next < expected && !is_new => {
                Err(format!("a snapshot goes back from {expected} to {next}"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn event(&mut self, event: &Value) -> Result<(), String> {
        let seq = event["seq"].as_u64().unwrap_or(u64::MAX);
        let expected = self.next_seq.replace(seq.saturating_add(1));
        let what = &event["what"];
        if let Some(opened) = id(&what["question_opened"]["id"])
            && !self.open.insert(opened.clone())
        {
            return Err(format!("the request {opened} is opened twice"));
        }
        if let Some(closed) = id(&what["question_closed"]["id"])
            && !self.open.remove(&closed)
        {
            return Err(format!("the request {closed} is closed, and was not open"));
        }
        if !what["ended"].is_null() {
            self.outcome = Some(what["ended"].clone());
            if !self.open.is_empty() {
                return Err(format!("the run has ended, and requests are open: {:?}", self.open));
            }
        }
        match expected {
            Some(expected) if expected == seq => Ok(()),
            Some(expected) => Err(format!("the event {seq} comes in place of {expected}")),
            None => Err(format!("the event {seq} comes before a snapshot")),
        }
    }
}

fn id(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}
